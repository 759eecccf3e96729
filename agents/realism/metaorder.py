"""The impact of a metaorder in a replay: a day with our child orders among its commands, and the same day without.

Both plays share everything else, so the difference of the mids is what our orders did. Nobody in a replay reacts: this is
the mechanical impact, what we took and history did not put back (docs/history.md).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from serl.agents.execution.order import ParentOrder, twap_targets
from serl.agents.realism.errors import EmptyWindow, NoTrades, NoTwoSidedBook, RealismError
from serl.agents.realism.tape import MINUTE_NS, SECOND_NS, Bools, Floats, Ints, commands_of, market_with_history
from serl.exchange.compiling import allocating
from serl.exchange.config import time_of_day_text
from serl.exchange.kernel.commands import DONE, EVENTS_FULL, execute_batch
from serl.exchange.kernel.state import ASK, BID
from serl.exchange.market import Market
from serl.exchange.records import (
    EVENT,
    CommandFlag,
    CommandKind,
    EventFlag,
    EventKind,
    Rows,
    Side,
    TimeInForce,
    command,
)
from serl.history.day import Day

EXECUTOR = 0
FILL, MAKER = int(EventKind.FILL), int(EventFlag.MAKER)
EVENT_ROWS = 4096
CHILD_LAGS_NS = np.array(
    [0, 10**7, 10**8, 10**9, 2 * 10**9, 5 * 10**9, 10**10, 2 * 10**10, 5 * 10**10, 10**11], np.int64
)
AFTER_SHARE = 1.0
"""How long after the window the mid is followed, in windows."""


@dataclass(frozen=True)
class Path:
    """Both touch prices and our and all executions, command by command."""

    time_ns: Ints
    """[command]"""
    mid_ticks: Floats
    """[command] after it, NaN where a side is empty."""
    traded_lots: Ints
    """[command] executed by it."""
    own: Bools
    """[command] whether it is ours."""

    def mid_at(self, grid_ns: Ints) -> Floats:
        """The last known mid before each time; NaN before the first one."""
        known = np.flatnonzero(np.isfinite(self.mid_ticks))
        place = np.searchsorted(self.time_ns[known], grid_ns, side="left") - 1
        return np.where(place >= 0, self.mid_ticks[known[np.maximum(place, 0)]], np.nan)


@dataclass(frozen=True)
class MetaorderImpact:
    """What one parent order did to the mid."""

    qty_share: float
    """Of the lots that history executes in the window."""
    qty_lots: int
    filled_lots: int
    impact_ticks: Floats
    """[time] mid with less mid without it, times +1 for a buy and -1 for a sell."""
    at_end_ticks: float
    """At the end of the window."""
    mean_ticks: float
    """Over the times of the grid in the window."""
    child_ticks: Floats
    """[lag] mean over children, that long after each."""


@dataclass(frozen=True)
class ReplayImpact:
    """Parent orders of several sizes in the same window of a day."""

    symbol: str
    side: Side
    start_ns: int
    end_ns: int
    grid_ns: Ints
    """[time] from the window's start to one window after its end."""
    lags_ns: Ints
    """[lag] after a child order, shorter than the interval."""
    window_lots: int
    """That history executes in the window."""
    day_lots: int
    sigma_ticks: float
    """Standard deviation of the mid's 1-minute changes in the window, times the root of its minutes."""
    orders: tuple[MetaorderImpact, ...]


@allocating
def _follow(state: Any, commands: Any, events: Any, at: Ints, touch: Ints, traded: Ints) -> int:
    """Goes on from at[0]; writes touch [command, side] and traded [command]; DONE or what the market needs."""
    while at[0] < commands.size:
        index = at[0]
        done, count, status = execute_batch(state, commands, index, index + 1, events, 0)
        for number in range(count):
            if events[number].kind == FILL and events[number].flags & MAKER:
                traded[index] += events[number].qty_lots
        if status != DONE and status != EVENTS_FULL:
            return int(status)
        if status == DONE:
            touch[index, 0], touch[index, 1] = state.best[0, BID], state.best[0, ASK]
            at[0] = done
    return DONE


def follow(commands: Rows) -> tuple[Path, Market]:
    """Plays commands of symbol 0 in a fresh market; the path, and the market after them."""
    market = market_with_history()
    at, events = np.zeros(1, np.int64), np.zeros(EVENT_ROWS, EVENT)
    touch, traded = np.zeros((len(commands), 2), np.int64), np.zeros(len(commands), np.int64)
    while _follow(market.state, commands, events, at, touch, traded) != DONE:
        market.grow()
    mid = np.where((touch > 0).all(axis=1), touch.sum(axis=1) / 2.0, np.nan)
    return Path(commands["time_ns"].copy(), mid, traded, commands["participant"] == EXECUTOR), market


def with_parent(commands: Rows, order: ParentOrder) -> Rows:
    """History's commands with an equal market order of ours at the beginning of every interval, before history's."""
    times = np.array(order.slice_times_ns, np.int64)
    targets = np.array(twap_targets(order.qty_lots, len(times)), np.int64)
    qty = np.diff(targets, prepend=0)
    children = np.repeat(
        command(
            CommandKind.NEW, side=order.side, time_in_force=TimeInForce.IOC, flags=CommandFlag.MARKET,
            participant=EXECUTOR,
        ),
        int((qty > 0).sum()),
    )  # fmt: skip
    children["time_ns"], children["qty_lots"] = times[qty > 0], qty[qty > 0]
    children["command_id"] = np.arange(1, len(children) + 1)
    merged = np.insert(commands, np.searchsorted(commands["time_ns"], children["time_ns"], side="left"), children)
    merged["sequence"] = np.arange(1, len(merged) + 1)
    return merged


def replay_impact(
    day: Day, side: Side, qty_shares: list[float], window: tuple[int, int], *, interval_ns: int = 30 * SECOND_NS,
    grid_step_ns: int = 5 * SECOND_NS, symbol: str | None = None,
) -> ReplayImpact:  # fmt: skip
    """Plays the day without and with a TWAP of each share of the window's executed lots.

    Every parent order has children of whole lots every interval_ns; what a child does not get is not tried again.
    RealismError for shares or steps that are not positive, EmptyWindow, NoTrades or NoTwoSidedBook for the window.
    """
    if not qty_shares or min(qty_shares) <= 0:
        raise RealismError(f"qty-share: positive shares of the window's volume are due, like .01,.1, got {qty_shares}")
    if grid_step_ns <= 0:
        raise RealismError(f"grid: a positive time is due, got {grid_step_ns} ns")
    start_ns, end_ns = window
    name, commands, _ = commands_of(day, symbol)
    without, _ = follow(commands)
    lots = _executed(without, name, start_ns, end_ns)
    grid = np.arange(start_ns, end_ns + round(AFTER_SHARE * (end_ns - start_ns)) + 1, grid_step_ns, dtype=np.int64)
    base = without.mid_at(grid)
    lags = CHILD_LAGS_NS[interval_ns > CHILD_LAGS_NS]
    if np.isnan(base).any():
        raise NoTwoSidedBook(
            f"{name} in {time_of_day_text(start_ns)}-{time_of_day_text(end_ns)}: no bid and ask before it; give a later window"
        )
    orders = []
    for share in qty_shares:
        qty_lots = max(1, round(share * lots))
        parent = ParentOrder(name, side, qty_lots, start_ns, end_ns, interval_ns)
        path, market = follow(with_parent(commands, parent))
        signed = -parent.sign * (path.mid_at(grid) - base)
        filled = abs(market.account(EXECUTOR).position_lots)
        end = int(np.searchsorted(grid, end_ns, side="right")) - 1
        after = path.time_ns[path.own][:, np.newaxis] + lags + 1
        child = -parent.sign * (path.mid_at(after) - without.mid_at(after)).mean(axis=0)
        mean = float(signed[: end + 1].mean())
        orders.append(MetaorderImpact(share, qty_lots, filled, signed, float(signed[end]), mean, child))
    minutes = without.mid_at(np.arange(start_ns, end_ns + 1, MINUTE_NS, dtype=np.int64))
    sigma = float(np.diff(minutes).std() * np.sqrt(len(minutes) - 1)) if len(minutes) > 2 else float("nan")
    day_lots = int(without.traded_lots.sum())
    return ReplayImpact(name, side, start_ns, end_ns, grid, lags, lots, day_lots, sigma, tuple(orders))


def _executed(path: Path, name: str, start_ns: int, end_ns: int) -> int:
    """Lots that history executes in the window."""
    inside = (path.time_ns >= start_ns) & (path.time_ns < end_ns)
    where = f"{name} in {time_of_day_text(start_ns)}-{time_of_day_text(end_ns)}"
    if not inside.any():
        raise EmptyWindow(f"{where}: no command; give a window within the day")
    lots = int(path.traded_lots[inside].sum())
    if lots == 0:
        raise NoTrades(f"{where}: no trade; give a longer window")
    return lots
