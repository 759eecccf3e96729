"""The book of a day as rows: its best levels after every change of them, or at given times."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from serl.exchange.compiling import compiled, inlined, int64
from serl.exchange.kernel.commands import DONE, EVENTS_FULL, execute_batch
from serl.exchange.kernel.levels import levels
from serl.exchange.kernel.state import BID
from serl.exchange.market import Market
from serl.exchange.records import EVENT, LEVEL, EventFlag, EventKind, Rows

ACCEPTED, FILL, RESTED = int(EventKind.ACCEPTED), int(EventKind.FILL), int(EventKind.RESTED)
CANCELLED, REDUCED, REPLACED = int(EventKind.CANCELLED), int(EventKind.REDUCED), int(EventKind.REPLACED)
MAKER, HIDDEN, AUCTION = int(EventFlag.MAKER), int(EventFlag.HIDDEN), int(EventFlag.AUCTION)
EVENT_ROWS = 4096
ROWS_FULL = -1
"""Status: the arrays of rows are too small."""
COMMAND_AT, ROW_AT, TOUCHED, TIME_AT = range(4)
"""Of `at`: the next command, the rows written, the sides of books that the present command may have changed, the next time."""


class BookRows(NamedTuple):
    """n rows of the best L levels. Prices in ticks, quantities in lots, 0 = no level."""

    time_ns: NDArray[np.int64]
    """(n,)"""
    sequence: NDArray[np.int64]
    """(n,) of the last command before, 1, 2, 3 ...; 0: none."""
    symbol: NDArray[np.int64]
    """(n,)"""
    ticks: NDArray[np.int64]
    """(2, L, n) by side (bids first) and level, best first."""
    lots: NDArray[np.int64]


def _allocate(rows: int, depth: int) -> BookRows:
    """Arrays of zeros, whose memory is not taken before it is used."""
    line, block = (rows,), (2, depth, rows)
    return BookRows(*(np.zeros(shape, np.int64) for shape in (line, line, line, block, block)))


@inlined
def _read_side(state: Any, symbol: int, side: int, best_levels: Any, book: Any) -> bool:
    """Reads the best levels of a side into book[side, level, (ticks, lots)]; whether they differ from what was there."""
    changed = False
    count = levels(state, symbol, side, best_levels)
    for level in range(best_levels.size):
        ticks = best_levels[level].price_ticks if level < count else 0
        lots = best_levels[level].qty_lots if level < count else 0
        if book[side, level, 0] != ticks or book[side, level, 1] != lots:
            book[side, level, 0], book[side, level, 1] = ticks, lots
            changed = True
    return changed


@inlined
def _may_change(event: Any, book: Any) -> bool:
    """Whether an event may change the recorded levels of its side: docs/orders.md, effect of an event on the displayed book."""
    kind, flags = event.kind, event.flags
    if kind == FILL:
        if flags & AUCTION:
            return True  # it takes its lots off at the price where the order rests, which the event does not have
        if flags & MAKER == 0:
            return False
    elif kind != ACCEPTED and kind != RESTED and kind != CANCELLED and kind != REDUCED and kind != REPLACED:
        return False
    worst = book[event.side, book.shape[1] - 1, 0]
    beyond = event.price_ticks < worst if event.side == BID else event.price_ticks > worst
    return flags & HIDDEN == 0 and (worst == 0 or not beyond)


@inlined
def _write(out: BookRows, row: int, time_ns: int, sequence: int, symbol: int, book: Any) -> None:
    out.time_ns[row], out.sequence[row], out.symbol[row] = time_ns, sequence, symbol
    for side in range(2):
        for level in range(book.shape[1]):
            out.ticks[side, level, row], out.lots[side, level, row] = book[side, level, 0], book[side, level, 1]


@compiled
def _record_changes(
    state: Any, commands: Any, only: int, events: Any, best_levels: Any, books: Any, touched: Any, is_touched: Any, out: BookRows, at: Any,
) -> int:  # fmt: skip
    """Continues at `at`: DONE, ROWS_FULL, or what the market needs (GROW). A row for each command and symbol whose best levels it changed."""
    while at[COMMAND_AT] < commands.size:
        if at[ROW_AT] + books.shape[0] > out.time_ns.size:
            return ROWS_FULL
        index = at[COMMAND_AT]
        next_index, count, status = execute_batch(state, commands, index, index + 1, events, 0)
        for place in range(count):
            event = events[place]
            symbol = int64(event.symbol)
            if symbol < books.shape[0] and (only < 0 or symbol == only) and _may_change(event, books[symbol]):
                side = 2 * symbol + event.side
                if not is_touched[side]:
                    is_touched[side] = True
                    touched[at[TOUCHED]] = side
                    at[TOUCHED] += 1
        if status == EVENTS_FULL:
            continue
        if status != DONE:
            return int64(status)
        first_row = at[ROW_AT]
        for place in range(at[TOUCHED]):
            symbol, side = touched[place] >> 1, touched[place] & 1
            is_touched[touched[place]] = False
            if _read_side(state, symbol, side, best_levels, books[symbol]):
                row = first_row
                while row < at[ROW_AT] and out.symbol[row] != symbol:
                    row += 1
                _write(out, row, commands[index].time_ns, commands[index].sequence, symbol, books[symbol])
                at[ROW_AT] = max(at[ROW_AT], row + 1)
        at[TOUCHED], at[COMMAND_AT] = 0, next_index
    return int64(DONE)


@compiled
def _record_times(
    state: Any, commands: Any, only: int, events: Any, best_levels: Any, books: Any, times_ns: Any, stops: Any, out: BookRows, at: Any,
) -> int:  # fmt: skip
    """Continues at `at`, as _record_changes: rows of all symbols at each time, after the commands before its stop."""
    while at[TIME_AT] < stops.size:
        stop = stops[at[TIME_AT]]
        while at[COMMAND_AT] < stop:
            at[COMMAND_AT], _, status = execute_batch(state, commands, at[COMMAND_AT], stop, events, 0)
            if status != DONE and status != EVENTS_FULL:
                return int64(status)
        for symbol in range(books.shape[0]):
            if only < 0 or symbol == only:
                for side in range(2):
                    _read_side(state, symbol, side, best_levels, books[symbol])
                _write(out, at[ROW_AT], times_ns[at[TIME_AT]], stop, symbol, books[symbol])
                at[ROW_AT] += 1
        at[TIME_AT] += 1
    return int64(DONE)


def book_rows(
    market: Market, commands: Rows, depth: int, only: int = -1, times_ns: NDArray[np.int64] | None = None
) -> BookRows:  # fmt: skip
    """Executes COMMAND rows with sequences 1, 2, 3 ... in an empty market, and records the best `depth` levels.

    Args:
        only: number of the one symbol to record, -1: all.
        times_ns: (m,) increasing; a row for each time and symbol, after all commands up to and at the time. Without it a row after each
            command that changed a symbol's recorded levels.
    """
    symbols, at = len(market.names), np.zeros(4, np.int64)
    buffers = np.zeros(EVENT_ROWS, EVENT), np.zeros(depth, LEVEL), np.zeros((symbols, 2, depth, 2), np.int64)
    touched, is_touched = np.zeros(2 * symbols, np.int64), np.zeros(2 * symbols, np.bool_)
    out = _allocate((len(commands) if times_ns is None else len(times_ns) * symbols) + symbols, depth)
    stops = None if times_ns is None else np.searchsorted(commands["time_ns"], times_ns, side="right")
    while True:
        if stops is None:
            status = _record_changes(market.state, commands, only, *buffers, touched, is_touched, out, at)
        else:
            status = _record_times(market.state, commands, only, *buffers, times_ns, stops, out, at)
        if status == DONE:
            break
        if status == ROWS_FULL:  # commands that change several symbols
            longer = _allocate(2 * len(out.time_ns), depth)
            for new, old in zip(longer, out, strict=True):
                new[..., : old.shape[-1]] = old
            out = longer
        else:
            market.grow()
    return BookRows(*(column[..., : at[ROW_AT]] for column in out))
