"""The book of a day as rows: its best levels after each change to them, or at given times."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from serl.exchange.compiling import compiled, inlined, int64
from serl.exchange.kernel.commands import DONE, EVENTS_FULL, execute_batch
from serl.exchange.kernel.levels import level_at, levels, next_price
from serl.exchange.kernel.state import BID
from serl.exchange.market import Market
from serl.exchange.records import EVENT, LEVEL, EventFlag, EventKind, Rows

ACCEPTED, FILL, RESTED = int(EventKind.ACCEPTED), int(EventKind.FILL), int(EventKind.RESTED)
CANCELLED, REDUCED, REPLACED = int(EventKind.CANCELLED), int(EventKind.REDUCED), int(EventKind.REPLACED)
MAKER, RESTING = int(EventFlag.MAKER), int(EventFlag.RESTING)
HIDDEN, AUCTION = int(EventFlag.HIDDEN), int(EventFlag.AUCTION)
EVENT_ROWS = 4096
ROWS_FULL = -1
"""Status: the arrays of rows are too small."""
COMMAND_AT, ROW_AT, CHANGED, TIME_AT = range(4)
"""Indices of `at`: the next command, the rows written, the number of symbols whose levels the present command changed, the next time."""


class BookRows(NamedTuple):
    """n rows of the best L levels. Prices in ticks, quantities in lots, 0 = no level."""

    time_ns: NDArray[np.int64]
    """(n,)"""
    sequence: NDArray[np.int64]
    """(n,) sequence of the last command before the row, 1, 2, 3 ...; 0 if there is none."""
    symbol: NDArray[np.int64]
    """(n,)"""
    ticks: NDArray[np.int64]
    """(2, L, n) by side (bids first) and level, best first."""
    lots: NDArray[np.int64]


def _allocate(rows: int, depth: int) -> BookRows:
    """Arrays of zeros; their memory is not allocated before it is used."""
    line, block = (rows,), (2, depth, rows)
    return BookRows(*(np.zeros(shape, np.int64) for shape in (line, line, line, block, block)))


@inlined
def _read_side(state: Any, symbol: int, side: int, best_levels: Any, book: Any) -> bool:
    """Reads the best levels of a side into book[side, level, (ticks, lots)]; returns whether they changed."""
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
def _update_level(state: Any, symbol: int, side: int, price: int, book: Any) -> bool:
    """Updates the level at a price in book[side, level, (ticks, lots)]; returns whether the book changed."""
    last, level = book.shape[1] - 1, 0
    while book[side, level, 0] != 0 and (book[side, level, 0] > price if side == BID else book[side, level, 0] < price):
        level += 1
        if level > last:
            return False
    lots = level_at(state, symbol, side, price)[0]
    if book[side, level, 0] != price:
        if lots == 0:
            return False
        for place in range(last, level, -1):
            book[side, place, 0], book[side, place, 1] = book[side, place - 1, 0], book[side, place - 1, 1]
        book[side, level, 0], book[side, level, 1] = price, lots
        return True
    if lots != 0:
        changed = book[side, level, 1] != lots
        book[side, level, 1] = lots
        return changed
    for place in range(level, last):
        book[side, place, 0], book[side, place, 1] = book[side, place + 1, 0], book[side, place + 1, 1]
    if last == 0:
        following = state.best[symbol, side]
    elif book[side, last - 1, 0] != 0:
        following = next_price(state, symbol, side, book[side, last - 1, 0])
    else:
        following = 0
    book[side, last, 0] = following
    book[side, last, 1] = level_at(state, symbol, side, following)[0] if following != 0 else 0
    return True


@inlined
def _update(state: Any, event: Any, symbol: int, best_levels: Any, book: Any) -> bool:
    """Updates a book by an event; returns whether the book changed (docs/orders.md: effect of an event on the displayed book).

    The state is that after the whole command, so each of its events sets a level to what it is after the command."""
    kind, flags, side = event.kind, event.flags, int64(event.side)
    if kind == FILL:
        if flags & AUCTION:  # its lots are removed at the price where the order rests, which the event does not contain
            return _read_side(state, symbol, side, best_levels, book)
        if flags & MAKER == 0:
            return False
    elif kind == ACCEPTED or kind == CANCELLED:
        if flags & RESTING == 0:
            return False
    elif kind != RESTED and kind != REDUCED and kind != REPLACED:
        return False
    return flags & HIDDEN == 0 and _update_level(state, symbol, side, event.price_ticks, book)


@inlined
def _write(out: BookRows, row: int, time_ns: int, sequence: int, symbol: int, book: Any) -> None:
    out.time_ns[row], out.sequence[row], out.symbol[row] = time_ns, sequence, symbol
    for side in range(2):
        for level in range(book.shape[1]):
            out.ticks[side, level, row], out.lots[side, level, row] = book[side, level, 0], book[side, level, 1]


@compiled
def _record_changes(
    state: Any, commands: Any, only: int, events: Any, best_levels: Any, books: Any, changed: Any, is_changed: Any, out: BookRows, at: Any,
) -> int:  # fmt: skip
    """Records a row for each command and each symbol whose best levels it changed. Continues at `at`; returns DONE, ROWS_FULL, or what the market
    needs (GROW)."""
    while at[COMMAND_AT] < commands.size:
        if at[ROW_AT] + books.shape[0] > out.time_ns.size:
            return ROWS_FULL
        index = at[COMMAND_AT]
        next_index, count, status = execute_batch(state, commands, index, index + 1, events, 0)
        for place in range(count):
            symbol = int64(events[place].symbol)
            if symbol >= books.shape[0] or (only >= 0 and symbol != only):
                continue
            if _update(state, events[place], symbol, best_levels, books[symbol]) and not is_changed[symbol]:
                is_changed[symbol] = True
                changed[at[CHANGED]] = symbol
                at[CHANGED] += 1
        if status == EVENTS_FULL:
            continue
        if status != DONE:
            return int64(status)
        for place in range(at[CHANGED]):
            symbol = changed[place]
            is_changed[symbol] = False
            _write(out, at[ROW_AT], commands[index].time_ns, commands[index].sequence, symbol, books[symbol])
            at[ROW_AT] += 1
        at[CHANGED], at[COMMAND_AT] = 0, next_index
    return int64(DONE)


@compiled
def _record_times(
    state: Any, commands: Any, only: int, events: Any, best_levels: Any, books: Any, times_ns: Any, stops: Any, out: BookRows, at: Any,
) -> int:  # fmt: skip
    """As `_record_changes`, but records rows of all symbols at each time, after the commands before that time's stop."""
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
        only: number of the one symbol to record; -1 records all.
        times_ns: (m,) increasing; a row for each time and symbol, after all commands up to and including that time. Without it, a row after
            each command that changed a symbol's recorded levels.
    """
    symbols, at = len(market.names), np.zeros(4, np.int64)
    buffers = np.zeros(EVENT_ROWS, EVENT), np.zeros(depth, LEVEL), np.zeros((symbols, 2, depth, 2), np.int64)
    changed, is_changed = np.zeros(symbols, np.int64), np.zeros(symbols, np.bool_)
    out = _allocate((len(commands) if times_ns is None else len(times_ns) * symbols) + symbols, depth)
    stops = None if times_ns is None else np.searchsorted(commands["time_ns"], times_ns, side="right")
    while True:
        if stops is None:
            status = _record_changes(market.state, commands, only, *buffers, changed, is_changed, out, at)
        else:
            status = _record_times(market.state, commands, only, *buffers, times_ns, stops, out, at)
        if status == DONE:
            break
        if status == ROWS_FULL:  # possible if commands change several symbols
            longer = _allocate(2 * len(out.time_ns), depth)
            for new, old in zip(longer, out, strict=True):
                new[..., : old.shape[-1]] = old
            out = longer
        else:
            market.grow()
    return BookRows(*(column[..., : at[ROW_AT]] for column in out))
