"""Exports a day as LOBSTER files: a zip file with the messages that touch N levels of one symbol, and the book after each."""

import io
import zipfile
from bisect import bisect_left, insort
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

from serl.exchange.atomic_file import atomic_file
from serl.exchange.records import EventFlag, EventKind, Phase, Rows
from serl.history.accounts import public_events, single_symbol_reference
from serl.history.day import Day
from serl.history.errors import ExportError
from serl.history.lobster import EMPTY_PRICE, NAME, TICK_UNITS
from serl.history.lobster_check import DAY_NS, SIZE_MAX
from serl.history.verify import exportable_events, market_of

NEW, PARTIAL_CANCEL, DELETE, EXECUTION, HIDDEN, CROSS, STATE = range(1, 8)
HALTED, QUOTING, TRADING = -1, 0, 1
"""Values of the price of a STATE."""
BLOCK_COMMANDS = 1 << 16
BUY = 0
MESSAGE_OF = {
    EventKind.RESTED: NEW, EventKind.REDUCED: PARTIAL_CANCEL, EventKind.CANCELLED: DELETE, EventKind.REPLACED: DELETE,
}  # fmt: skip
"""Message types of the events that change the book, besides ACCEPTED and FILL."""


class _Side:
    """One side of the book: lots by price, and the prices from worst to best."""

    def __init__(self, side: int) -> None:
        self.sign = 1 if side == BUY else -1
        self.lots: dict[int, int] = {}
        self.prices: list[int] = []

    def change(self, price_ticks: int, lots: int) -> int:
        """Changes a level; returns how many levels are better."""
        key = price_ticks * self.sign
        if price_ticks not in self.lots:
            self.lots[price_ticks] = 0
            insort(self.prices, key)
        place = bisect_left(self.prices, key)
        better = len(self.prices) - place - 1
        self.lots[price_ticks] += lots
        if not self.lots[price_ticks]:
            del self.lots[price_ticks], self.prices[place]
        return better

    def cells(self, levels: int) -> list[str]:
        """Price and size of each level, best first."""
        best = [key * self.sign for key in self.prices[: -levels - 1 : -1]]
        empty = [f"{-EMPTY_PRICE * self.sign},0"] * (levels - len(best))
        return [f"{price * TICK_UNITS},{self.lots[price]}" for price in best] + empty


class _Files:
    """The contents of both files, and the book so far."""

    def __init__(self, levels: int) -> None:
        self.levels = levels
        self.messages = io.StringIO()
        self.books = io.StringIO()
        self._sides = (_Side(0), _Side(1))
        self._book_line = ""
        self._prices: dict[int, int] = {}  # limits of the displayed orders, which auction fills do not contain
        self._halted, self._phase = False, int(Phase.CONTINUOUS)
        self._update_book_line()

    def change(self, time_ns: int, kind: int, order: int, side: int, price_ticks: int, lots: int, leaves: int) -> None:
        """Changes the book; writes the message if the level is in view before or after."""
        if kind == NEW:
            self._prices[order] = price_ticks
        elif not leaves:
            del self._prices[order]
        better = self._sides[side].change(price_ticks, lots if kind == NEW else -lots)
        if better < self.levels:
            self._update_book_line()
            self.message(time_ns, kind, order, lots, price_ticks * TICK_UNITS, 1 if side == BUY else -1)

    def auction_fill(self, time_ns: int, order: int, side: int, lots: int, leaves: int) -> None:
        """An auction fills an order: written as a cancel, because the CROSS reports the trade."""
        kind = PARTIAL_CANCEL if leaves else DELETE
        self.change(time_ns, kind, order, side, self._prices[order], lots, leaves)

    def cross(self, time_ns: int, price_ticks: int, lots: int) -> None:
        """Writes the trade of an auction."""
        self.message(time_ns, CROSS, 0, lots, price_ticks * TICK_UNITS, -1)

    def state(self, time_ns: int, halted: bool | None = None, phase: int | None = None) -> None:
        """Applies a halt, a resume or a phase; writes a message if the trading state changes."""
        before = self._state()
        self._halted = self._halted if halted is None else halted
        self._phase = self._phase if phase is None else phase
        if self._state() != before:
            self.message(time_ns, STATE, 0, 0, self._state(), -1)

    def _state(self) -> int:
        if self._halted or self._phase == Phase.CLOSED:
            return HALTED
        return TRADING if self._phase == Phase.CONTINUOUS else QUOTING

    def message(self, time_ns: int, kind: int, order: int, size: int, price: int, direction: int) -> None:
        """Writes a message and the current book."""
        if size > SIZE_MAX or time_ns >= DAY_NS:
            got = f"{size:,} lots at {time_ns / 1_000_000_000:,.3f} s"
            raise ExportError(f"LOBSTER expects sizes of up to {SIZE_MAX:,} and times of up to 86,400 s, got {got}")
        second, rest = divmod(time_ns, 1_000_000_000)
        self.messages.write(f"{second}.{rest:09},{kind},{order},{size},{price},{direction}\n")
        self.books.write(self._book_line)

    def _update_book_line(self) -> None:
        bids, asks = (side.cells(self.levels) for side in self._sides)
        self._book_line = ",".join(f"{ask},{bid}" for bid, ask in zip(bids, asks, strict=True)) + "\n"


def write_lobster(day: Day, path: Path, levels: int = 10, name: str | None = None) -> int:
    """Writes the zip file, complete or not at all; returns the number of rows. name: the symbol of a day with several participants.
    Raises `ExportError`."""
    reference, number = single_symbol_reference(day, name) if name else (day.reference, None)
    if len(reference.symbols) != 1:
        names = ", ".join(symbol.name for symbol in reference.symbols)
        raise ExportError(
            f"{path}: expected a day with one symbol, got {len(reference.symbols)} ({names}); give one with --symbol"
        )
    symbol = reference.symbols[0]
    if Decimal(symbol.tick_size) * 10_000 != TICK_UNITS or symbol.lot_size != "1":
        raise ExportError(
            f"{symbol.name}: LOBSTER expects tick size 0.01 and lot size 1, got {symbol.tick_size} and {symbol.lot_size}"
        )
    first_ms, last_ms = (time_ns // 1_000_000 for time_ns in (reference.first_time_ns, reference.last_time_ns))
    message_name, book_name = (
        f"{symbol.name}_{reference.date or '1970-01-01'}_{first_ms}_{last_ms}_{content}_{levels}.csv"
        for content in ("message", "orderbook")
    )
    if not symbol.name.isprintable() or not NAME.fullmatch(message_name):
        raise ExportError(f"LOBSTER expects names of symbols that the name of a file can contain, got {symbol.name!r}")
    files = _Files(levels)
    for events in public_events(day, number) if reference.participants else _events_of(day):
        _write_events(files, events)
    rows = files.messages.getvalue().count("\n")
    if not rows:
        raise ExportError(f"{path}: expected at least one event, got none in this day")
    with atomic_file(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(message_name, files.messages.getvalue())
        archive.writestr(book_name, files.books.getvalue())
    return rows


def _events_of(day: Day) -> Iterator[Rows]:
    market, commands = market_of(day)
    for first in range(0, len(commands), BLOCK_COMMANDS):
        yield exportable_events(market, commands[first : first + BLOCK_COMMANDS])


def _write_events(files: _Files, events: Rows) -> None:
    fields = ("kind", "flags", "time_ns", "order_number", "side", "price_ticks", "qty_lots", "leaves_lots")
    for kind, flags, time_ns, order, side, price, lots, leaves in zip(
        *(events[name].tolist() for name in fields), strict=True
    ):
        resting = flags & EventFlag.RESTING
        if flags & EventFlag.AUCTION and kind in (EventKind.FILL, EventKind.PRINT):
            if kind == EventKind.FILL:
                files.auction_fill(time_ns, order, side, lots, leaves)
        elif kind == EventKind.FILL and flags & EventFlag.MAKER:
            files.change(time_ns, EXECUTION, order, side, price, lots, leaves)
        elif kind == EventKind.PRINT:
            files.message(time_ns, HIDDEN, 0, lots, price * TICK_UNITS, 1 if side == BUY else -1)
        elif kind == EventKind.HALTED:
            files.state(time_ns, halted=True)
        elif kind == EventKind.RESUMED:
            files.state(time_ns, halted=False)
        elif kind == EventKind.PHASED:
            if lots:
                files.cross(time_ns, price, lots)
            files.state(time_ns, phase=flags)
        elif kind == EventKind.RESTED or (kind == EventKind.ACCEPTED and resting):
            files.change(time_ns, NEW, order, side, price, leaves, leaves)
        elif (
            kind == EventKind.REPLACED
            or (kind == EventKind.REDUCED and lots)
            or (kind == EventKind.CANCELLED and resting)
        ):
            remaining = 0 if kind == EventKind.REPLACED else leaves
            files.change(time_ns, MESSAGE_OF[EventKind(kind)], order, side, price, lots, remaining)
