"""Reads captured packets of Multicast PITCH."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from serl.history.errors import PitchError
from serl.history.order_writer import InvalidOrder
from serl.history.packets import Datagram, head_datagrams, is_capture, read_datagrams
from serl.history.pitch import messages
from serl.history.pitch.messages import (
    LAYOUTS,
    MAINTAIN_PRIORITY,
    MESSAGE_HEAD,
    SHORT_PRICE_UNITS,
    SHORT_PRICES,
    UNIT_HEADER,
    tiles,
)
from serl.history.pitch.orders import OMITTED, PitchOrders

SECOND_NS = 1_000_000_000
DAY_S = 86_400
COUNT_NAMES = (
    "messages",
    "messages_missing",  # by the sequence numbers of the units
    "messages_repeated",
    "messages_untimed",  # before the first Time message of their unit; omitted
    "gaps",
    "seconds_inferred",  # of messages after a gap that may contain their Time message
    "other_packets",
)


def is_pitch_capture(head: bytes) -> bool:
    """Whether a (decompressed) file begins as a capture with a datagram of PITCH."""
    return is_capture(head) and any(
        tiles(datagram.payload) and UNIT_HEADER.unpack_from(datagram.payload)[1] for datagram in head_datagrams(head)
    )


class _Unit:
    """The state of a unit of the exchange."""

    def __init__(self, sequence: int) -> None:
        self.sequence = sequence
        self.second_ns = -1
        self.last_ns = 0
        self.lacks_time = False
        """Whether a Time message may be missing since the last one."""
        self.symbols: set[int] = set()
        self.ended = False


class BinaryReader:
    """Applies the messages of datagrams, each unit by its sequence numbers."""

    def __init__(self, path: Path, orders: PitchOrders) -> None:
        self.counts = dict.fromkeys(COUNT_NAMES, 0)
        self.capture_ns = -1
        """Time of the first packet of the feed, since 1970; -1 if the capture does not contain it."""
        self._path, self._orders = path, orders
        self._units: dict[int, _Unit] = {}
        self._streams: set[bytes] = set()
        self._handlers: dict[int, Callable[..., None]] = {
            messages.ADD_LONG: self._add,
            messages.ADD_SHORT: self._add,
            messages.ADD_EXPANDED: self._add,
            messages.EXECUTED: self._execute,
            messages.EXECUTED_AT: self._execute_at,
            messages.REDUCE_LONG: self._reduce,
            messages.REDUCE_SHORT: self._reduce,
            messages.MODIFY_LONG: self._modify,
            messages.MODIFY_SHORT: self._modify,
            messages.DELETE: self._delete,
            messages.TRADE_LONG: self._trade,
            messages.TRADE_SHORT: self._trade,
            messages.TRADE_EXPANDED: self._trade,
            messages.TRADE_BREAK: self._break_trade,
            messages.TRADING_STATUS: self._set_status,
            messages.AUCTION_SUMMARY: self._summarize_auction,
            messages.UNIT_CLEAR: self._clear,
            messages.END_OF_SESSION: self._end,
        }

    def read(self) -> None:
        """Reads the file. Raises `PitchError`."""
        for datagram in read_datagrams(self._path, PitchError):
            if datagram.stream not in self._streams and not tiles(datagram.payload):
                self.counts["other_packets"] += 1
                continue
            if not self._streams:
                self.capture_ns = datagram.time_ns
            self._streams.add(datagram.stream)
            if len(datagram.payload) < datagram.size:
                got = f"{len(datagram.payload)} of its {datagram.size} bytes; capture whole packets"
                raise PitchError(f"{self._path}: byte {datagram.offset}: expected a whole packet, got {got}")
            self._read_datagram(datagram)
        if not self._streams:
            raise PitchError(
                f"{self._path}: expected packets of Cboe's PITCH, got {self.counts['other_packets']:,} others"
            )

    def _read_datagram(self, datagram: Datagram) -> None:
        payload = datagram.payload
        if len(payload) < UNIT_HEADER.size or UNIT_HEADER.unpack_from(payload)[0] > len(payload):
            got = f"{len(payload)} bytes ({payload[:16].hex()})"
            raise self._error(datagram.offset, f"a sequenced unit header and the messages that it counts, got {got}")
        length, count, number, sequence = UNIT_HEADER.unpack_from(payload)
        if sequence == 0:  # not sequenced: heartbeats and answers to requests
            return
        unit = self._units.get(number)
        if unit is None:
            unit = self._units[number] = _Unit(sequence)
        if sequence > unit.sequence:
            self.counts["gaps"] += 1
            self.counts["messages_missing"] += sequence - unit.sequence
            unit.lacks_time = True
        elif unit.ended and sequence < unit.sequence and sequence == 1 and count:
            raise self._error(
                datagram.offset, f"one trading day, got the first messages of unit {number} again after its end"
            )
        repeated = unit.sequence - sequence
        unit.sequence = max(unit.sequence, sequence + count)
        at = UNIT_HEADER.size
        for index in range(count):
            size = payload[at] if at < length else 0
            if size < MESSAGE_HEAD or at + size > length:
                raise self._error(datagram.offset + at, f"message {index + 1} of {count} of a packet, got {payload[at : at + 8].hex() or 'its end'}")  # fmt: skip
            if index < repeated:
                self.counts["messages_repeated"] += 1
            else:
                self._read_message(unit, payload, at, size, datagram.offset)
            at += size
        if at != length:
            raise self._error(datagram.offset + at, f"the end of a packet, got {payload[at : at + 8].hex()}")

    def _read_message(self, unit: _Unit, payload: bytes, at: int, size: int, offset: int) -> None:
        self.counts["messages"] += 1
        kind = payload[at + 1]
        layout = LAYOUTS.get(kind)
        if layout is None:
            self._orders.counts["messages_without_effect"] += 1
            return
        if size < layout.length:
            raise self._error(offset + at, f"a message {layout.name} of {layout.length} bytes, got length {size}")
        fields = layout.fields.unpack_from(payload, at + MESSAGE_HEAD)
        try:
            if kind == messages.TIME:
                self._set_second(unit, fields[0])
                return
            if unit.second_ns < 0:
                self.counts["messages_untimed"] += 1
                return
            if fields[0] >= SECOND_NS:
                raise InvalidOrder("a time offset below a second")
            if unit.lacks_time:
                self._infer_second(unit, fields[0])
            time_ns = unit.second_ns + fields[0]
            if time_ns < unit.last_ns:
                raise InvalidOrder(f"a time not before {unit.last_ns} ns, that of the unit's previous message")
            unit.last_ns = time_ns
            self._orders.stamp(time_ns)
            self._handlers[kind](unit, kind, *fields[1:])
        except InvalidOrder as error:
            got = payload[at : at + size].hex()
            raise self._error(offset + at, f"{error} (message {layout.name}), got {got}") from None

    @staticmethod
    def _set_second(unit: _Unit, second: int) -> None:
        if second >= 2 * DAY_S or second * SECOND_NS < unit.second_ns:
            raise InvalidOrder("seconds after midnight, not before those of the unit's previous Time message")
        unit.second_ns, unit.lacks_time = second * SECOND_NS, False

    def _infer_second(self, unit: _Unit, offset_ns: int) -> None:
        """The second for which a message is closest to the time of the other units, and not before the unit's previous message."""
        time_ns = unit.second_ns + offset_ns
        nearest = (self._orders.writer.last_time_ns - time_ns + SECOND_NS // 2) // SECOND_NS
        later = max(0, nearest, -((time_ns - unit.last_ns) // SECOND_NS))
        self.counts["seconds_inferred"] += later > 0
        unit.second_ns += later * SECOND_NS

    def _add(
        self, unit: _Unit, kind: int, order: int, side: bytes, shares: int, symbol: bytes, price: int, _: Any
    ) -> None:
        number = self._orders.add(order, side.decode("latin-1"), shares, _text(symbol), _units(kind, price))
        if number != OMITTED:
            unit.symbols.add(number)

    def _execute(self, _: _Unit, kind: int, order: int, shares: int, execution: int) -> None:
        if self._orders.knows(order):
            self._orders.writer.execute(order, shares)

    def _execute_at(self, _: _Unit, kind: int, order: int, shares: int, left: int, execution: int, price: int) -> None:
        if self._orders.knows(order):
            self._orders.execute_at(order, shares, price, left)

    def _reduce(self, _: _Unit, kind: int, order: int, shares: int) -> None:
        if self._orders.knows(order):
            self._orders.writer.reduce(order, shares)

    def _modify(self, _: _Unit, kind: int, order: int, shares: int, price: int, flags: int) -> None:
        if self._orders.knows(order):
            keeps = bool(flags & MAINTAIN_PRIORITY)
            self._orders.modify(order, shares, _units(kind, price), keeps_priority=keeps)

    def _delete(self, _: _Unit, kind: int, order: int) -> None:
        if self._orders.knows(order):
            self._orders.writer.delete(order)

    def _trade(self, _: _Unit, kind: int, order: int, side: bytes, shares: int, symbol: bytes, price: int, execution: int) -> None:  # fmt: skip
        self._orders.trade(side.decode("latin-1"), shares, _text(symbol), _units(kind, price))

    def _break_trade(self, *_: Any) -> None:
        self._orders.counts["broken_trades"] += 1

    def _set_status(self, _: _Unit, kind: int, symbol: bytes, status: bytes, reg_sho: bytes) -> None:
        self._orders.set_status(_text(symbol), status.decode("latin-1"))

    def _summarize_auction(self, *_: Any) -> None:
        self._orders.counts["auctions"] += 1

    def _clear(self, unit: _Unit, kind: int) -> None:
        for symbol in sorted(unit.symbols):
            self._orders.writer.clear(symbol)

    def _end(self, unit: _Unit, kind: int) -> None:
        unit.ended = True

    def _error(self, offset: int, expected: str) -> PitchError:
        return PitchError(f"{self._path}: byte {offset}: expected {expected}")


def _text(field: bytes) -> str:
    return field.decode("latin-1").rstrip(" ")


def _units(kind: int, price: int) -> int:
    """A price in ten-thousandths."""
    return price * SHORT_PRICE_UNITS if kind in SHORT_PRICES else price
