"""The impact of a metaorder in a replay: a day with our child orders among its commands, minus the same day without them.

Both runs share everything else, so the difference of the mids is the effect of our orders. Nobody in a replay reacts, so this is the mechanical
impact: liquidity that we took and history did not replace (docs/history.md). With `answers`, history also gives way (docs/answering.md).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from serl.agents.execution.answering.model import NONE, AnsweringDay, answering_day
from serl.agents.execution.environment.hours import lot_multiple
from serl.agents.execution.environment.windows import nearest_multiples
from serl.agents.execution.order import ParentOrder, twap_targets
from serl.agents.impact.answering import execute_answering
from serl.agents.impact.errors import ImpactError
from serl.agents.realism.errors import EmptyWindow, NoTrades, NoTwoSidedBook
from serl.agents.realism.tape import MINUTE_NS, SECOND_NS, Bools, Floats, Ints, history_market, symbol_commands
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
FOLLOWED_WINDOWS = 1.0
"""The mid is followed for this many windows after the end."""


@dataclass(frozen=True)
class MidPath:
    """The mid and the executed lots, command by command."""

    time_ns: Ints
    """[command] time of the command."""
    mid_ticks: Floats
    """[command] after the command; NaN without a bid below an ask."""
    traded_lots: Ints
    """[command] lots executed by the command."""
    is_own: Bools
    """[command] whether the command is ours."""

    def mid_before(self, grid_ns: Ints) -> Floats:
        """The last known mid before each time; NaN before the first mid."""
        known = np.flatnonzero(np.isfinite(self.mid_ticks))
        place = np.searchsorted(self.time_ns[known], grid_ns, side="left") - 1
        return np.where(place >= 0, self.mid_ticks[known[np.maximum(place, 0)]], np.nan)


@dataclass(frozen=True)
class MetaorderImpact:
    """The impact of one parent order."""

    qty_share: float
    """Share of the lots that history executes in the window."""
    qty_lots: int
    filled_lots: int
    impact_ticks: Floats
    """[time] mid with the order minus mid without it, times +1 for a buy or -1 for a sell."""
    at_end_ticks: float
    """Impact at the end of the window."""
    mean_ticks: float
    """Mean impact over the grid times in the window."""
    child_ticks: Floats
    """[lag] mean impact over child orders, a lag after each."""


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
    """[lag] times after a child order, shorter than the interval."""
    window_lots: int
    """Lots that history executes in the window."""
    day_lots: int
    sigma_ticks: float
    """Standard deviation of the mid's 1-minute changes in the window, times the root of its minutes."""
    orders: tuple[MetaorderImpact, ...]
    answering: AnsweringDay | None = None
    """How the day gave way; None if it did not."""


@allocating
def _execute_all(state: Any, commands: Any, events: Any, position: Ints, touch: Ints, traded: Ints) -> int:
    """Continues at position[0]; writes touch [command, side] and traded [command]. Returns DONE or what the market needs."""
    while position[0] < commands.size:
        index = position[0]
        done, count, status = execute_batch(state, commands, index, index + 1, events, 0)
        for number in range(count):
            if events[number].kind == FILL and events[number].flags & MAKER:
                traded[index] += events[number].qty_lots
        if status != DONE and status != EVENTS_FULL:
            return int(status)
        if status == DONE:
            touch[index, 0], touch[index, 1] = state.best[0, BID], state.best[0, ASK]
            position[0] = done
    return DONE


def execute_commands(commands: Rows) -> tuple[MidPath, Market]:
    """Executes commands of symbol 0 in a new market; returns the mid's path and the market afterwards."""
    market = history_market(commands)
    position, events = np.zeros(1, np.int64), np.zeros(EVENT_ROWS, EVENT)
    touch, traded = np.zeros((len(commands), 2), np.int64), np.zeros(len(commands), np.int64)
    while _execute_all(market.state, commands, events, position, touch, traded) != DONE:
        market.grow()
    return _mid_path(commands, touch, traded), market


def _mid_path(commands: Rows, touch: Ints, traded: Ints) -> MidPath:
    bid, ask = touch[:, 0], touch[:, 1]
    mid = np.where((bid > 0) & (ask > bid), (bid + ask) / 2.0, np.nan)
    return MidPath(commands["time_ns"].copy(), mid, traded, commands["participant"] == EXECUTOR)


def execute_parent(
    commands: Rows, order: ParentOrder, lot_multiple: int, answering: AnsweringDay | None = None
) -> tuple[MidPath, int]:
    """Executes a TWAP among history's commands, on a day that gives way if `answering` is given. Returns the mid's path and the lots filled."""
    merged = insert_twap(commands, order, lot_multiple)
    if answering is None:
        path, market = execute_commands(merged)
        return path, abs(market.account(EXECUTOR).position_lots)
    touch, traded, filled_lots = execute_answering(merged, merged["participant"] == EXECUTOR, answering)
    return _mid_path(merged, touch, traded), filled_lots


def insert_twap(commands: Rows, order: ParentOrder, lot_multiple: int) -> Rows:
    """Adds equal market orders of ours to history's commands: one at the start of every interval, ahead of history's commands. They are whole
    multiples; the order's quantity must be one."""
    times = np.array(order.slice_times_ns, np.int64)
    targets = np.array(twap_targets(order.qty_lots, len(times), lot_multiple), np.int64)
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
    grid_step_ns: int = 5 * SECOND_NS, symbol: str | None = None, answers: str = NONE,
) -> ReplayImpact:  # fmt: skip
    """Replays the day without and with a TWAP of each share of the window's executed lots.

    Each parent order sends a child of whole lots every interval_ns; the unfilled rest of a child is not retried. answers: see `answering_days`.
    Raises ConfigError for a day on which the coefficient cannot be fitted, ImpactError for shares or steps that are not positive, and EmptyWindow,
    NoTrades or NoTwoSidedBook for the window.
    """
    if not qty_shares or min(qty_shares) <= 0:
        raise ImpactError(
            f"qty-share: expected positive shares of the window's volume, got {qty_shares}; give e.g. .01,.1"
        )
    if grid_step_ns <= 0:
        raise ImpactError(f"grid: expected a positive time, got {grid_step_ns} ns; give e.g. --grid 5")
    start_ns, end_ns = window
    name, commands, _ = symbol_commands(day, symbol)
    check_end(name, commands, window)
    answering = None if answers == NONE else answering_day(commands, answers)
    without, _ = execute_commands(commands)
    lots = _executed_lots(without, name, start_ns, end_ns)
    grid = np.arange(start_ns, end_ns + round(FOLLOWED_WINDOWS * (end_ns - start_ns)) + 1, grid_step_ns, dtype=np.int64)
    base = without.mid_before(grid)
    lags = CHILD_LAGS_NS[interval_ns > CHILD_LAGS_NS]
    if np.isnan(base).any():
        raise NoTwoSidedBook(
            f"{_window_name(name, start_ns, end_ns)}: expected a bid and an ask before the window, got none; give a later window"
        )
    orders, multiple = [], lot_multiple(commands)
    for share in qty_shares:
        qty_lots = int(nearest_multiples(share * lots, multiple))
        parent = ParentOrder(name, side, qty_lots, start_ns, end_ns, interval_ns)
        path, filled = execute_parent(commands, parent, multiple, answering)
        signed = -parent.sign * (path.mid_before(grid) - base)
        end = int(np.searchsorted(grid, end_ns, side="right")) - 1
        after = path.time_ns[path.is_own][:, np.newaxis] + lags + 1
        child = -parent.sign * (path.mid_before(after) - without.mid_before(after)).mean(axis=0)
        mean = float(signed[: end + 1].mean())
        orders.append(MetaorderImpact(share, qty_lots, filled, signed, float(signed[end]), mean, child))
    minutes = without.mid_before(np.arange(start_ns, end_ns + 1, MINUTE_NS, dtype=np.int64))
    sigma = float(np.diff(minutes).std() * np.sqrt(len(minutes) - 1)) if len(minutes) > 2 else float("nan")
    day_lots = int(without.traded_lots.sum())
    return ReplayImpact(name, side, start_ns, end_ns, grid, lags, lots, day_lots, sigma, tuple(orders), answering)


def check_end(name: str, commands: Rows, window: tuple[int, int]) -> None:
    """Raises EmptyWindow for a window that ends after the day's last command, rounded up to a second: nothing refills the book that our orders take."""
    if window[1] > (last_ns := -(-int(commands["time_ns"][-1]) // SECOND_NS) * SECOND_NS):
        raise EmptyWindow(
            f"{_window_name(name, *window)}: expected an end by {time_of_day_text(last_ns)}, the day's last command; give an earlier window"
        )


def _executed_lots(path: MidPath, name: str, start_ns: int, end_ns: int) -> int:
    """Lots that history executes in the window."""
    inside = (path.time_ns >= start_ns) & (path.time_ns < end_ns)
    if not inside.any():
        raise EmptyWindow(
            f"{_window_name(name, start_ns, end_ns)}: expected commands, got none; give a window within the day"
        )
    lots = int(path.traded_lots[inside].sum())
    if lots == 0:
        raise NoTrades(f"{_window_name(name, start_ns, end_ns)}: expected trades, got none; give a longer window")
    return lots


def _window_name(name: str, start_ns: int, end_ns: int) -> str:
    return f"{name} in {time_of_day_text(start_ns)}-{time_of_day_text(end_ns)}"
