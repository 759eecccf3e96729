"""The measures of a simulated day, one function per measure. docs/experiments.md also defines them.

Prices are compared in basis points (bps), because arms may have different tick sizes. NaN means that the day has nothing to measure.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from serl.agents.experiments.quotes import ASK_LOTS, ASK_TICKS, BID_LOTS, BID_TICKS, Floats, Quotes
from serl.agents.realism.scores import last_before
from serl.agents.realism.tape import MINUTE_NS
from serl.agents.traders.population import PopulationConfig
from serl.exchange.records import MICRO

BPS = 1e4
LONG_MINUTES = 5
PNL = "pnl"


def _time_mean(quotes: Quotes, values: NDArray[np.floating[Any]]) -> float:
    """The mean of values (Q,), one per quote, weighted by the duration of each quote, over the time with a bid and an ask."""
    weights = quotes.duration_ns[quotes.quoted]
    total = float(weights.sum())
    return float((values[quotes.quoted] * weights).sum() / total) if total else math.nan


def spread_ticks(quotes: Quotes) -> float:
    """Time-weighted quoted spread, ask - bid."""
    return _time_mean(quotes, (quotes.rows[:, ASK_TICKS] - quotes.rows[:, BID_TICKS]).astype(np.float64))


def spread_bps(quotes: Quotes) -> float:
    """Time-weighted quoted spread, (ask - bid) / mid."""
    bid, ask = quotes.rows[:, BID_TICKS], quotes.rows[:, ASK_TICKS]
    mid = np.maximum(1.0, 0.5 * (ask + bid))
    return BPS * _time_mean(quotes, (ask - bid) / mid)


def effective_spread_bps(quotes: Quotes) -> float:
    """2 s (p - m) / m of every trade, weighted by lots (Huang and Stoll 1996, Dealer versus auction markets).

    s is 1 if the taker buys and -1 if it sells, m is the mid just before the taker's order arrives. Auctions are left out, because they have no taker.
    """
    return BPS * quotes.effective_spread


def depth_lots(quotes: Quotes) -> float:
    """Time-weighted mean of the lots at the best bid and at the best ask."""
    return _time_mean(quotes, 0.5 * (quotes.rows[:, BID_LOTS] + quotes.rows[:, ASK_LOTS]))


def empty_share(quotes: Quotes) -> float:
    """Share of the time without a bid or without an ask."""
    empty = (quotes.rows[:, BID_TICKS] == 0) | (quotes.rows[:, ASK_TICKS] == 0)
    return float(quotes.duration_ns[empty].sum() / quotes.duration_ns.sum())


def minute_returns(quotes: Quotes) -> Floats:
    """Changes of the log mid over whole minutes from the open; uses the last known mid where there is none."""
    if not len(quotes.mids_ticks):
        return np.zeros(0)
    grid = np.arange(quotes.open_ns, quotes.end_ns + 1, MINUTE_NS, dtype=np.int64)
    return np.diff(last_before(quotes.mid_times_ns, np.log(quotes.mids_ticks), grid))


def volatility_bps(quotes: Quotes) -> float:
    """Realised volatility of a minute: the root of the mean squared 1-minute return (Andersen, Bollerslev, Diebold, Labys 2003)."""
    returns = minute_returns(quotes)
    return BPS * float(np.sqrt((returns**2).mean())) if len(returns) else math.nan


def drawdown_bps(quotes: Quotes) -> float:
    """The largest fall of the mid from an earlier peak of the day, as a share of that peak."""
    mids = quotes.mids_ticks
    return BPS * float((1.0 - mids / np.maximum.accumulate(mids)).max()) if len(mids) else math.nan


def variance_ratio(quotes: Quotes) -> float:
    """Variance of 5-minute returns over 5 times that of 1-minute returns: 1 for a random walk, less if moves reverse.

    With overlapping returns and the unbiased estimates of Lo and MacKinlay 1988, Stock market prices do not follow random walks (12a, 12b).
    NaN with fewer than ten returns.
    """
    returns, size = minute_returns(quotes), LONG_MINUTES
    count = len(returns)
    if count < 2 * size:
        return math.nan
    drift = returns.mean()
    short = float(((returns - drift) ** 2).sum()) / (count - 1)
    sums = np.convolve(returns, np.ones(size), mode="valid")
    long = float(((sums - size * drift) ** 2).sum()) / (size * (count - size + 1) * (1 - size / count))
    return long / short if short > 0 else math.nan


def value_error_bps(quotes: Quotes) -> float:
    """Root mean square of (mid - v) / v, with the fundamental value v, on the value's time grid, from the first mid on."""
    if not len(quotes.mids_ticks):
        return math.nan
    times = quotes.open_ns + quotes.value_step_ns * np.arange(len(quotes.value_ticks), dtype=np.int64)
    inside = (times > quotes.mid_times_ns[0]) & (times <= quotes.end_ns)
    if not inside.any():
        return math.nan
    value = quotes.value_ticks[inside]
    error = last_before(quotes.mid_times_ns, quotes.mids_ticks, times[inside]) / value - 1.0
    return BPS * float(np.sqrt((error**2).mean()))


@dataclass(frozen=True)
class Measure:
    """A measure of a day."""

    title: str
    unit: str
    compute: Callable[[Quotes], float]


MEASURES = {
    "trades": Measure("trades", "", lambda quotes: float(quotes.trades)),
    "volume_lots": Measure("volume", "lots", lambda quotes: float(quotes.volume_lots)),
    "spread_bps": Measure("quoted spread", "bps", spread_bps),
    "spread_ticks": Measure("quoted spread", "ticks", spread_ticks),
    "effective_spread_bps": Measure("effective spread", "bps", effective_spread_bps),
    "depth_lots": Measure("depth at the touch", "lots", depth_lots),
    "empty_share": Measure("time without a bid or an ask", "share", empty_share),
    "volatility_bps": Measure("volatility of a minute", "bps", volatility_bps),
    "drawdown_bps": Measure("largest fall of the mid", "bps", drawdown_bps),
    "variance_ratio": Measure("variance ratio, 5 min to 1 min", "", variance_ratio),
    "value_error_bps": Measure("distance of mid and value", "bps", value_error_bps),
}
"""All measures by name, except PNL, the profit and loss of the traders."""


def group_pnl(population: PopulationConfig, agents: Any, quotes: Quotes) -> dict[str, float]:
    """Mean profit and loss per trader of each group, in money, by `pnl.INDEX.KIND`: cash plus the position at the last mid, less fees.

    agents: AGENT rows. NaN if there was never a mid.
    """
    mid_ticks = float(quotes.mids_ticks[-1]) if len(quotes.mids_ticks) else math.nan
    value_ticks = agents["cash_ticks"] + agents["position_lots"] * mid_ticks - agents["fee_microticks"] / MICRO
    money = value_ticks * quotes.tick
    return {
        f"{PNL}.{index}.{group.trader}": float(money[agents["kind"] == index].mean())
        for index, group in enumerate(population.groups)
    }


def describe(name: str) -> tuple[str, str]:
    """(title, unit) of a measure, including those of `group_pnl`."""
    if name in MEASURES:
        return MEASURES[name].title, MEASURES[name].unit
    _, index, kind = name.split(".", 2)
    return f"PnL, groups.{index} {kind}", "money"
