"""Reads PITCH as text, one message per line, by Cboe's "US Equities TCP Depth of Book (PITCH) Specification", version 1.14.1 and its revision of
March 2022.

A line may begin with S, for a sequenced message. Then follow milliseconds after midnight (8 digits), the type, and fields of fixed width. Order ids
are numbers in base 36, prices have six digits and four decimals. There is no modify and no delete: X cancels shares, for a delete all of them.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from serl.history.decompress import read_blocks
from serl.history.errors import PitchError
from serl.history.order_writer import InvalidOrder
from serl.history.pitch.orders import PitchOrders

MS_NS = 1_000_000
LINE_BYTES_MAX = 1 << 10
_LINES = {
    "s": ("symbol clear", "symbol:8"),
    "A": ("add order", "order:12 side:1 shares:6 symbol:6 price:10 display:1"),
    "d": ("add order (long)", "order:12 side:1 shares:6 symbol:8 price:10 display:1"),  # and participant, customer
    "E": ("order executed", "order:12 shares:6 execution:12"),
    "X": ("order cancel", "order:12 shares:6"),
    "P": ("trade", "order:12 side:1 shares:6 symbol:6 price:10 execution:12"),
    "r": ("trade (long)", "order:12 side:1 shares:6 symbol:8 price:10 execution:12"),
    "B": ("trade break", "execution:12"),
    "H": ("trading status", "symbol:8 status:1 reg_sho:1"),
    "I": ("auction update", "symbol:8 auction:1"),
    "J": ("auction summary", "symbol:8 auction:1 price:10 shares:10"),
    "R": ("retail price improvement", "symbol:8 interest:1"),
}
"""By type: the name, and the fields that are read, with their widths."""
HEAD_CHARACTERS = 9
"""Number of characters of the time and the type."""
DIGITS = re.compile(r"\d+")
BASE_36 = re.compile(r"[0-9A-Z]+")


def _slices(fields: str) -> dict[str, slice]:
    at, slices = HEAD_CHARACTERS, {}
    for field in fields.split():
        name, _, width = field.partition(":")
        slices[name] = slice(at, at + int(width))
        at += int(width)
    return slices


FIELDS = {kind: _slices(fields) for kind, (_, fields) in _LINES.items()}
LENGTHS = {kind: max(part.stop for part in slices.values()) for kind, slices in FIELDS.items()}
"""Minimum length of a line by its type, without S and the line break."""


def is_pitch_text(head: bytes) -> bool:
    """Whether a file begins with a line of PITCH."""
    line = head.partition(b"\n")[0].removesuffix(b"\r").removeprefix(b"S").decode("latin-1")
    return bool(DIGITS.fullmatch(line[:8])) and LENGTHS.get(line[8:9], LINE_BYTES_MAX) <= len(line) < LINE_BYTES_MAX


class TextReader:
    """Applies the lines of a file."""

    def __init__(self, path: Path, orders: PitchOrders) -> None:
        self.lines = 0
        self._path, self._orders = path, orders
        self._last_ns = 0
        self._handlers: dict[str, Callable[[str], None]] = {
            "s": self._clear,
            "A": self._add,
            "d": self._add,
            "E": self._execute,
            "X": self._cancel,
            "P": self._trade,
            "r": self._trade,
            "B": lambda line: self._count("broken_trades"),
            "H": self._set_status,
            "J": lambda line: self._count("auctions"),
        }

    def read(self) -> None:
        """Reads the file. Raises `PitchError`."""
        for line in self._split():
            self.lines += 1
            try:
                self._read_line(line.decode("latin-1").removesuffix("\r").removeprefix("S"))
            except InvalidOrder as error:
                raise PitchError(f"{self._path}: line {self.lines}: expected {error}, got {line[:80]!r}") from None

    def _split(self) -> Iterator[bytes]:
        rest = b""
        for block in read_blocks(self._path):
            *lines, rest = (rest + block).split(b"\n")
            yield from lines
            if len(rest) > LINE_BYTES_MAX:
                break
        if rest:
            yield rest

    def _read_line(self, line: str) -> None:
        if not DIGITS.fullmatch(line[:8]) or len(line) < HEAD_CHARACTERS:
            raise InvalidOrder("milliseconds after midnight (8 digits) and a type")
        kind = line[8]
        if len(line) < LENGTHS.get(kind, 0) or len(line) > LINE_BYTES_MAX:
            raise InvalidOrder(f"a message {_LINES[kind][0] if kind in _LINES else kind} of {LENGTHS.get(kind, 0)} characters or a few more")  # fmt: skip
        time_ns = int(line[:8]) * MS_NS
        if time_ns < self._last_ns:
            raise InvalidOrder(f"a time not before {self._last_ns // MS_NS} ms, that of the line above")
        self._last_ns = time_ns
        self._orders.stamp(time_ns)
        handler = self._handlers.get(kind)
        if handler is None:
            self._count("messages_without_effect")
        else:
            handler(line)

    def _add(self, line: str) -> None:
        fields = FIELDS[line[8]]
        self._orders.add(
            _order(line), line[fields["side"]], _number(line[fields["shares"]], "shares"), line[fields["symbol"]].rstrip(" "),
            _number(line[fields["price"]], "a price"),
        )  # fmt: skip

    def _execute(self, line: str) -> None:
        order = _order(line)
        if self._orders.knows(order):
            self._orders.writer.execute(order, _number(line[FIELDS["E"]["shares"]], "shares"))

    def _cancel(self, line: str) -> None:
        order = _order(line)
        if self._orders.knows(order):
            self._orders.writer.reduce(order, _number(line[FIELDS["X"]["shares"]], "shares"))

    def _trade(self, line: str) -> None:
        fields = FIELDS[line[8]]
        self._orders.trade(
            line[fields["side"]], _number(line[fields["shares"]], "shares"), line[fields["symbol"]].rstrip(" "),
            _number(line[fields["price"]], "a price"),
        )  # fmt: skip

    def _set_status(self, line: str) -> None:
        self._orders.set_status(line[FIELDS["H"]["symbol"]].rstrip(" "), line[FIELDS["H"]["status"]])

    def _clear(self, line: str) -> None:
        self._orders.clear_symbol(line[FIELDS["s"]["symbol"]].rstrip(" "))

    def _count(self, name: str) -> None:
        self._orders.counts[name] += 1


def _number(text: str, name: str) -> int:
    if not DIGITS.fullmatch(text):
        raise InvalidOrder(f"{name} of {len(text)} digits")
    return int(text)


def _order(line: str) -> int:
    text = line[FIELDS["X"]["order"]]
    if not BASE_36.fullmatch(text):
        raise InvalidOrder("an order id of 12 digits to base 36")
    return int(text, 36)
