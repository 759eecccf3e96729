"""A recording of Binance's public streams: a snapshot of the book, depth diffs, trades; one line each, behind its time of arrival.

`1723161253937085768 {"stream":"btcusdt@depth@100ms","data":{...}}`: nanoseconds since 1970, then the message as it came.
"""

import json
import re
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from serl.exchange.compiling import compiled, int64
from serl.exchange.history import named_book
from serl.exchange.history.day import Reference, SymbolReference
from serl.exchange.history.errors import DepthError
from serl.exchange.history.named_book import BUY, FIRST_NS, ROW, SELL, TIME_NS, NamedBook, level_of, room
from serl.exchange.history.named_play import aggress, settle_level
from serl.exchange.history.source import DEFAULTS, Options, Sink, flush, make_room, source_file
from serl.exchange.history.unpacked import blocks

LINE = re.compile(rb'\d{16,19} \{"')
TICK, LOT = "0.01", "0.00001"
DAY_NS = 86_400 * 1_000_000_000
SIDES = ("b", "a")
"""Bids and asks of a diff."""


def is_depth(head: bytes) -> bool:
    """Whether the first bytes of a file are a line of such a recording."""
    return LINE.match(head) is not None


class Line(NamedTuple):
    """One line of the file."""

    number: int
    """From 1."""
    time_ns: int
    """Since 1970."""
    message: dict[str, Any]


def read_lines(path: Path) -> Iterator[Line]:
    """The lines of a recording; DepthError for one that is not a time and a JSON object, or goes back in time."""
    rest, number, last_ns = b"", 0, 0
    for block in (*blocks(path), b""):
        *whole, rest = (rest + block).split(b"\n")
        for text in whole if block else [*whole, rest]:
            number += 1
            if not text.strip() and not block:
                continue
            time, _, message = text.partition(b" ")
            try:
                line = Line(number, int(time), json.loads(message))
            except ValueError:
                raise DepthError(
                    f"{path}: line {number}: a time in ns and a JSON object are due, got {text[:60]!r}"
                ) from None
            if line.time_ns < last_ns or not isinstance(line.message, dict):
                raise DepthError(
                    f"{path}: line {number}: a time not before {last_ns} and a JSON object are due, got {text[:60]!r}"
                )
            last_ns = line.time_ns
            yield line


class Units:
    """From decimal texts to ticks and lots."""

    def __init__(self, tick_size: str, lot_size: str) -> None:
        self.tick_size, self.lot_size = Decimal(tick_size), Decimal(lot_size)
        self.sizes_rounded = 0

    def level(self, price: str, size: str) -> tuple[int, int]:
        """(price_ticks, qty_lots), sizes to the nearest lot but at least 1 of what is not 0; ValueError if the price is off the tick."""
        try:
            ticks, lots = Decimal(price) / self.tick_size, Decimal(size) / self.lot_size
        except (InvalidOperation, TypeError):
            raise ValueError(f"a decimal price and size, got {price!r}, {size!r}") from None
        if ticks != int(ticks) or ticks <= 0 or lots < 0:
            raise ValueError(
                f"a price that is a multiple of the tick {self.tick_size} and a size not below 0, got {price}, {size}"
            )
        whole = max(1, int(lots.to_integral_value())) if lots else 0
        self.sizes_rounded += whole != lots
        return int(ticks), whole


class SourceBook:
    """Levels as the diffs say them."""

    def __init__(self) -> None:
        self.lots: tuple[dict[int, int], dict[int, int]] = ({}, {})
        self.prices: tuple[list[int], list[int]] = ([], [])
        self.update_id = -1

    def change(self, side: int, price_ticks: int, lots: int) -> None:
        """Sets a level; 0 lots take it away."""
        levels, prices = self.lots[side], self.prices[side]
        if lots and price_ticks not in levels:
            insort(prices, price_ticks)
        if not lots and price_ticks in levels:
            del prices[bisect_left(prices, price_ticks)], levels[price_ticks]
        if lots:
            levels[price_ticks] = lots

    def through(self, side: int, price_ticks: int) -> list[int]:
        """Prices of a side from its best to this one."""
        prices = self.prices[side]
        return (
            prices[bisect_left(prices, price_ticks) :] if side == BUY else prices[: bisect_right(prices, price_ticks)]
        )


@compiled
def _settle(book: NamedBook, targets: Any) -> bool:
    """Makes levels [(side, price_ticks, lots)] what they are due; False for want of room: then again from the start."""
    for adding in range(2):  # first off, then on: what is gone must not trade with what came
        for index in range(targets.shape[0]):
            side, price_ticks, lots = targets[index]
            at = level_of(book, 0, side, price_ticks)
            if not room(book, int64(book.levels[at].orders) if at else 0):
                return False
            settle_level(book, 0, side, price_ticks, lots, adding == 1)
    return True


class _Player:
    """Lines in, commands out."""

    def __init__(self, path: Path, sink: Sink, units: Units) -> None:
        self.path = path
        self.units = units
        self.source = SourceBook()
        self.book = named_book.named_book(1)
        self.midnight_ns = self.last_ns = 0
        self.symbol = ""
        self.counts = dict.fromkeys(
            ("opening_orders", "diffs", "diffs_before_snapshot", "trades", "trades_unfilled", "other_messages"), 0
        )
        self._sink = sink
        self._early: list[Line] = []
        self._traded: dict[int, int] = {}
        """Side: worst price at which trades took something since the last diff."""

    def play(self, line: Line) -> None:
        """Any line; DepthError says what is wrong with it."""
        self.midnight_ns = self.midnight_ns or line.time_ns // DAY_NS * DAY_NS
        self.last_ns = line.time_ns - self.midnight_ns
        message = line.message.get("data", line.message)
        try:
            if "lastUpdateId" in message:
                self._open(line, message)
            elif message.get("e") == "depthUpdate":
                self._diff(line, message)
            elif message.get("e") == "trade":
                self._trade(line, message)
            else:
                self.counts["other_messages"] += 1
        except KeyError as error:
            raise DepthError(f"{self.path}: line {line.number}: a field {error} is due") from None
        except ValueError as error:
            raise DepthError(f"{self.path}: line {line.number}: due is {error}") from None

    def _at(self, line: Line, row: int) -> None:
        self.book.counter[ROW], self.book.counter[TIME_NS] = row, line.time_ns - self.midnight_ns

    def _open(self, line: Line, message: dict[str, Any]) -> None:
        if self.source.update_id >= 0:
            raise ValueError("one snapshot, this is another; cut the file before it")
        self.source.update_id = int(message["lastUpdateId"])
        targets = []
        for side, name in enumerate(("bids", "asks")):
            for price, size in message[name]:
                ticks, lots = self.units.level(price, size)
                self.source.change(side, ticks, lots)
                targets.append((side, ticks, lots))
        self._at(line, -1)
        self._settle(targets)
        self.counts["opening_orders"] = len(targets)
        for early in self._early:
            self._diff(line._replace(number=early.number), early.message["data"])
        self._early.clear()

    def _diff(self, line: Line, message: dict[str, Any]) -> None:
        first, last, known = int(message["U"]), int(message["u"]), self.source.update_id
        self.symbol = self.symbol or str(message["s"])
        if known < 0:
            self._early.append(line)
            return
        if last <= known and not self.counts["diffs"]:
            self.counts["diffs_before_snapshot"] += 1
            return
        if first > known + 1 or (self.counts["diffs"] and first != known + 1):
            raise ValueError(f"update {known + 1}, got {first} to {last}: diffs are missing; cut the file there")
        changes = [(side, *self.units.level(*level)) for side, name in enumerate(SIDES) for level in message[name]]
        for change in changes:
            self.source.change(*change)
        self.source.update_id = last
        changes += [
            (side, price, self.source.lots[side][price])
            for side, worst in self._traded.items()
            for price in self.source.through(side, worst)
        ]
        self._traded.clear()
        self._at(line, line.number - 1)
        self._settle(changes)
        self.counts["diffs"] += 1

    def _settle(self, changes: list[tuple[int, int, int]]) -> None:
        targets = np.array(changes, np.int64).reshape(-1, 3)
        while not _settle(self.book, targets):
            self.book = make_room(self.book, self._sink)

    def _trade(self, line: Line, message: dict[str, Any]) -> None:
        if self.source.update_id < 0:
            return
        ticks, lots = self.units.level(message["p"], message["q"])
        if lots == 0:
            raise ValueError(f"a size above 0, got {message['q']}")
        resting = BUY if message["m"] else SELL
        while not room(self.book, 0):
            self.book = make_room(self.book, self._sink)
        self._at(line, line.number - 1)
        self.counts["trades"] += 1
        self.counts["trades_unfilled"] += int(aggress(self.book, 0, 1 - resting, ticks, lots) > 0)
        worst = self._traded.get(resting, ticks)
        self._traded[resting] = min(worst, ticks) if resting == BUY else max(worst, ticks)

    def finish(self) -> None:
        """Hands over what is left; DepthError if there was no snapshot."""
        if self.source.update_id < 0:
            raise DepthError(
                f"{self.path}: a snapshot (lastUpdateId, bids, asks) is due, the file has none; a book cannot begin"
            )
        flush(self.book, self._sink)


def read_depth(path: Path, sink: Sink, options: Options = DEFAULTS) -> Reference:
    """Writes the commands of a recording to the sink; DepthError names the line of what is wrong."""
    tick_size, lot_size = options.tick_size or TICK, options.lot_size or LOT
    player = _Player(path, sink, Units(tick_size, lot_size))
    rows = 0
    for line in read_lines(path):
        player.play(line)
        rows = line.number
    player.finish()
    date = datetime.fromtimestamp(player.midnight_ns // 1_000_000_000, UTC).date().isoformat()
    return Reference(
        symbols=(SymbolReference(options.symbols[0] if options.symbols else player.symbol, tick_size, lot_size),),
        date=date,
        source="depth",
        files=(source_file(path),),
        first_time_ns=int(player.book.counter[FIRST_NS]),
        last_time_ns=player.last_ns,
        source_rows=rows,
        counts=player.counts | {"sizes_rounded": player.units.sizes_rounded},
    )


def depth_view(path: Path, symbol: SymbolReference, levels: int = 20) -> tuple[Any, Any, Any]:
    """(price_ticks, qty_lots) after each diff that a day follows, [diff, side (bids first), level], 0 for no level; and their rows."""
    units, source = Units(symbol.tick_size, symbol.lot_size), SourceBook()
    views: list[Any] = []
    rows: list[int] = []
    early: list[dict[str, Any]] = []
    for line in read_lines(path):
        message = line.message.get("data", line.message)
        if "lastUpdateId" in message:
            source.update_id = message["lastUpdateId"]
            _set_levels(source, units, message["bids"], message["asks"])
            for one in early:
                if one["u"] > source.update_id:
                    _set_levels(source, units, one["b"], one["a"])
        elif message.get("e") == "depthUpdate" and source.update_id < 0:
            early.append(message)
        elif message.get("e") == "depthUpdate" and message["u"] > source.update_id:
            _set_levels(source, units, message["b"], message["a"])
            rows.append(line.number - 1)
            views.append([_best(source, side, levels) for side in range(2)])
    view = np.array(views, np.int64).reshape(-1, 2, levels, 2)
    return np.ascontiguousarray(view[..., 0]), np.ascontiguousarray(view[..., 1]), np.array(rows, np.int64)


def _set_levels(source: SourceBook, units: Units, *sides: list[list[str]]) -> None:
    for side, levels in enumerate(sides):
        for price, size in levels:
            source.change(side, *units.level(price, size))


def _best(source: SourceBook, side: int, count: int) -> list[tuple[int, int]]:
    prices = source.prices[side][-count:][::-1] if side == BUY else source.prices[side][:count]
    return [(price, source.lots[side][price]) for price in prices] + [(0, 0)] * (count - len(prices))
