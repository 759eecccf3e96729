"""Compares how a population and the day to which it was fitted rank execution policies. Fixed policies work the same kind of orders in both.

A policy that is learnt or chosen in a population is useful only if its advantage is the same in the market. The replayed day does not react
to orders, so what it charges is a lower bound for all policies that take.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from serl.agents.calibration.costs import ENVIRONMENTS, ParentOrders, day_orders, worked
from serl.agents.execution.answering.model import NONE, answering_days
from serl.agents.execution.environment.dynamic import DynamicMarket
from serl.agents.execution.environment.market import ExecutionMarket
from serl.agents.execution.environment.replay import ReplayMarket
from serl.agents.execution.policies.policy import Policy
from serl.agents.execution.policies.reactive import Aggressive, Participation, Passive, Patience
from serl.agents.execution.policies.schedules import AlmgrenChriss, Twap
from serl.agents.learning.evaluation import Estimate, bootstrap_clusters
from serl.agents.realism.distances import CLUSTERS_MIN
from serl.agents.realism.tape import Floats
from serl.agents.students_t import expanded
from serl.agents.traders.population import PopulationConfig
from serl.exchange.errors import ConfigError
from serl.history.day import Day

POLICIES: Mapping[str, Policy] = {
    "TWAP": Twap(),
    "AC": AlmgrenChriss(),
    "POV 10 %": Participation(0.1),
    "POV 30 %": Participation(0.3),
    "all at once": Aggressive(),
    "passive": Passive(),
    "slice at touch": Patience(rest_slices=1.0, late_slices=0.0, place=1.0),
    "slice at mid": Patience(rest_slices=1.0, late_slices=0.0, place=0.0),
    "slice behind": Patience(rest_slices=1.0, late_slices=0.0, place=2.0),
    "patient, touch": Patience(rest_slices=4.0, late_slices=3.0, place=1.0),
    "patient, mid": Patience(rest_slices=4.0, late_slices=3.0, place=0.0),
}
"""The policies, from taking at once to waiting, all in action mode `hybrid`. None is fitted to a market."""
DAY_PAIRS, POPULATION_PAIRS = 128, 16
"""Number of pairs of a buy and a sell order on the day, and on each simulated day."""
DRAWS, BOOTSTRAP_SEED = 2000, 1
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Advantages:
    """PA of every policy on the same orders in one market."""

    pa_bps: Floats
    """[policy, order] PA; NaN where the market did not trade in the window."""
    clusters: NDArray[np.int64]
    """[order] number of the block of the day, or of the simulated day."""
    unit: str
    """What a cluster is."""

    @property
    def means(self) -> Floats:
        """[policy] mean PA, bps."""
        return np.nanmean(self.pa_bps, axis=1)

    def draws(self, seed: int) -> Floats:
        """[draw, policy] means over resampled clusters."""
        random, count = np.random.Generator(np.random.PCG64(seed)), int(self.clusters.max()) + 1
        weights = random.multinomial(count, np.full(count, 1 / count), DRAWS)[:, self.clusters]
        finite = np.isfinite(self.pa_bps)
        sums, sizes = weights @ np.where(finite, self.pa_bps, 0.0).T, weights @ finite.T
        return np.divide(sums, sizes, out=np.full(sums.shape, np.nan), where=sizes > 0)

    def measured(self, name: str) -> "Advantages":
        """Only the orders with a PA: clusters without one say nothing, so they do not count. Raises ConfigError for a market, `name`, without any."""
        known = np.isfinite(self.pa_bps).any(axis=0)
        if not known.any():
            raise ConfigError(f"{name}: expected trades while the orders are worked, got none; give other --hours")
        clusters = np.unique(self.clusters[known], return_inverse=True)[1]
        return Advantages(self.pa_bps[:, known], clusters, self.unit)


@dataclass(frozen=True)
class Ranking:
    """The rankings of POLICIES by a population and by the day."""

    names: tuple[str, ...]
    day: tuple[Estimate, ...]
    """[policy] PA in bps. It and all other estimates have 95 % intervals over clusters, whose ends are NaN for fewer than CLUSTERS_MIN."""
    population: tuple[Estimate, ...]
    differences: tuple[Estimate, ...]
    """[policy] population minus day, after subtracting the mean over the policies from both: a market that is more expensive for all policies ranks
    them the same."""
    correlation: Estimate
    """Spearman's rank correlation of the mean PA."""
    orders: tuple[int, int]
    clusters: tuple[int, int]
    units: tuple[str, str]

    @property
    def largest_difference_bps(self) -> float:
        """The largest absolute difference among the policies."""
        return max(abs(one.value) for one in self.differences)


def rank(
    day: Day, population: PopulationConfig, start_ns: int, end_ns: int, seeds: Sequence[int], on_policy: Progress = lambda name: None,
    answers: str = NONE,
) -> Ranking:  # fmt: skip
    """Works the same kind of orders in hours of a day with one symbol and on simulated days. on_policy: called with the name of each policy and market
    before its run. answers: whether the day gives way, and by which law (docs/answering.md). Raises ConfigError if the hours are shorter than an
    order."""
    orders = day_orders(day, start_ns, end_ns, DAY_PAIRS)
    replayed = ReplayMarket([day], ENVIRONMENTS, answers=answering_days([day], answers))
    real = advantages(replayed, orders, [0], "day", on_policy)
    fewer = dataclasses.replace(orders, pairs=POPULATION_PAIRS)
    market = DynamicMarket(population, min(ENVIRONMENTS, 2 * POPULATION_PAIRS * len(seeds)))
    try:
        simulated = advantages(market, fewer, seeds, population.name, on_policy)
    finally:
        market.close()
    return compare(real, simulated)


def advantages(
    market: ExecutionMarket, orders: ParentOrders, days: Sequence[int], name: str, on_policy: Progress
) -> Advantages:
    """PA of all POLICIES on the orders of some days of a market. name: name of the market, for `on_policy` and errors. Raises ConfigError if it did not
    trade while they are worked."""
    episodes = orders.sample(days)
    found = worked(market, episodes, POLICIES, lambda label: on_policy(f"{label}, {name}"))
    pa_bps = np.array([columns["pa"] for columns in found.values()])
    clusters, unit = bootstrap_clusters(episodes, episodes["day"])
    return Advantages(pa_bps, clusters, unit).measured(name)


def compare(real: Advantages, simulated: Advantages) -> Ranking:
    """Compares the rankings in a real and a simulated market."""
    draws = real.draws(BOOTSTRAP_SEED), simulated.draws(BOOTSTRAP_SEED + 1)
    shifts = _centred(simulated.means) - _centred(real.means), _centred(draws[1]) - _centred(draws[0])
    counts = int(real.clusters.max()) + 1, int(simulated.clusters.max()) + 1
    correlations = np.array([spearman(one, other) for one, other in zip(*draws, strict=True)])
    return Ranking(
        tuple(POLICIES), _estimates(real.means, draws[0], counts[0]), _estimates(simulated.means, draws[1], counts[1]),
        _estimates(*shifts, min(counts)), _estimate(spearman(real.means, simulated.means), correlations, min(counts)),
        (real.pa_bps.shape[1], simulated.pa_bps.shape[1]), counts, (real.unit, simulated.unit),
    )  # fmt: skip


def spearman(one: Floats, other: Floats) -> float:
    """Correlation of the ranks of (k,) values; Spearman (1904). Equal values share their mean rank; 0 if all are equal."""
    first, second = (np.sign(values[:, np.newaxis] - values).sum(axis=1) for values in (one, other))
    scale = float(np.sqrt((first @ first) * (second @ second)))
    return float(first @ second) / scale if scale > 0 else 0.0


def _centred(values: Floats) -> Floats:
    centred: Floats = values - values.mean(axis=-1, keepdims=True)
    return centred


def _estimates(values: Floats, draws: Floats, clusters: int) -> tuple[Estimate, ...]:
    return tuple(_estimate(float(value), column, clusters) for value, column in zip(values, draws.T, strict=True))


def _estimate(value: float, draws: Floats, clusters: int) -> Estimate:
    """An estimate, without an interval for fewer than CLUSTERS_MIN clusters: all draws from one cluster are the value itself, and draws from a few
    are between their extremes."""
    known = draws[np.isfinite(draws)]
    low, high = np.quantile(known, expanded(clusters)) if clusters >= CLUSTERS_MIN and len(known) else (np.nan, np.nan)
    return Estimate(value, float(low), float(high))
