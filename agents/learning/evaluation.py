"""Policies on the same held-out parent orders, and what each cost them. Definitions: docs/execution.md.

Every contender works the same EPISODE rows in the same market. One more run trades nothing inside the window: its VWAP is what PA is
taken against, the same for all, and its mids are what the market would have done without us (common random numbers). Of a
shortfall IS = IMPACT + RISK; IMPACT is the difference of the mids at each decision, weighted by what the decision traded, and RISK is the rest:
what the market did anyway, and the spread.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from serl.agents.execution.environment.account import mids
from serl.agents.execution.environment.vector import ExecutionVectorEnv
from serl.agents.execution.policies.policy import Policy
from serl.agents.execution.policies.schedules import Schedule, Twap
from serl.agents.learning.environments import Scenario
from serl.exchange.errors import ConfigError
from serl.exchange.records import Rows

Floats = NDArray[np.float64]
CONFIDENCE, BOOTSTRAPS = 0.95, 2000
DATES_MIN, SYMBOL_DAYS_MIN = 5, 10


class Hold(Schedule):
    """Trades nothing within the window."""

    name = "hold"

    def share(self, episodes: Rows, step: object) -> Floats:
        """See Schedule."""
        return np.zeros(len(episodes))


@dataclass(frozen=True)
class Contender:
    """A policy in the table, in one of its action modes."""

    name: str
    policy: Policy
    mode: str


@dataclass(frozen=True)
class Outcome:
    """What became of n orders of s steps."""

    results: dict[str, Floats]
    """(n,) each, see Accounts.results."""
    actions: Floats
    """(decisions, k) those of orders that were not done."""
    mids_ticks: Floats
    """(n, s) at each decision."""
    lots: Floats
    """(n, s) what each decision traded; forced completion counts with the last."""


def play(env: ExecutionVectorEnv, policy: Policy, episodes: Rows) -> Outcome:
    """Works the EPISODE rows (n,), as many at a time as there are environments; ConfigError unless all have as many steps."""
    steps = int(episodes["steps"][0])
    if np.any(episodes["steps"] != steps):
        raise ConfigError("evaluation: orders with the same number of decisions are due")
    count, actions = env.num_envs, []
    results: list[dict[str, Floats]] = []
    mids_ticks, lots = np.zeros((len(episodes), steps)), np.zeros((len(episodes), steps))
    for first in range(0, len(episodes), count):
        rows = slice(first, min(first + count, len(episodes)))
        known = rows.stop - first
        places = np.minimum(np.arange(first, first + count), len(episodes) - 1)
        env.reset(seed=0, options={"episodes": episodes[places]})
        for step in range(steps):
            mids_ticks[rows, step] = mids(env.market.frames)[:known]
            chosen = policy.actions(env)
            actions.append(chosen[:known][env.accounts.parents["remaining_lots"][:known] > 0])
            fills, _ = env.decide(chosen)
            lots[rows, step] = fills["lots"][:known]
        results.append({name: values[:known].copy() for name, values in env.accounts.results().items()})
    together = {name: np.concatenate([part[name] for part in results]) for name in results[0]}
    return Outcome(together, np.concatenate(actions), mids_ticks, lots)


@dataclass(frozen=True)
class Estimate:
    """A number with its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Row:
    """A contender's line in the table."""

    name: str
    estimates: dict[str, Estimate]
    advantages_bps: Floats
    """(n,) PA of each order, NaN where the market did not trade in the window."""
    actions: Floats
    """(decisions, k)"""
    left: Floats
    """(n, s) share of each order that is left before each decision."""


@dataclass(frozen=True)
class Evaluation:
    """A table of one market and how it came about."""

    market: str
    """Kind of the market."""
    rows: list[Row]
    orders: int
    without_trades: int
    """Orders in whose window the market did not trade: no PA."""
    clusters: int
    unit: str
    """What intervals resample: so many dates, symbol-days, or blocks of these."""
    seed: int


def evaluate(
    scenario: Scenario, contenders: Sequence[Contender], episodes: int, seed: int,
    report: Callable[[int, int], None] = lambda done, all_of_them: None,
) -> Evaluation:  # fmt: skip
    """All contenders, TWAP by market orders first, on `episodes` orders that the seed determines; `report` is told what is done."""
    rows = scenario.sampler.sample(np.random.Generator(np.random.PCG64(seed)), episodes)
    everyone = [Contender("TWAP", Twap(), "market"), *contenders]
    outcomes: list[Outcome] = []
    for one in (Contender("hold", Hold(), "market"), *everyone):
        report(len(outcomes), len(everyone) + 1)
        outcomes.append(play(scenario.env_for(one.policy, one.mode), one.policy, rows))
    report(len(outcomes), len(outcomes))
    alone, twap = outcomes[0], outcomes[1]
    clusters, unit = clusters_of(rows, scenario.source.dates(rows["day"]))
    table = []
    for one, outcome in zip(everyone, outcomes[1:], strict=True):
        columns = costs(rows, outcome, alone, twap)
        left = 1 - (np.cumsum(outcome.lots, axis=1) - outcome.lots) / rows["qty_lots"][:, None]
        table.append(Row(one.name, estimates(columns, clusters, seed), columns["pa"], outcome.actions, left))
    without = int(np.isnan(alone.results["vwap_ticks"]).sum())
    return Evaluation(scenario.config.kind, table, episodes, without, int(clusters.max()) + 1, unit, seed)


def clusters_of(episodes: Rows, dates: NDArray[np.int64]) -> tuple[NDArray[np.int64], str]:
    """(n,) what bootstraps keep together, and what that is: dates, on which all stocks move together; with few, symbol-days; with
    few of these too, blocks of a window's length within them."""
    window = episodes["start_ns"] // (episodes["steps"] * episodes["interval_ns"])
    blocks = np.unique(np.stack((episodes["day"], window)), axis=1, return_inverse=True)[1].ravel()
    candidates = [
        (np.unique(dates, return_inverse=True)[1], "dates", DATES_MIN),
        (np.unique(episodes["day"], return_inverse=True)[1], "symbol-days", SYMBOL_DAYS_MIN),
        (blocks, "blocks of a window's length", 0),
    ]
    return next((numbers, unit) for numbers, unit, least in candidates if numbers.max() + 1 >= least)


def costs(episodes: Rows, outcome: Outcome, alone: Outcome, twap: Outcome) -> dict[str, Floats]:
    """(n,) each, of orders beside the same ones that trade nothing and those of a TWAP: what MEASURES are taken of."""
    sign, price = episodes["sign"], outcome.results["price_ticks"]
    arrival = alone.mids_ticks[:, 0]
    moved = np.nan_to_num(outcome.mids_ticks - alone.mids_ticks)
    impact = sign * (outcome.lots * moved).sum(axis=1) / episodes["qty_lots"] / arrival * 1e4
    shortfall = outcome.results["is_bps"]
    return {
        "pa": sign * (price / alone.results["vwap_ticks"] - 1) * 1e4,
        "pa_twap": sign * (price / twap.results["price_ticks"] - 1) * 1e4,
        "is": shortfall, "impact": impact, "risk": shortfall - impact,
        "afi": outcome.results["afi"], "ffr": outcome.results["ffr"],
    }  # fmt: skip


def gain_loss_ratio(advantages: Floats) -> float:
    """mean(PA given PA > 0) / |mean(PA given PA < 0)|; NaN without both."""
    gains, losses = advantages[advantages > 0], advantages[advantages < 0]
    return float(gains.mean() / abs(losses.mean())) if len(gains) and len(losses) else float("nan")


def win_rate(advantages: Floats) -> float:
    """Share with PA > 0, an exact zero counting one half."""
    return float(np.mean((advantages > 0) + 0.5 * (advantages == 0)))


MEASURES: dict[str, tuple[str, Callable[[Floats], float]]] = {
    "PA": ("pa", lambda values: float(values.mean())),
    "PA_twap": ("pa_twap", lambda values: float(values.mean())),
    "IS": ("is", lambda values: float(values.mean())),
    "IMPACT": ("impact", lambda values: float(values.mean())),
    "RISK": ("risk", lambda values: float(values.mean())),
    "PA-std": ("pa", lambda values: float(values.std())),
    "WR": ("pa", win_rate),
    "WR_twap": ("pa_twap", win_rate),
    "GLR": ("pa", gain_loss_ratio),
    "AFI": ("afi", lambda values: float(values.mean())),
    "FFR": ("ffr", lambda values: float(values.mean())),
}
"""Of which column, and how; those of prices in bps."""


def estimates(columns: dict[str, Floats], clusters: NDArray[np.int64], seed: int) -> dict[str, Estimate]:
    """Each measure with the central 95 % of BOOTSTRAPS resamplings of clusters, values that are not numbers left out."""
    random = np.random.Generator(np.random.PCG64(seed))
    members = [np.flatnonzero(clusters == cluster) for cluster in np.unique(clusters)]
    draws = [
        np.concatenate([members[place] for place in random.integers(len(members), size=len(members))])
        for _ in range(BOOTSTRAPS)
    ]
    found = {}
    for name, (column, measure) in MEASURES.items():
        values = columns[column]
        resampled = [_measure(measure, values[draw]) for draw in draws]
        known = [value for value in resampled if np.isfinite(value)]
        edges = [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]
        low, high = np.quantile(known, edges) if known else (np.nan, np.nan)
        found[name] = Estimate(_measure(measure, values), float(low), float(high))
    return found


def _measure(measure: Callable[[Floats], float], values: Floats) -> float:
    known = values[np.isfinite(values)]
    return measure(known) if len(known) else float("nan")
