"""Replays a day through the order book, command by command, and records visible messages and the book after each.

The messages are those that a LOBSTER file with `levels` levels per side would show: new orders and cancellations within these
levels, and every execution but those of auctions. Executions of one marketable order are one message. Commands that the reader of a day inferred
(the opening book, levels that come into view) change the book but are not messages.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from serl.exchange.compiling import allocating, allocating_inner
from serl.exchange.kernel.commands import DONE, EVENTS_FULL, execute_batch
from serl.exchange.kernel.levels import levels
from serl.exchange.records import CommandKind, EventFlag, EventKind, Rows, Side, TimeInForce

LIMIT, MARKET, CANCEL = 0, 1, 2
"""Kinds of messages."""
ARRAYS_FULL = -1
"""Status: the arrays of messages or events are too small."""

BUY, SELL = int(Side.BUY), int(Side.SELL)
IOC = int(TimeInForce.IOC)
NEW, CANCEL_COMMAND, REDUCE = int(CommandKind.NEW), int(CommandKind.CANCEL), int(CommandKind.REDUCE)
ACCEPTED, RESTED, FILL = int(EventKind.ACCEPTED), int(EventKind.RESTED), int(EventKind.FILL)
CANCELLED, REDUCED, REPLACED = int(EventKind.CANCELLED), int(EventKind.REDUCED), int(EventKind.REPLACED)
RESTING, MAKER, AUCTION = int(EventFlag.RESTING), int(EventFlag.MAKER), int(EventFlag.AUCTION)
UNKNOWN_NS = -1
"""Value of `entered_ns` if the order's arrival is unknown."""


class TapeArrays(NamedTuple):
    """The recorded messages by [message], and books by [message + 1, side (bids first), level]."""

    time_ns: NDArray[np.int64]
    kind: NDArray[np.int8]
    side: NDArray[np.int8]
    price_ticks: NDArray[np.int64]
    qty_lots: NDArray[np.int64]
    entered_ns: NDArray[np.int64]
    first_cancel: NDArray[np.bool_]
    row: NDArray[np.int64]
    book_ticks: NDArray[np.int64]
    book_lots: NDArray[np.int64]
    order_entered_ns: NDArray[np.int64]
    """[order_id] time at which the order arrived, or UNKNOWN_NS."""
    order_reduced: NDArray[np.bool_]
    """[order_id] whether the order was reduced or cancelled before."""
    view_ticks: NDArray[np.int64]
    """[side, level + 1] the book after the messages so far, one level deeper than shown."""
    view_lots: NDArray[np.int64]
    position: NDArray[np.int64]
    """[0] index of the next command, [1] number of messages."""


def allocate_tape(capacity: int, commands: int, levels_shown: int) -> TapeArrays:
    """Arrays for `capacity` messages and order ids up to `commands`."""
    return TapeArrays(
        time_ns=np.zeros(capacity, np.int64),
        kind=np.zeros(capacity, np.int8),
        side=np.zeros(capacity, np.int8),
        price_ticks=np.zeros(capacity, np.int64),
        qty_lots=np.zeros(capacity, np.int64),
        entered_ns=np.zeros(capacity, np.int64),
        first_cancel=np.zeros(capacity, np.bool_),
        row=np.zeros(capacity, np.int64),
        book_ticks=np.zeros((capacity + 1, 2, levels_shown), np.int64),
        book_lots=np.zeros((capacity + 1, 2, levels_shown), np.int64),
        order_entered_ns=np.full(commands + 1, UNKNOWN_NS, np.int64),
        order_reduced=np.zeros(commands + 1, np.bool_),
        view_ticks=np.zeros((2, levels_shown + 1), np.int64),
        view_lots=np.zeros((2, levels_shown + 1), np.int64),
        position=np.zeros(2, np.int64),
    )


@allocating
def mark_messages(commands: Rows, rows: NDArray[np.int64], partial: bool) -> NDArray[np.bool_]:
    """Marks which commands are messages of the source: all after the opening book (row -1), unless the source is `partial`.

    A partial source shows only some levels, and its reader adds commands to a row for levels that come into view. The
    message's own commands come first and share one side and price. Only an order that arrives at a price out of view may
    be preceded by reductions of that price (docs/history.md).
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
            if _is_reduction(commands[start].kind):
                while (
                    last + 1 < stop
                    and _is_reduction(commands[last + 1].kind)
                    and _same_level(commands, start, last + 1)
                ):
                    last += 1
                if last + 1 < stop and commands[last + 1].kind == NEW and _same_level(commands, start, last + 1):
                    result[start : last + 1] = False
                    last += 1
            result[last + 1 : stop] = False
        start = stop
    return result


@allocating_inner
def _is_reduction(kind: int) -> bool:
    return kind == CANCEL_COMMAND or kind == REDUCE


@allocating_inner
def _same_level(commands: Rows, one: int, other: int) -> bool:
    a, b = commands[one], commands[other]
    return bool(a.side == b.side and a.price_ticks == b.price_ticks)


@allocating_inner
def _level_of(ticks: NDArray[np.int64], price: int, shown: int) -> int:
    """The level of a price among those shown; -1 if it is not shown."""
    for level in range(shown):
        if ticks[level] == price:
            return level
    return -1


@allocating_inner
def _copy_side(source: NDArray[np.int64], target: NDArray[np.int64], side: int) -> None:
    """Fills one side of `target`. It is a loop because slice assignment takes four seconds to compile."""
    for level in range(target.shape[1]):
        target[side, level] = source[side, level]


@allocating_inner
def _write_book(out: TapeArrays) -> None:
    """Writes the view as the book after the last message."""
    last = out.position[1]
    for side in range(2):
        _copy_side(out.view_ticks, out.book_ticks[last], side)
        _copy_side(out.view_lots, out.book_lots[last], side)


@allocating_inner
def _set_view(out: TapeArrays, ticks: NDArray[np.int64], lots: NDArray[np.int64]) -> None:
    """Sets the view to a book."""
    for side in range(2):
        _copy_side(ticks, out.view_ticks, side)
        _copy_side(lots, out.view_lots, side)


@allocating_inner
def _reduce_level(out: TapeArrays, side: int, price: int, lots: int) -> bool:
    """Removes lots from a level of the view; returns whether the level is shown."""
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


@allocating
def _write(
    out: TapeArrays, time_ns: int, kind: int, side: int, price: int, lots: int, row: int, merge: bool
) -> None:  # fmt: skip
    """Writes a message, or adds to the last one."""
    index = out.position[1]
    if merge:
        out.qty_lots[index - 1] += lots
        out.price_ticks[index - 1] = price
    else:
        out.time_ns[index], out.kind[index], out.side[index] = time_ns, kind, side
        out.price_ticks[index], out.qty_lots[index], out.row[index] = price, lots, row
        out.entered_ns[index], out.first_cancel[index] = UNKNOWN_NS, False
        out.position[1] = index + 1
    _write_book(out)


@allocating_inner
def _write_cancel(out: TapeArrays, event: Any, row: int, partial: bool) -> None:
    """Writes a cancellation if its level is shown. In a partial source, several commands of a row are one message."""
    count, price, order = out.position[1], event.price_ticks, event.order_id
    if not _reduce_level(out, event.side, price, event.qty_lots):
        return
    last = count - 1
    merge = partial and count > 0 and out.kind[last] == CANCEL and out.row[last] == row
    _write(out, event.time_ns, CANCEL, event.side, price, event.qty_lots, row, merge)
    if not merge:
        out.entered_ns[count], out.first_cancel[count] = out.order_entered_ns[order], not out.order_reduced[order]
    out.order_reduced[order] = True


@allocating_inner
def _write_trade(out: TapeArrays, time_ns: int, side: int, price: int, lots: int, row: int, after: Any) -> None:
    """Writes an execution; `after` is the view after the whole command, whose opposite side is already final."""
    other, count = 1 - side, out.position[1]
    _copy_side(after[0], out.view_ticks, other)
    _copy_side(after[1], out.view_lots, other)
    last = count - 1
    merge = count > 0 and out.kind[last] == MARKET and out.time_ns[last] == time_ns and out.side[last] == side
    _write(out, time_ns, MARKET, side, price, lots, row, merge)


@allocating_inner
def _write_messages(out: TapeArrays, events: Any, count: int, row: int, partial: bool, after: Any) -> None:
    """Writes the messages of one command's events."""
    shown = out.book_ticks.shape[2]
    traded, price, side = 0, 0, 0
    for index in range(count):
        event = events[index]
        kind, flags = event.kind, event.flags
        if kind == FILL:
            if flags & MAKER and not flags & AUCTION:
                traded, price, side = traded + event.qty_lots, event.price_ticks, 1 - event.side
        elif kind == REDUCED or kind == REPLACED or (kind == CANCELLED and flags & RESTING):
            _write_cancel(out, event, row, partial)
        elif kind == RESTED or (kind == ACCEPTED and flags & RESTING):
            if traded > 0:
                _write_trade(out, event.time_ns, side, price, traded, row, after)
                traded = 0
            _set_view(out, after[0], after[1])
            out.order_entered_ns[event.order_id] = event.time_ns
            if _level_of(out.view_ticks[event.side], event.price_ticks, shown) >= 0:
                _write(out, event.time_ns, LIMIT, event.side, event.price_ticks, event.leaves_lots, row, False)
    if traded > 0:
        _write_trade(out, events[0].time_ns, side, price, traded, row, after)


@allocating_inner
def _read_book(state: Any, best_levels: Any, ticks: NDArray[np.int64], lots: NDArray[np.int64]) -> None:
    """Reads the book's best levels."""
    for side in range(2):
        count = levels(state, 0, side, best_levels)
        for level in range(best_levels.size):
            ticks[side, level] = best_levels[level].price_ticks if level < count else 0
            lots[side, level] = best_levels[level].qty_lots if level < count else 0


@allocating
def record_messages(
    state: Any, commands: Any, rows: NDArray[np.int64], is_message: NDArray[np.bool_], partial: bool, events: Any,
    best_levels: Any, out: TapeArrays,
) -> int:  # fmt: skip
    """Continues at out.position. Returns DONE, ARRAYS_FULL, or what the market needs (GROW). Only for symbol 0.

    best_levels: a buffer of levels + 1 LEVEL rows.
    """
    ticks, lots = np.zeros_like(out.view_ticks), np.zeros_like(out.view_lots)
    while out.position[0] < rows.size:
        index = out.position[0]
        if out.position[1] + best_levels.size + 8 > out.time_ns.size:
            return ARRAYS_FULL
        next_index, count, status = execute_batch(state, commands, index, index + 1, events, 0)
        if status == EVENTS_FULL:
            return ARRAYS_FULL
        if status != DONE:
            return int(status)
        _read_book(state, best_levels, ticks, lots)
        if is_message[index]:
            _write_messages(out, events, count, rows[index], partial, (ticks, lots))
        _set_view(out, ticks, lots)
        _write_book(out)
        out.position[0] = next_index
    return DONE
