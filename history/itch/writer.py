"""Exports a day as an ITCH 5.0 file: the messages that a market publishes while it replays the day.

Importing the file produces the same book after every message (docs/history.md).
"""

import gzip
from decimal import Decimal
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from serl.exchange.atomic_file import atomic_file
from serl.exchange.compiling import compiled, inlined, int64
from serl.exchange.records import EventFlag, EventKind
from serl.history.day import Day, Reference
from serl.history.errors import ExportError
from serl.history.itch.messages import LENGTHS, PRICE_UNITS, encode, offset, session_start, write_int
from serl.history.verify import exportable_events, market_of

ACCEPTED, RESTED, FILL, PRINT = (
    int(kind) for kind in (EventKind.ACCEPTED, EventKind.RESTED, EventKind.FILL, EventKind.PRINT)
)
CANCELLED, REDUCED, REPLACED = int(EventKind.CANCELLED), int(EventKind.REDUCED), int(EventKind.REPLACED)
HALTED, RESUMED = int(EventKind.HALTED), int(EventKind.RESUMED)
RESTING, MAKER = int(EventFlag.RESTING), int(EventFlag.MAKER)
A, D, E, H, P, U, X = (ord(kind) for kind in "ADEHPUX")
LOCATE, TIME, ORDER = offset("S", "locate"), offset("S", "time_ns"), offset("A", "order")
ADD_SIDE, ADD_SHARES, ADD_STOCK, ADD_PRICE = (offset("A", name) for name in ("side", "shares", "stock", "price"))
SHARES, MATCH = offset("E", "shares"), offset("E", "match")
NEW_ORDER, NEW_SHARES, NEW_PRICE = (offset("U", name) for name in ("new_order", "shares", "price"))
PRINT_MATCH, STATE, REASON, STOCK = (
    offset("P", "match"),
    offset("H", "state"),
    offset("H", "reason"),
    offset("H", "stock"),
)
BUYS, SELLS, TRADES, HALTS = (ord(letter) for letter in "BSTH")
BLANK = ord(" ")
FIELD_MAX, TIME_NS_MAX = (1 << 32) - 1, (1 << 48) - 1
MESSAGE_BYTES_MAX = 64
BLOCK_COMMANDS = 1 << 16


@inlined
def _begin(out: Any, at: int, kind: int, event: Any) -> int:
    """Writes length, type and header of a message; returns the position of its type byte."""
    length = LENGTHS[kind]
    write_int(out, at, 2, length)
    body = at + 2
    for index in range(body, body + length):
        out[index] = 0
    out[body] = kind
    write_int(out, body + LOCATE, 2, int64(event.symbol) + 1)
    write_int(out, body + TIME, 6, event.time_ns)
    return body


@inlined
def _stock(out: Any, at: int, symbol: int, stocks: Any) -> None:
    for index in range(8):
        out[at + index] = stocks[symbol, index]


@inlined
def _order(out: Any, at: int, kind: int, event: Any, lots: int, units: Any, stocks: Any) -> int:
    """Writes A or P; returns the number of bytes."""
    body = _begin(out, at, kind, event)
    symbol = int64(event.symbol)
    write_int(out, body + ORDER, 8, 0 if kind == P else event.order_number)  # a hidden order must not be identified
    out[body + ADD_SIDE] = SELLS if event.side else BUYS
    write_int(out, body + ADD_SHARES, 4, lots)
    _stock(out, body + ADD_STOCK, symbol, stocks)
    write_int(out, body + ADD_PRICE, 4, event.price_ticks * units[symbol])
    if kind == P:
        write_int(out, body + PRINT_MATCH, 8, event.match_id)
    return 2 + LENGTHS[kind]


@inlined
def _change(out: Any, at: int, kind: int, event: Any) -> int:
    """Writes D, E or X; returns the number of bytes."""
    body = _begin(out, at, kind, event)
    write_int(out, body + ORDER, 8, event.order_number)
    if kind != D:
        write_int(out, body + SHARES, 4, event.qty_lots)
    if kind == E:
        write_int(out, body + MATCH, 8, event.match_id)
    return 2 + LENGTHS[kind]


@inlined
def _replace(out: Any, at: int, event: Any, rested: Any, units: Any) -> int:
    body = _begin(out, at, U, event)
    write_int(out, body + ORDER, 8, event.order_number)
    write_int(out, body + NEW_ORDER, 8, rested.order_number)
    write_int(out, body + NEW_SHARES, 4, rested.leaves_lots)
    write_int(out, body + NEW_PRICE, 4, rested.price_ticks * units[int64(event.symbol)])
    return 2 + LENGTHS[U]


@inlined
def _state(out: Any, at: int, event: Any, stocks: Any) -> int:
    body = _begin(out, at, H, event)
    _stock(out, body + STOCK, int64(event.symbol), stocks)
    out[body + STATE] = HALTS if event.kind == HALTED else TRADES
    for index in range(body + REASON, body + REASON + 4):
        out[index] = BLANK
    return 2 + LENGTHS[H]


@compiled
def encode_events(events: Any, units: Any, stocks: Any, out: Any) -> int:
    """Encodes EVENT rows; returns the number of bytes.

    units: [symbol] price units of a tick. stocks: [symbol, 8] names in ASCII. out: MESSAGE_BYTES_MAX bytes per event.
    """
    at, index = 0, 0
    while index < events.size:
        event = events[index]
        kind, index = event.kind, index + 1
        if (kind == ACCEPTED and event.flags & RESTING) or kind == RESTED:
            at += _order(out, at, A, event, event.leaves_lots, units, stocks)
        elif kind == FILL and event.flags & MAKER:
            at += _change(out, at, E, event)
        elif kind == CANCELLED and event.flags & RESTING:
            at += _change(out, at, D, event)
        elif kind == REDUCED and event.qty_lots > 0:
            at += _change(out, at, X, event)
        elif kind == REPLACED and index < events.size and events[index].kind == RESTED:
            at += _replace(out, at, event, events[index], units)
            index += 1
        elif kind == REPLACED:
            at += _change(out, at, D, event)
        elif kind == PRINT:
            at += _order(out, at, P, event, event.qty_lots, units, stocks)
        elif kind == HALTED or kind == RESUMED:
            at += _state(out, at, event, stocks)
    return at


def price_units(reference: Reference) -> list[int]:
    """Price units of a tick by symbol. Raises `ExportError` for ticks, lots or names that ITCH cannot represent."""
    units = []
    for symbol in reference.symbols:
        exact = Decimal(symbol.tick_size) * PRICE_UNITS
        if exact != int(exact) or symbol.lot_size != "1":
            raise ExportError(
                f"{symbol.name}: ITCH expects tick sizes of up to four decimals and lot size 1, got {symbol.tick_size} and {symbol.lot_size}"
            )
        if len(symbol.name) > 8 or not symbol.name.isascii():
            raise ExportError(f"ITCH expects names of up to 8 ASCII letters, got {symbol.name}")
        units.append(int(exact))
    return units


def require_times(day: Day, path: Path) -> None:
    """Raises `ExportError` for times that ITCH cannot represent."""
    if max(day.reference.last_time_ns, int(day.commands["time_ns"].max(initial=0))) > TIME_NS_MAX:
        raise ExportError(f"{path}: expected times of up to 48 bits (78 h after midnight), as ITCH has, got later ones")


def write_itch(day: Day, path: Path) -> int:
    """Writes the file (compressed if its name ends in .gz), complete or not at all; returns the number of uncompressed bytes."""
    require_times(day, path)
    units = np.array(price_units(day.reference), np.int64)
    priced = day.commands[day.commands["symbol"] < len(units)]  # the others apply to all symbols, or are rejected
    highest = priced["price_ticks"] * units[priced["symbol"]]
    if len(priced) and max(int(priced["qty_lots"].max()), int(highest.max())) > FIELD_MAX:
        raise ExportError(f"{path}: expected sizes and prices of up to 32 bits, as ITCH has, got larger ones")
    with atomic_file(path) as raw:
        if path.suffix == ".gz":
            with gzip.GzipFile(fileobj=raw, mode="wb", mtime=0) as compressed:
                return _write(day, units, cast("IO[bytes]", compressed))
        return _write(day, units, raw)


def _write(day: Day, units: Any, file: IO[bytes]) -> int:
    names = [symbol.name for symbol in day.reference.symbols]
    stocks = np.array([list(name.ljust(8).encode()) for name in names], np.uint8).reshape(-1, 8)
    first_ns, last_ns = day.reference.first_time_ns, day.reference.last_time_ns
    size = file.write(session_start(names, first_ns))
    market, commands = market_of(day)
    for first in range(0, len(commands), BLOCK_COMMANDS):
        events = exportable_events(market, commands[first : first + BLOCK_COMMANDS])
        out = np.empty(len(events) * MESSAGE_BYTES_MAX, np.uint8)
        size += file.write(out[: encode_events(events, units, stocks, out)].data)
    return size + file.write(encode({"type": "S", "time_ns": last_ns, "event": "C"}))
