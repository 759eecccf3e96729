"""Days as tables: commands, events, trades, quotes and books. docs/tables.md lists their columns."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from serl.exchange.errors import ConfigError
from serl.exchange.integers import INT64_MAX, integer
from serl.exchange.market import Market
from serl.exchange.records import EVENT, EventFlag, EventKind, Rows
from serl.exchange.row_tables import SIDE_NAMES, RowContext, command_table, event_table, find
from serl.exchange.table import Column, Names, Table, prices, times
from serl.history.accounts import market_of_accounts
from serl.history.book_rows import BookRows, book_rows
from serl.history.day import Day
from serl.history.verify import market_of

BLOCK_COMMANDS = 1 << 16
DEPTH_MAX = 1000
SECOND_NS = 1_000_000_000
EVERY_S_MAX, TIMES_MAX = 1_000_000, 100_000_000


def orders(day: Day, symbol: str | None = None) -> Table:
    """A row for each command of the day (new order, cancellation, change, halt ...), of one symbol or of all.

    ConfigError if the day does not have the symbol; the other tables raise the same.
    """
    number = _symbol(day, symbol)
    rows = _numbered(day)
    return _only(command_table(rows, _context(day)), rows["symbol"], number)


def events(day: Day, symbol: str | None = None) -> Table:
    """A row for each event of the day's replay, in which nobody else trades."""
    number = _symbol(day, symbol)
    market, commands = _market(day)
    rows = market.submit(commands)
    return _only(event_table(rows, _context(day)), rows["symbol"], number)


def trades(day: Day, symbol: str | None = None) -> Table:
    """A row for each trade of the day's replay, including prints; `side` is the aggressor's."""
    number = _symbol(day, symbol)
    makers, takers = matches(day)
    taker = find(takers["match_id"], makers["match_id"])
    has_taker = taker >= 0
    auction = makers["flags"] & EventFlag.AUCTION > 0
    context, code, time_ns = _context(day), makers["symbol"].astype(np.int32), makers["time_ns"].copy()

    def of_taker(name: str) -> NDArray[np.int64]:
        found = np.full(len(makers), -1 if name == "participant" else 0)
        found[has_taker] = takers[name][taker[has_taker]]
        return found

    columns: dict[str, Column] = {
        "time": times(time_ns, context.date), "time_ns": time_ns, "command_sequence": makers["command_sequence"].copy(),
        "symbol": Names.of(code, context.symbols), "side": Names.of(np.where(auction, -1, 1 - makers["side"].astype(np.int16)), SIDE_NAMES),
        "price": prices(makers["price_ticks"], context.tick_sizes, code), "price_ticks": makers["price_ticks"].copy(),
        "qty_lots": makers["qty_lots"].copy(), "match_id": makers["match_id"].copy(), "maker_order_id": makers["order_id"].copy(),
        "taker_order_id": of_taker("order_id"),
    }  # fmt: skip
    if context.participants is not None:
        maker = np.where(has_taker, makers["participant"].astype(np.int32), -1)
        columns["maker"] = Names.of(maker, context.participants)
        columns["taker"] = Names.of(of_taker("participant"), context.participants)
    columns |= {"auction": auction, "hidden": makers["flags"] & EventFlag.HIDDEN > 0, "off_book": ~has_taker}
    return _only(Table(columns), code, number)


def quotes(day: Day, symbol: str | None = None) -> Table:
    """The top of the book: a row after each command that changed the price or quantity of a symbol's best bid or ask."""
    rows = _book_rows(day, 1, symbol, None)
    context = _context(day)
    columns = _first_columns(rows, context)
    for side, name in enumerate(("bid", "ask")):
        ticks = rows.ticks[side, 0]
        columns[name] = prices(ticks, context.tick_sizes, rows.symbol)
        columns |= {f"{name}_ticks": ticks, f"{name}_lots": rows.lots[side, 0]}
    two_sided = (rows.ticks[:, 0] > 0).all(axis=0)
    columns["mid"] = prices(np.where(two_sided, rows.ticks[:, 0].sum(axis=0), 0), context.tick_sizes, rows.symbol) / 2
    return Table(columns)


def book(
    day: Day, depth: int = 10, symbol: str | None = None, every_s: float | None = None, times_ns: NDArray[np.int64] | None = None
) -> Table:  # fmt: skip
    """The best `depth` levels of each side: a row after each command that changed them.

    With one of these arguments, a row for each time and symbol instead, after all commands up to and including that time:
        every_s: seconds; the times are its multiples after midnight, from the first command until after the last.
        times_ns: (m,) nanoseconds after midnight, increasing.

    ConfigError for invalid settings.
    """
    if not 1 <= (depth := integer("depth", depth)) <= DEPTH_MAX:
        raise ConfigError(f"depth: expected 1 to {DEPTH_MAX} levels, got {depth}")
    if every_s is not None:
        if times_ns is not None:
            raise ConfigError("book: expected every_s or times_ns, got both; give one of them")
        times_ns = _grid(day, every_s)
    if times_ns is not None:
        times_ns = _checked_times(times_ns)
    rows, context = _book_rows(day, depth, symbol, times_ns), _context(day)
    columns = _first_columns(rows, context)
    for level in range(depth):
        for side, name in enumerate(("bid", "ask")):
            columns[f"{name}_{level + 1}"] = prices(rows.ticks[side, level], context.tick_sizes, rows.symbol)
            columns[f"{name}_lots_{level + 1}"] = rows.lots[side, level]
    return Table(columns)


def _context(day: Day) -> RowContext:
    symbols = day.reference.symbols
    return RowContext(
        [one.name for one in symbols],
        [one.tick_size for one in symbols],
        day.reference.date,
        day.reference.participants or None,
    )


def _symbol(day: Day, symbol: str | None) -> int:
    """The number of a symbol; -1 for None. ConfigError unless `day` is a Day that was read and has the symbol."""
    if not isinstance(day, Day):
        raise ConfigError(f"day: expected a Day, got {day!r}; read it with serl.history.day.read_day")
    names = [one.name for one in day.reference.symbols]
    if symbol is None:
        return -1
    if symbol not in names:
        raise ConfigError(f"symbol: expected one of {', '.join(names)}, got {symbol}; give a symbol of the day")
    return names.index(symbol)


def _only(table: Table, symbols: NDArray[np.integer], number: int) -> Table:
    """The rows of the symbol with this number; all rows for -1."""
    return table if number < 0 else table.rows(symbols == number)


def _numbered(day: Day) -> Rows:
    """The day's commands with sequences 1, 2, 3 ..."""
    rows = day.commands.copy()
    rows["sequence"] = np.arange(1, len(rows) + 1)
    return rows


def _market(day: Day) -> tuple[Market, Rows]:
    """An empty market for the day, and its commands."""
    return (market_of_accounts(day), _numbered(day)) if day.reference.participants else market_of(day)


def matches(day: Day) -> tuple[Rows, Rows]:
    """(the makers' FILL rows and PRINT rows, the takers' FILL rows) of the day's replay."""
    market, commands = _market(day)
    makers, takers = [np.zeros(0, EVENT)], [np.zeros(0, EVENT)]
    for first in range(0, len(commands), BLOCK_COMMANDS):
        rows = market.submit(commands[first : first + BLOCK_COMMANDS])
        fill, maker = rows["kind"] == EventKind.FILL, rows["flags"] & EventFlag.MAKER > 0
        makers.append(rows[(fill & maker) | (rows["kind"] == EventKind.PRINT)])
        takers.append(rows[fill & ~maker])
    return np.concatenate(makers), np.concatenate(takers)


def _book_rows(day: Day, depth: int, symbol: str | None, times_ns: NDArray[np.int64] | None) -> BookRows:
    number = _symbol(day, symbol)
    return book_rows(*_market(day), depth, number, times_ns)


def _first_columns(rows: BookRows, context: RowContext) -> dict[str, Column]:
    return {
        "time": times(rows.time_ns, context.date), "time_ns": rows.time_ns, "command_sequence": rows.sequence,
        "symbol": Names.of(rows.symbol, context.symbols),
    }  # fmt: skip


def _checked_times(times_ns: Any) -> NDArray[np.int64]:
    """The times as an array. ConfigError for other units: a column `time` counts from 1970, floats are seconds or have lost nanoseconds."""
    given = np.asarray(times_ns)
    if given.ndim != 1:
        raise ConfigError(
            f"times_ns: expected a list of times, got an array of {given.ndim} dimensions; give one dimension"
        )
    if given.size and given.dtype.kind not in "iu":  # timedelta64 counts as an integer of numpy, of any unit
        raise ConfigError(
            f"times_ns: expected integers, nanoseconds after midnight, got {given.dtype}; give those of a column time_ns"
        )
    if given.size and given.max() > INT64_MAX:
        raise ConfigError(f"times_ns: expected times that fit in 64 bits, got {given.max()}; check their unit")
    if (np.diff(given) < 0).any():
        raise ConfigError("times_ns: expected increasing times, got a smaller one after a larger; sort them")
    return np.ascontiguousarray(given, np.int64)


def _grid(day: Day, every_s: float) -> NDArray[np.int64]:
    """Multiples of `every_s` in ns, from the first command until after the last."""
    try:
        step_ns = round(float(every_s) * SECOND_NS)  # the product of a numpy float32 would have its few digits
    except (TypeError, ValueError, OverflowError):
        step_ns = 0
    if not 1 <= step_ns <= EVERY_S_MAX * SECOND_NS:
        raise ConfigError(f"every_s: expected a time of a nanosecond or more, up to {EVERY_S_MAX:,} s, got {every_s} s")
    if not len(day):
        return np.zeros(0, np.int64)
    first_ns, last_ns = (int(day.commands["time_ns"][place]) for place in (0, -1))
    if (last_ns - first_ns) // step_ns > TIMES_MAX:
        raise ConfigError(f"every_s: expected a time that gives at most {TIMES_MAX:,} rows of the day, got {every_s} s; give a longer one")  # fmt: skip
    return np.arange(-(-first_ns // step_ns), -(-last_ns // step_ns) + 1) * step_ns
