"""Evaluates policies on the same held-out parent orders. docs/execution.md defines the measures.

Every contender works the same EPISODE rows in the same market. One more run trades nothing within the window: the PA of all contenders is
relative to its VWAP, and its mids show the market without us (common random numbers). The shortfall is IS = IMPACT + RISK: IMPACT is the
difference of the mids at each decision, weighted by the quantity traded there; RISK is the rest, the market's own moves and the spread.

Every table has two reference rows: a TWAP, and the patience rule, which a trained policy must beat. PA_rule is PA minus the rule's PA on the same
order. PA uses the prices paid, with spread, impact and fees. PA_mid prices what is traded between two decisions at the mean of the mids at both
(forced completion at the mid at the end), as in papers whose markets have no spread. FEES, in markets with fees, are those included in PA.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from serl.agents.execution.environment.account import mids
from serl.agents.execution.environment.vector import ExecutionVectorEnv
from serl.agents.execution.policies.policy import Policy
from serl.agents.execution.policies.reactive import Patience
from serl.agents.execution.policies.schedules import Schedule, Twap
from serl.agents.learning.environments import Scenario
from serl.agents.learning.market_config import MarketConfig
from serl.agents.realism.distances import CLUSTERS_MIN
from serl.agents.students_t import expanded
from serl.cluster import LOCAL, on_ray
from serl.exchange.errors import ConfigError
from serl.exchange.records import Rows

Floats = NDArray[np.float64]
CONFIDENCE, BOOTSTRAPS = 0.95, 2000
DATES_MIN, SYMBOL_DAYS_MIN = 5, 10


class Hold(Schedule):
    """Trades nothing within the window."""

    name = "hold"

    def target_share(self, episodes: Rows, step: object) -> Floats:
        """See Schedule."""
        return np.zeros(len(episodes))


@dataclass(frozen=True)
class Contender:
    """A policy to evaluate, in one of its action modes."""

    name: str
    policy: Policy
    mode: str


RULE = Contender("patience", Patience(), "hybrid")
"""The patience rule with its default settings, for use without training days to fit it on."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of n orders of s decisions."""

    results: dict[str, Floats]
    """(n,) each: Accounts.results, and `mid_price_ticks`, the mean mid of what was traded."""
    actions: Floats
    """(decisions, k) actions of orders with a remaining quantity."""
    mids_ticks: Floats
    """(n, s) mids at each decision."""
    lots: Floats
    """(n, s) lots traded in each decision; the last includes forced completion."""


def execute_orders(env: ExecutionVectorEnv, policy: Policy, episodes: Rows) -> Outcome:
    """Works (n,) EPISODE rows, as many at a time as there are environments. Raises ConfigError unless all have the same number of decisions."""
    steps = int(episodes["steps"][0])
    if np.any(episodes["steps"] != steps):
        raise ConfigError(
            f"evaluation: expected orders with the same number of decisions, got {np.unique(episodes['steps']).tolist()}"
        )
    count, actions = env.num_envs, []
    results: list[dict[str, Floats]] = []
    mids_ticks, lots = np.zeros((len(episodes), steps)), np.zeros((len(episodes), steps))
    for first in range(0, len(episodes), count):
        rows = slice(first, min(first + count, len(episodes)))
        used = rows.stop - first
        indices = np.minimum(np.arange(first, first + count), len(episodes) - 1)
        env.reset(seed=0, options={"episodes": episodes[indices]})
        for step in range(steps):
            mids_ticks[rows, step] = mids(env.market.frames)[:used]
            decided = policy.actions(env)
            actions.append(decided[:used][env.accounts.parents["remaining_lots"][:used] > 0])
            fills, _ = env.step_without_reset(decided)
            lots[rows, step] = fills["lots"][:used]
        of_rows = {name: values[:used].copy() for name, values in env.accounts.results().items()}
        end_mids = env.accounts.parents["mid"][:used]
        of_rows["mid_price_ticks"] = _mid_price(episodes[rows], of_rows["afi"], lots[rows], mids_ticks[rows], end_mids)
        results.append(of_rows)
    all_results = {name: np.concatenate([part[name] for part in results]) for name in results[0]}
    return Outcome(all_results, np.concatenate(actions), mids_ticks, lots)


def _mid_price(episodes: Rows, afi: Floats, lots: Floats, mids_ticks: Floats, end_mids_ticks: Floats) -> Floats:
    """(n,) mean mid of the traded lots (n, s). Forced lots, which the last decision includes, count at the mid at the end."""
    after = np.concatenate((mids_ticks[:, 1:], end_mids_ticks[:, None]), axis=1)
    between = 0.5 * (np.where(np.isnan(mids_ticks), after, mids_ticks) + np.where(np.isnan(after), mids_ticks, after))
    forced = np.minimum(afi * episodes["qty_lots"], lots[:, -1])
    notional = np.nansum(lots * between, axis=1) + forced * (end_mids_ticks - between[:, -1])
    price: Floats = notional / np.where(lots.sum(axis=1) > 0, lots.sum(axis=1), np.nan)
    return price


@dataclass(frozen=True)
class Estimate:
    """A value with its confidence interval; the ends are NaN if there is none."""

    value: float
    low: float
    high: float

    @property
    def interval(self) -> list[float] | None:
        """Its ends, as JSON has them; None without an interval."""
        return [self.low, self.high] if math.isfinite(self.low) else None


@dataclass(frozen=True)
class Row:
    """A contender's row in the table."""

    name: str
    estimates: dict[str, Estimate]
    columns: dict[str, Floats]
    """(n,) each; see `costs`. Columns of PA are NaN where the market did not trade in the window."""
    actions: Floats
    """(decisions, k)"""
    remaining: Floats
    """(n, s) share of each order that remains before each decision."""


@dataclass(frozen=True)
class Evaluation:
    """The table of one market, and how it was obtained."""

    market: str
    """Kind of the market; for bars, with the model of fills."""
    rows: list[Row]
    orders: int
    without_trades: int
    """Number of orders without PA, because the market did not trade in their window."""
    clusters: int
    unit: str
    """What the bootstrap resamples: dates, symbol-days, or blocks of these."""
    seed: int


def evaluate(
    scenario: Scenario, contenders: Sequence[Contender], episodes: int, seed: int,
    report: Callable[[int, int], None] = lambda done, total: None, rule: Contender = RULE, on: str = LOCAL,
) -> Evaluation:  # fmt: skip
    """Evaluates a TWAP with market orders, the rule, then all contenders, on `episodes` orders that the seed determines. Calls `report` with the
    number of finished runs and the total. on: where the runs, one for each contender, are executed (`serl.cluster.check_place`); a cluster opens
    the market again from the scenario's settings. Raises ConfigError for a policy that was trained in the hours of the orders."""
    rows = scenario.sampler.sample(np.random.Generator(np.random.PCG64(seed)), episodes)
    for contender in contenders:
        scenario.check_not_trained_on(contender.policy)
    all_contenders = [Contender("TWAP", Twap(), "market"), rule, *contenders]
    outcomes = _outcomes(scenario, [Contender("hold", Hold(), "market"), *all_contenders], rows, report, on)
    without_us, twap, ruled = outcomes[:3]
    clusters, unit = bootstrap_clusters(rows, scenario.source.dates(rows["day"]))
    charged = any(outcome.results["fees_bps"].any() for outcome in outcomes)
    table = []
    for contender, outcome in zip(all_contenders, outcomes[1:], strict=True):
        columns = costs(rows, outcome, without_us, twap, ruled)
        if not charged:
            del columns["fees"]
        remaining = 1 - (np.cumsum(outcome.lots, axis=1) - outcome.lots) / rows["qty_lots"][:, None]
        intervals = bootstrap_estimates(columns, clusters, seed, clusters_min=CLUSTERS_MIN)
        table.append(Row(contender.name, intervals, columns, outcome.actions, remaining))
    without_trades = int(np.isnan(without_us.results["vwap_ticks"]).sum())
    return Evaluation(scenario.market_name, table, episodes, without_trades, int(clusters.max()) + 1, unit, seed)


def _outcomes(
    scenario: Scenario, contenders: Sequence[Contender], rows: Rows, report: Callable[[int, int], None], on: str
) -> list[Outcome]:
    """The outcome of each contender."""
    total = len(contenders)
    report(0, total)
    if on == LOCAL:
        outcomes = []
        for contender in contenders:
            outcomes.append(_work(scenario, contender, rows))
            report(len(outcomes), total)
        return outcomes
    market = scenario.config.absolute()
    jobs = {number: partial(_work_anew, market, contender, rows) for number, contender in enumerate(contenders)}
    found: dict[int, Outcome] = {}
    for number, outcome in on_ray(jobs, on):
        found[number] = outcome
        report(len(found), total)
    return [found[number] for number in range(total)]


def _work(scenario: Scenario, contender: Contender, rows: Rows) -> Outcome:
    return execute_orders(scenario.env_for(contender.policy, contender.mode), contender.policy, rows)


def _work_anew(market: MarketConfig, contender: Contender, rows: Rows) -> Outcome:
    return _work(Scenario(market), contender, rows)


def bootstrap_clusters(episodes: Rows, dates: NDArray[np.int64]) -> tuple[NDArray[np.int64], str]:
    """(n,) cluster of each order for the bootstrap, and the kind of cluster: dates, because all stocks of a date move together; symbol-days, if
    there are few dates; blocks of a window's length within symbol-days, if there are few of these too."""
    window = episodes["start_ns"] // (episodes["steps"] * episodes["interval_ns"])
    blocks = np.unique(np.stack((episodes["day"], window)), axis=1, return_inverse=True)[1].ravel()
    candidates = [
        (np.unique(dates, return_inverse=True)[1], "dates", DATES_MIN),
        (np.unique(episodes["day"], return_inverse=True)[1], "symbol-days", SYMBOL_DAYS_MIN),
        (blocks, "blocks of a window's length", 0),
    ]
    return next((numbers, unit) for numbers, unit, count_min in candidates if numbers.max() + 1 >= count_min)


def costs(
    episodes: Rows, outcome: Outcome, without_us: Outcome, twap: Outcome, rule: Outcome | None = None
) -> dict[str, Floats]:
    """(n,) each: the columns of MEASURES, from the outcomes of the orders, of the same windows without trading, of a TWAP and of the rule. Without
    the rule, `pa_rule` is missing."""
    sign, price, vwap = episodes["sign"], outcome.results["price_ticks"], without_us.results["vwap_ticks"]
    arrival = without_us.mids_ticks[:, 0]
    moved = np.nan_to_num(outcome.mids_ticks - without_us.mids_ticks)
    impact = sign * (outcome.lots * moved).sum(axis=1) / episodes["qty_lots"] / arrival * 1e4
    shortfall = outcome.results["is_bps"]
    against_rule = {} if rule is None else {"pa_rule": sign * (price - rule.results["price_ticks"]) / vwap * 1e4}
    return against_rule | {
        "pa": sign * (price / vwap - 1) * 1e4,
        "pa_mid": sign * (outcome.results["mid_price_ticks"] / vwap - 1) * 1e4,
        "pa_twap": sign * (price / twap.results["price_ticks"] - 1) * 1e4,
        "is": shortfall, "impact": impact, "risk": shortfall - impact,
        "afi": outcome.results["afi"], "ffr": outcome.results["ffr"], "fees": outcome.results["fees_bps"],
    }  # fmt: skip


def gain_loss_ratio(advantages: Floats) -> float:
    """mean(PA given PA > 0) / |mean(PA given PA < 0)|; NaN unless both exist."""
    gains, losses = advantages[advantages > 0], advantages[advantages < 0]
    return float(gains.mean() / abs(losses.mean())) if len(gains) and len(losses) else float("nan")


def win_rate(advantages: Floats) -> float:
    """Share of orders with PA > 0; an exact zero counts one half."""
    return float(np.mean((advantages > 0) + 0.5 * (advantages == 0)))


MEASURES: dict[str, tuple[str, Callable[[Floats], float]]] = {
    "PA": ("pa", lambda values: float(values.mean())),
    "PA_mid": ("pa_mid", lambda values: float(values.mean())),
    "PA_rule": ("pa_rule", lambda values: float(values.mean())),
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
    "FEES": ("fees", lambda values: float(values.mean())),
}
"""The column of each measure, and its function."""


def measured(name: str, columns: dict[str, Floats]) -> float:
    """A measure without its interval; ignores NaN."""
    column, measure = MEASURES[name]
    return _finite_measure(measure, columns[column])


def bootstrap_estimates(
    columns: dict[str, Floats], clusters: NDArray[np.int64], seed: int, names: Sequence[str] = tuple(MEASURES), *, clusters_min: int = 1
) -> dict[str, Estimate]:  # fmt: skip
    """Each measure that has a column, with its 95 % interval from BOOTSTRAPS resamples of whole clusters (with few clusters wider than the central
    95 % of the resamples, see `expanded`); ignores NaN. With fewer clusters than `clusters_min` the ends are NaN: with three clusters, for example,
    all draws are between the smallest and the largest, and the true value is so in only 75 % of cases."""
    random = np.random.Generator(np.random.PCG64(seed))
    members = [np.flatnonzero(clusters == cluster) for cluster in np.unique(clusters)]
    found: dict[str, list[float]] = {name: [] for name in names if MEASURES[name][0] in columns}
    for _ in range(BOOTSTRAPS if len(members) >= clusters_min else 0):
        draw = np.concatenate([members[index] for index in random.integers(len(members), size=len(members))])
        for name, resampled in found.items():
            column, measure = MEASURES[name]
            resampled.append(_finite_measure(measure, columns[column][draw]))
    result = {}
    for name, resampled in found.items():
        finite = [value for value in resampled if np.isfinite(value)]
        low, high = np.quantile(finite, expanded(len(members))) if finite else (np.nan, np.nan)
        result[name] = Estimate(measured(name, columns), float(low), float(high))
    return result


def _finite_measure(measure: Callable[[Floats], float], values: Floats) -> float:
    finite = values[np.isfinite(values)]
    return measure(finite) if len(finite) else float("nan")
