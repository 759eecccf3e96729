"""A day played through the order book, command by command, into visible messages and the book after each.

What LOBSTER would show of it with `levels` levels a side: new orders and cancellations within the view, and every
execution. Executions of one marketable order are one message. Orders that a reader of history made up (the opening
book, what came back into view) change the book and are no messages.
"""

from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from serl.exchange.kernel.commands import DONE, EVENTS_FULL, execute_batch
from serl.exchange.kernel.levels import levels
from serl.exchange.records import CommandKind, EventFlag, EventKind, Rows, Side, TimeInForce

LIMIT, MARKET, CANCEL = 0, 1, 2
"""Kinds of messages."""
ARRAYS_FULL = -1
"""Status: the arrays for messages or events are too small."""

BUY, SELL = int(Side.BUY), int(Side.SELL)
IOC = int(TimeInForce.IOC)
NEW, CANCEL_COMMAND, REDUCE = int(CommandKind.NEW), int(CommandKind.CANCEL), int(CommandKind.REDUCE)
ACCEPTED, RESTED, FILL = int(EventKind.ACCEPTED), int(EventKind.RESTED), int(EventKind.FILL)
CANCELLED, REDUCED, REPLACED = int(EventKind.CANCELLED), int(EventKind.REDUCED), int(EventKind.REPLACED)
RESTING, MAKER = int(EventFlag.RESTING), int(EventFlag.MAKER)
UNKNOWN_NS = -1
"""Of `entered_ns`: the order's beginning was not seen."""


class TapeArrays(NamedTuple):
    """Where a day is written to: messages by [message], books by [message + 1, side (bids first), level]."""

    time_ns: NDArray[np.int64]
    kind: NDArray[np.int8]
    side: NDArray[np.int8]
    price_ticks: NDArray[np.int64]
    qty_lots: NDArray[np.int64]
    entered_ns: NDArray[np.int64]
    first: NDArray[np.bool_]
    row: NDArray[np.int64]
    book_ticks: NDArray[np.int64]
    book_lots: NDArray[np.int64]
    order_entered_ns: NDArray[np.int64]
    """[order_id] when the order was seen to arrive, or UNKNOWN_NS."""
    order_reduced: NDArray[np.bool_]
    """[order_id] whether the order was reduced or cancelled before."""
    view_ticks: NDArray[np.int64]
    """[side, level + 1] the book as the messages so far left it, one level deeper than shown."""
    view_lots: NDArray[np.int64]
    at: NDArray[np.int64]
    """[0] next command, [1] messages written."""


def allocate_tape(room: int, commands: int, levels_shown: int) -> TapeArrays:
    """Room for `room` messages; order ids up to `commands`."""
    return TapeArrays(
        time_ns=np.zeros(room, np.int64),
        kind=np.zeros(room, np.int8),
        side=np.zeros(room, np.int8),
        price_ticks=np.zeros(room, np.int64),
        qty_lots=np.zeros(room, np.int64),
        entered_ns=np.zeros(room, np.int64),
        first=np.zeros(room, np.bool_),
        row=np.zeros(room, np.int64),
        book_ticks=np.zeros((room + 1, 2, levels_shown), np.int64),
        book_lots=np.zeros((room + 1, 2, levels_shown), np.int64),
        order_entered_ns=np.full(commands + 1, UNKNOWN_NS, np.int64),
        order_reduced=np.zeros(commands + 1, np.bool_),
        view_ticks=np.zeros((2, levels_shown + 1), np.int64),
        view_lots=np.zeros((2, levels_shown + 1), np.int64),
        at=np.zeros(2, np.int64),
    )


@numba.njit(cache=True)
def mark_messages(commands: Rows, rows: NDArray[np.int64], partial: bool) -> NDArray[np.bool_]:
    """Which commands are messages of the source: all after the opening book (row -1) unless the source is `partial`.

    A partial source shows some levels only, and its reader adds commands to a row for what came into view. Those of the
    message come first and share one side and price; only orders that enter at a price out of view may have cuts of that
    price before them (docs/history.md).
    """
    result = rows >= 0
    if not partial:
        return result
    start = 0
    while start < rows.size:
        stop = start + 1
        while stop < rows.size and rows[stop] == rows[start]:
            stop += 1
        if rows[start] >= 0:
            last = start
            if _cuts(commands[start].kind):
                while last + 1 < stop and _cuts(commands[last + 1].kind) and _same_level(commands, start, last + 1):
                    last += 1
                if last + 1 < stop and commands[last + 1].kind == NEW and _same_level(commands, start, last + 1):
                    result[start : last + 1] = False
                    last += 1
            result[last + 1 : stop] = False
        start = stop
    return result


@numba.njit(cache=True)
def _cuts(kind: int) -> bool:
    return kind == CANCEL_COMMAND or kind == REDUCE


@numba.njit(cache=True)
def _same_level(commands: Rows, one: int, other: int) -> bool:
    a, b = commands[one], commands[other]
    return bool(a.side == b.side and a.price_ticks == b.price_ticks)


@numba.njit(cache=True)
def _level_of(ticks: NDArray[np.int64], price: int, shown: int) -> int:
    """The level of a price in a view, -1 if it is not among those shown."""
    for level in range(shown):
        if ticks[level] == price:
            return level
    return -1


@numba.njit(cache=True)
def _show(out: TapeArrays) -> None:
    """The view becomes the book after the last message."""
    at, shown = out.at[1], out.book_ticks.shape[2]
    out.book_ticks[at] = out.view_ticks[:, :shown]
    out.book_lots[at] = out.view_lots[:, :shown]


@numba.njit(cache=True)
def _take_off(out: TapeArrays, side: int, price: int, lots: int) -> bool:
    """Takes lots off a level of the view; whether it was among those shown."""
    ticks, quantities, shown = out.view_ticks[side], out.view_lots[side], out.book_ticks.shape[2]
    level = _level_of(ticks, price, shown)
    if level < 0:
        return False
    quantities[level] -= lots
    if quantities[level] <= 0:
        for index in range(level, shown):
            ticks[index], quantities[index] = ticks[index + 1], quantities[index + 1]
        ticks[shown], quantities[shown] = 0, 0
    return True


@numba.njit(cache=True)
def _write(
    out: TapeArrays, time_ns: int, kind: int, side: int, price: int, lots: int, row: int, merge: bool
) -> None:  # fmt: skip
    """One message, or more of the last one."""
    at = out.at[1]
    if merge:
        out.qty_lots[at - 1] += lots
        out.price_ticks[at - 1] = price
    else:
        out.time_ns[at], out.kind[at], out.side[at] = time_ns, kind, side
        out.price_ticks[at], out.qty_lots[at], out.row[at] = price, lots, row
        out.entered_ns[at], out.first[at] = UNKNOWN_NS, False
        out.at[1] = at + 1
    _show(out)


@numba.njit(cache=True)
def _write_cancel(out: TapeArrays, event: Any, row: int, partial: bool) -> None:
    """A cancellation, if it is in view. Of a partial source several commands of a row are one message."""
    at, price, order = out.at[1], event.price_ticks, event.order_id
    if not _take_off(out, event.side, price, event.qty_lots):
        return
    last = at - 1
    merge = partial and at > 0 and out.kind[last] == CANCEL and out.row[last] == row
    _write(out, event.time_ns, CANCEL, event.side, price, event.qty_lots, row, merge)
    if not merge:
        out.entered_ns[last + 1], out.first[last + 1] = out.order_entered_ns[order], not out.order_reduced[order]
    out.order_reduced[order] = True


@numba.njit(cache=True)
def _write_trade(out: TapeArrays, time_ns: int, side: int, price: int, lots: int, row: int, after: Any) -> None:
    """An execution; `after` is the view after the whole command, of which the other side is final."""
    other, at = 1 - side, out.at[1]
    out.view_ticks[other], out.view_lots[other] = after[0][other], after[1][other]
    last = at - 1
    merge = at > 0 and out.kind[last] == MARKET and out.time_ns[last] == time_ns and out.side[last] == side
    _write(out, time_ns, MARKET, side, price, lots, row, merge)


@numba.njit(cache=True)
def _tell(out: TapeArrays, events: Any, count: int, row: int, partial: bool, after: Any) -> None:
    """The messages of one command's events."""
    shown = out.book_ticks.shape[2]
    traded, price, side = 0, 0, 0
    for index in range(count):
        event = events[index]
        kind, flags = event.kind, event.flags
        if kind == FILL:
            if flags & MAKER:
                traded, price, side = traded + event.qty_lots, event.price_ticks, 1 - event.side
        elif kind == REDUCED or kind == REPLACED or (kind == CANCELLED and flags & RESTING):
            _write_cancel(out, event, row, partial)
        elif kind == RESTED or (kind == ACCEPTED and flags & RESTING):
            if traded > 0:
                _write_trade(out, event.time_ns, side, price, traded, row, after)
                traded = 0
            out.view_ticks[:], out.view_lots[:] = after[0], after[1]
            out.order_entered_ns[event.order_id] = event.time_ns
            if _level_of(out.view_ticks[event.side], event.price_ticks, shown) >= 0:
                _write(out, event.time_ns, LIMIT, event.side, event.price_ticks, event.leaves_lots, row, False)
    if traded > 0:
        _write_trade(out, events[0].time_ns, side, price, traded, row, after)


@numba.njit(cache=True)
def _look(state: Any, near: Any, ticks: NDArray[np.int64], lots: NDArray[np.int64]) -> None:
    """The book's best levels."""
    for side in range(2):
        count = levels(state, 0, side, near)
        for level in range(near.size):
            ticks[side, level] = near[level].price_ticks if level < count else 0
            lots[side, level] = near[level].qty_lots if level < count else 0


@numba.njit(cache=True)
def run(
    state: Any, commands: Any, rows: NDArray[np.int64], told: NDArray[np.bool_], partial: bool, events: Any, near: Any,
    out: TapeArrays,
) -> int:  # fmt: skip
    """Goes on from out.at: DONE, ARRAYS_FULL, or what the market needs (GROW). Symbol 0 only; `near`: levels + 1 LEVEL rows."""
    ticks, lots = np.zeros_like(out.view_ticks), np.zeros_like(out.view_lots)
    while out.at[0] < rows.size:
        index = out.at[0]
        if out.at[1] + near.size + 8 > out.time_ns.size:
            return ARRAYS_FULL
        done, count, status = execute_batch(state, commands, index, index + 1, events, 0)
        if status == EVENTS_FULL:
            return ARRAYS_FULL
        if status != DONE:
            return int(status)
        _look(state, near, ticks, lots)
        if told[index]:
            _tell(out, events, count, rows[index], partial, (ticks, lots))
        out.view_ticks[:], out.view_lots[:] = ticks, lots
        _show(out)
        out.at[0] = done
    return DONE
