"""Writes Cboe PITCH, captured packets and text, field by field from the specification, and keeps the book that it describes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from serl.history.day import Day
from serl.history.importing import import_day
from serl.history.source import Options

SECOND = 34_200
CAPTURE_S = 1_600_954_200
"""2020-09-24 09:30 in New York."""
Levels = dict[int, int]


def le(value: int, size: int) -> bytes:
    return value.to_bytes(size, "little")


def message(kind: int, *fields: bytes) -> bytes:
    body = bytes([kind]) + b"".join(fields)
    return bytes([len(body) + 1]) + body


def time(second: int) -> bytes:
    return message(0x20, le(second, 4))


def add(ns: int, order: int, side: str, shares: int, symbol: str, price: int, form: str = "long") -> bytes:
    """price in ten-thousandths."""
    start = le(ns, 4) + le(order, 8) + side.encode()
    if form == "short":
        return message(0x22, start, le(shares, 2), symbol.ljust(6).encode(), le(price // 100, 2), b"\x01")
    if form == "expanded":
        return message(0x2F, start, le(shares, 4), symbol.ljust(8).encode(), le(price, 8), b"\x01", b"MPID", b"N")
    return message(0x21, start, le(shares, 4), symbol.ljust(6).encode(), le(price, 8), b"\x01")


def executed(ns: int, order: int, shares: int) -> bytes:
    return message(0x23, le(ns, 4), le(order, 8), le(shares, 4), le(77, 8))


def executed_at(ns: int, order: int, shares: int, left: int, price: int) -> bytes:
    return message(0x24, le(ns, 4), le(order, 8), le(shares, 4), le(left, 4), le(77, 8), le(price, 8))


def reduced(ns: int, order: int, shares: int, form: str = "long") -> bytes:
    kind, size = (0x26, 2) if form == "short" else (0x25, 4)
    return message(kind, le(ns, 4), le(order, 8), le(shares, size))


def modified(ns: int, order: int, shares: int, price: int, keeps: bool, form: str = "long") -> bytes:
    flags = bytes([3 if keeps else 1])
    if form == "short":
        return message(0x28, le(ns, 4), le(order, 8), le(shares, 2), le(price // 100, 2), flags)
    return message(0x27, le(ns, 4), le(order, 8), le(shares, 4), le(price, 8), flags)


def deleted(ns: int, order: int) -> bytes:
    return message(0x29, le(ns, 4), le(order, 8))


def traded(ns: int, side: str, shares: int, symbol: str, price: int, form: str = "long") -> bytes:
    start = le(ns, 4) + le(0, 8) + side.encode()
    if form == "short":
        return message(0x2B, start, le(shares, 2), symbol.ljust(6).encode(), le(price // 100, 2), le(78, 8))
    if form == "expanded":
        return message(0x30, start, le(shares, 4), symbol.ljust(8).encode(), le(price, 8), le(78, 8))
    return message(0x2A, start, le(shares, 4), symbol.ljust(6).encode(), le(price, 8), le(78, 8))


def status(ns: int, symbol: str, letter: str) -> bytes:
    return message(0x31, le(ns, 4), symbol.ljust(8).encode(), letter.encode(), b"0", b"  ")


def packet(sequence: int, *messages: bytes, unit: int = 1) -> bytes:
    body = b"".join(messages)
    return le(8 + len(body), 2) + bytes([len(messages), unit]) + le(sequence, 4) + body


def frame(payload: bytes, port: int = 30_501) -> bytes:
    """Ethernet, IPv4 and UDP around a payload."""
    udp = (5_000).to_bytes(2, "big") + port.to_bytes(2, "big") + (8 + len(payload)).to_bytes(2, "big") + b"\0\0"
    size = (28 + len(payload)).to_bytes(2, "big")
    ip = b"\x45\0" + size + b"\0\0\0\0\x10\x11\0\0" + bytes([10, 0, 0, 1]) + bytes([224, 0, 62, 2])
    return bytes(12) + b"\x08\x00" + ip + udp + payload


def pcap(frames: Iterable[bytes], byteorder: Any = "little", magic: int = 0xA1B2C3D4) -> bytes:
    """A capture, a packet a second."""

    def number(value: int) -> bytes:
        return value.to_bytes(4, byteorder)

    head = number(magic) + number(0x0004_0002) + number(0) + number(0) + number(65_535) + number(1)
    packets = (
        number(CAPTURE_S + second) + number(0) + number(len(one)) + number(len(one)) + one
        for second, one in enumerate(frames)
    )
    return head + b"".join(packets)


def capture(*messages: bytes) -> bytes:
    """One message a packet, after the Time of the first second."""
    return pcap(frame(packet(number, one)) for number, one in enumerate((time(SECOND), *messages), 1))


def base_36(number: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[digit] + digits
    return digits.rjust(12, "0")


def imported(folder: Path, data: bytes, **options: Any) -> Day:
    """Imports a file with this content."""
    path = folder / "sample.pitch"
    path.write_bytes(data)
    return import_day(path, Options(**options))


@dataclass
class Session:
    """A random session: its messages in both forms, and the levels of each symbol after each of them. Executions are in price-time priority."""

    seed: int
    symbols: Sequence[str] = ("AAA", "BBB.WS")
    is_text: bool = False
    binary: list[bytes] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    books: list[dict[str, tuple[Levels, Levels]]] = field(default_factory=list)
    orders: dict[int, list[Any]] = field(default_factory=dict)
    """[order] symbol, side, ticks, shares; in queue order."""

    def run(self, events: int) -> "Session":
        random = np.random.default_rng(self.seed)
        for number in range(1, events + 1):
            self._step(lambda low, high: int(random.integers(low, high + 1)), number)
            self.books.append(
                {symbol: (self._levels(symbol, "B"), self._levels(symbol, "S")) for symbol in self.symbols}
            )
        return self

    def _levels(self, symbol: str, side: str) -> Levels:
        levels: Levels = {}
        for one, its_side, ticks, shares in self.orders.values():
            if (one, its_side) == (symbol, side):
                levels[ticks] = levels.get(ticks, 0) + shares
        return levels

    def _step(self, draw: Any, number: int) -> None:
        ns, ms = number * 1_000, SECOND * 1_000 + number
        form = ("short", "long", "expanded")[draw(0, 2)]
        symbol = self.symbols[draw(0, 1)]
        kind = draw(0, 9) if len(self.orders) > 4 else 0
        if kind <= 3:
            side, shares = "BS"[draw(0, 1)], draw(1, 900)
            ticks = draw(9_950, 9_990) if side == "B" else draw(10_010, 10_050)
            self.orders[number] = [symbol, side, ticks, shares]
            self.binary.append(add(ns, number, side, shares, symbol, 100 * ticks, form))
            letter, width = ("A", 6) if form == "short" else ("d", 8)
            more = "" if form == "short" else "MPID "
            self.text.append(
                f"S{ms:08}{letter}{base_36(number)}{side}{shares:06}{symbol:<{width}}{100 * ticks:010}Y{more}"
            )
        elif kind == 4:
            self._trade(ns, ms, form, symbol, draw)
        elif kind <= 6:
            self._execute(ns, ms, draw, kind == 6 and not self.is_text)
        else:
            self._change(ns, ms, form, draw, 7 if self.is_text else kind)

    def _trade(self, ns: int, ms: int, form: str, symbol: str, draw: Any) -> None:
        shares, price = draw(1, 500), 1_000_000 + 100 * draw(-9, 9) + (50 if form != "short" else 0)
        self.binary.append(traded(ns, "B", shares, symbol, price, form))
        letter, width = ("P", 6) if form == "short" else ("r", 8)
        self.text.append(f"{ms:08}{letter}{base_36(5)}B{shares:06}{symbol:<{width}}{price:010}{base_36(78)}")

    def _execute(self, ns: int, ms: int, draw: Any, at_price: bool) -> None:
        symbol, side = next(iter(self.orders.values()))[:2]
        queue = [(order, row) for order, row in self.orders.items() if row[:2] == [symbol, side]]
        order, row = min(queue, key=lambda one: -one[1][2] if side == "B" else one[1][2])
        shares = draw(1, row[3])
        left = row[3] - shares
        if at_price:
            left = draw(0, left)
            self.binary.append(executed_at(ns, order, shares, left, 100 * row[2] + 100 * draw(-2, 2)))
        else:
            self.binary.append(executed(ns, order, shares))
        self.text.append(f"{ms:08}E{base_36(order)}{shares:06}{base_36(77)}")
        self._leave(order, left)

    def _change(self, ns: int, ms: int, form: str, draw: Any, kind: int) -> None:
        order = list(self.orders)[draw(0, len(self.orders) - 1)]
        symbol, side, ticks, shares = self.orders[order]
        if kind == 7:
            fewer = draw(1, shares)
            self.binary.append(reduced(ns, order, fewer, form))
            self.text.append(f"{ms:08}X{base_36(order)}{fewer:06}")
            self._leave(order, shares - fewer)
        elif kind == 8:
            self.binary.append(deleted(ns, order))
            self._leave(order, 0)
        else:
            keeps = bool(draw(0, 1)) and shares > 1
            new = draw(1, shares - 1) if keeps else draw(1, 900)
            ticks = ticks if keeps else ticks + (draw(0, 3) if side == "S" else -draw(0, 3))
            self.binary.append(modified(ns, order, new, 100 * ticks, keeps, form))
            if not keeps:
                del self.orders[order]  # it joins the queue at its end
            self.orders[order] = [symbol, side, ticks, new]

    def _leave(self, order: int, shares: int) -> None:
        if shares:
            self.orders[order][3] = shares
        else:
            del self.orders[order]
