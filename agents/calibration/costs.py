"""Execution costs in a market: three differences between ways to work the same parent orders, on a real day and in a population.

A policy that learns in a population is ranked there, so a population must rank simple policies as the day to which it was fitted does. The day
gives way to our orders (docs/answering.md) by the square-root law, as the flow of a population does; the comparison is of what they charge beyond
it.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from serl.agents.execution.answering.model import SQUARE_ROOT, answering_days
from serl.agents.execution.data import volume_lots_per_s
from serl.agents.execution.environment.dynamic import DynamicMarket
from serl.agents.execution.environment.episodes import Hours, RandomOrders
from serl.agents.execution.environment.hours import lot_multiple
from serl.agents.execution.environment.market import ExecutionMarket
from serl.agents.execution.environment.replay import ReplayMarket
from serl.agents.execution.environment.static import recorded_trades
from serl.agents.execution.environment.vector import ExecutionVectorEnv
from serl.agents.execution.policies.policy import Policy
from serl.agents.execution.policies.reactive import Passive, Patience
from serl.agents.execution.policies.schedules import Twap
from serl.agents.learning.evaluation import (
    Estimate,
    Hold,
    Outcome,
    bootstrap_clusters,
    bootstrap_estimates,
    costs,
    execute_orders,
    measured,
)
from serl.agents.realism.days import window_text
from serl.agents.realism.distances import CLUSTERS_MIN
from serl.agents.realism.tape import Floats
from serl.agents.traders.population import PopulationConfig
from serl.exchange.errors import ConfigError
from serl.exchange.records import Rows
from serl.history.day import Day


@dataclass(frozen=True)
class Cost:
    """One of COSTS: a measure (docs/execution.md) of a policy in mode `hybrid`."""

    name: str
    policy: Policy
    measure: str


COSTS = (
    Cost("passive - TWAP", Passive(), "PA_twap"),
    Cost("impact at touch", Patience(rest_slices=1.0, late_slices=0.0, place=1.0), "IMPACT"),
    Cost("mid - TWAP", Patience(rest_slices=1.0, late_slices=0.0, place=0.0), "PA_twap"),
)
"""Waiting at the touch compared with a TWAP; the impact of even slices that rest at the touch; even slices that rest at the mid compared with a
TWAP. Late quantity crosses."""
Columns = dict[str, dict[str, Floats]]
DAY_PAIRS, SEARCH_PAIRS, SCORE_PAIRS = 256, 8, 16
"""Number of pairs of orders on a day, and on each simulated day of the search and of the score."""
ENVIRONMENTS = 64
BOOTSTRAP_SEED = 1


@dataclass(frozen=True)
class ExecutionCosts:
    """COSTS in one market, bps."""

    estimates: dict[str, Estimate]
    """Estimates with 95 % intervals over clusters; with fewer than CLUSTERS_MIN clusters, the ends are NaN."""
    orders: int
    clusters: int
    unit: str
    """What a cluster is."""

    @property
    def values(self) -> Floats:
        """(3,) in the order of COSTS."""
        return np.array([self.estimates[cost.name].value for cost in COSTS])

    def to_json(self) -> dict[str, Any]:
        """All numbers."""
        found = {name: {"bps": one.value, "interval": one.interval} for name, one in self.estimates.items()}
        return {**found, "orders": self.orders, "clusters": self.clusters, "unit": self.unit}


@dataclass(frozen=True)
class ParentOrders:
    """Pairs of parent orders, a buy and a sell with the same window and quantity, so that the price's own moves cancel in their mean."""

    start_ns: int
    end_ns: int
    volume_lots_per_s: float
    pairs: int
    """Number of pairs per day."""
    lot_multiple: int = 1

    def sample(self, days: Sequence[int]) -> Rows:
        """(2 x days x pairs,) EPISODE rows, the same for the same days: ten minutes, a decision every ten seconds, .5 to 5 % of the volume."""
        rows = []
        for day in days:
            orders = RandomOrders([Hours(day, self.start_ns, self.end_ns, self.volume_lots_per_s, self.lot_multiple)])
            rows.append(np.repeat(orders.sample(np.random.Generator(np.random.PCG64(day)), self.pairs), 2))
        episodes = np.concatenate(rows)
        episodes["sign"] = np.tile([1, -1], len(episodes) // 2)
        return episodes


def day_orders(day: Day, start_ns: int, end_ns: int, pairs: int) -> ParentOrders:
    """Orders in hours of a day with one symbol, sized by its mean volume in them. Raises ConfigError for hours outside the day."""
    covered = day.reference.first_time_ns, day.reference.last_time_ns
    if start_ns >= covered[1] or end_ns <= covered[0]:
        raise ConfigError(
            f"hours: expected some within the day's {window_text(covered)}, got {window_text((start_ns, end_ns))}; give hours of the day"
        )
    start_ns, end_ns = max(start_ns, covered[0]), min(end_ns, covered[1])
    volume = volume_lots_per_s(recorded_trades(day)[:-1], start_ns, end_ns)
    return ParentOrders(start_ns, end_ns, volume, pairs, lot_multiple(day.commands))


def pooled_orders(days: Sequence[Day], start_ns: int, end_ns: int, pairs: int) -> ParentOrders:
    """Orders in the hours that all days have, sized by the mean of their volumes."""
    each = [day_orders(day, start_ns, end_ns, pairs) for day in days]
    volume = float(np.mean([one.volume_lots_per_s for one in each]))
    lots = math.lcm(*(one.lot_multiple for one in each))
    return ParentOrders(max(one.start_ns for one in each), min(one.end_ns for one in each), volume, pairs, lots)


def day_costs(days: Sequence[Day], start_ns: int, end_ns: int, answers: str = SQUARE_ROOT) -> ExecutionCosts:
    """COSTS in hours of replayed days with one symbol, for DAY_PAIRS pairs of orders spread evenly over the days. answers: whether the days give way,
    and by which law. Raises ConfigError if the hours are shorter than an order, and the errors of `answering_days`."""
    pairs = -(-DAY_PAIRS // len(days))
    orders = [day_orders(day, start_ns, end_ns, pairs).sample([number]) for number, day in enumerate(days)]
    market = ReplayMarket(list(days), ENVIRONMENTS, answers=answering_days(days, answers))
    return _estimated(*_measured(market, np.concatenate(orders)))


def population_costs(population: PopulationConfig, seeds: Sequence[int], orders: ParentOrders) -> ExecutionCosts:
    """COSTS on the days that a population simulates with these seeds."""
    return _estimated(*_simulated(population, seeds, orders))


def cost_distance(
    population: PopulationConfig, seeds: Sequence[int], orders: ParentOrders, real: ExecutionCosts
) -> float:
    """Mean distance of a population's COSTS from a day's, bps; NaN if the population filled none of the orders."""
    columns = _simulated(population, seeds, orders)[1]
    means = np.array([measured(cost.measure, columns[cost.name]) for cost in COSTS])
    return float(np.abs(means - real.values).mean())


def _simulated(population: PopulationConfig, seeds: Sequence[int], orders: ParentOrders) -> tuple[Rows, Columns]:
    episodes = orders.sample(seeds)
    market = DynamicMarket(population, min(ENVIRONMENTS, len(episodes)))
    try:
        return _measured(market, episodes)
    finally:
        market.close()


def _measured(market: ExecutionMarket, episodes: Rows) -> tuple[Rows, Columns]:
    """The episodes, and the columns (see `costs`) for each of COSTS."""
    return episodes, worked(market, episodes, {cost.name: cost.policy for cost in COSTS})


def worked(
    market: ExecutionMarket, episodes: Rows, policies: Mapping[str, Policy], on_policy: Callable[[str], None] = lambda name: None
) -> Columns:  # fmt: skip
    """The columns (see `costs`) of each policy, which works the episodes in mode `hybrid`. on_policy: called with each name before its run."""

    def outcome(policy: Policy, mode: str = "hybrid") -> Outcome:
        return execute_orders(ExecutionVectorEnv(market, RandomOrders(()), actions=mode), policy, episodes)

    without_us, twap = outcome(Hold(), "market"), outcome(Twap(), "market")
    found = {}
    for name, policy in policies.items():
        on_policy(name)
        found[name] = costs(episodes, outcome(policy), without_us, twap)
    return found


def _estimated(episodes: Rows, columns: Columns) -> ExecutionCosts:
    clusters, unit = bootstrap_clusters(episodes, episodes["day"])
    estimates = {
        cost.name: bootstrap_estimates(
            columns[cost.name], clusters, BOOTSTRAP_SEED, (cost.measure,), clusters_min=CLUSTERS_MIN
        )[cost.measure]
        for cost in COSTS
    }
    return ExecutionCosts(estimates, len(episodes), int(clusters.max()) + 1, unit)
