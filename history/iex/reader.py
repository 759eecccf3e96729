"""Reads one symbol of a day of IEX DEEP: the price levels and trades that IEX publishes as captured packets. docs/history.md has the rules."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from serl.exchange.records import CASH_MAX
from serl.history.day import Reference, SymbolReference
from serl.history.decompress import read_blocks
from serl.history.errors import IexError
from serl.history.iex import packets
from serl.history.iex.packets import (
    BUY_LEVEL,
    COUNTER_NAMES,
    MESSAGE,
    MESSAGE_BYTES,
    MESSAGES,
    OPERATIONAL,
    PCAP,
    PCAPNG,
    STATUS,
    TRADE,
    new_scan,
    scan_pcap,
    scan_pcapng,
)  # fmt: skip
from serl.history.level_book import TRADE_COUNTS, Level, LevelWriter
from serl.history.source import DEFAULTS, Options, Sink, source_file, units_of
from serl.history.stream_book import BUY, SELL

PRICE_UNIT = Decimal("0.0001")
TICK, LOT = "0.01", "1"
DAY_NS = 86_400 * 1_000_000_000
PCAP_HEADER_BYTES = 24
LINK_AT = 20
EVENT_COMPLETE = 1
TRADING, OPERATIONALLY_HALTED = ord("T"), ord("O")
EXPECTED = {
    packets.NO_BLOCK: "a packet after its length",
    packets.NO_ETHERNET: "packets of Ethernet",
    packets.NO_DEEP: "messages of DEEP 1.0 (a file of TOPS shows no depth)",
    packets.SHORT_MESSAGE: "whole messages",
}


def is_iex(head: bytes) -> bool:
    """Whether a (decompressed) file begins like a capture."""
    return head[:4] in PCAP or head[:4] == PCAPNG


def read_iex(path: Path, sink: Sink, options: Options = DEFAULTS) -> Reference:
    """Writes the commands of one symbol to the sink. Raises `IexError`."""
    options.allow_only(path, "IEX DEEP", "symbols", "tick_size")
    name = options.single_symbol(path)
    if not 1 <= len(name) <= 8 or not name.isascii():
        raise IexError(f"{path}: expected `--symbols NAME`, one of the many in the file, got {name!r}; give e.g. SPY")
    tick_size = options.tick_size or TICK
    reader = _Reader(path, sink, units_of("tick-size", tick_size, PRICE_UNIT))
    scan = new_scan()
    for rows in _messages(path, name, scan):
        for row in rows.tolist():
            reader.read(*row)
    reader.finish(name, int(scan.counters[MESSAGES]))
    found = dict(zip(COUNTER_NAMES, scan.counters[MESSAGES:].tolist(), strict=True))
    return Reference(
        symbols=(SymbolReference(name, tick_size, LOT),),
        date=datetime.fromtimestamp(reader.midnight_ns // 1_000_000_000, UTC).date().isoformat(),
        source="iex",
        files=(source_file(path),),
        first_time_ns=reader.writer.first_time_ns,
        last_time_ns=reader.last_ns - reader.midnight_ns,
        source_rows=reader.row,
        counts=reader.counts | found,
    )


def _messages(path: Path, name: str, scan: packets.Scan) -> Iterator[Any]:
    """MESSAGE rows of a symbol, block by block."""
    symbol = int.from_bytes(name.ljust(8).encode(), "little")
    advance: Callable[..., tuple[int, int]] | None = None
    rest, offset = b"", 0
    for block in read_blocks(path):
        data, at = rest + block, 0
        if advance is None:
            if len(data) < PCAP_HEADER_BYTES:
                rest = data
                continue
            advance, at = (scan_pcapng, 0) if data[:4] == PCAPNG else (scan_pcap, PCAP_HEADER_BYTES)
            if at and int.from_bytes(data[LINK_AT : LINK_AT + 4], "little") & 0xFFFF != packets.ETHERNET:
                raise IexError(f"{path}: byte {LINK_AT}: expected {EXPECTED[packets.NO_ETHERNET]}, got others")
        array = np.frombuffer(data + bytes(MESSAGE_BYTES), np.uint8)  # a status is shorter than other messages
        why = packets.FULL
        while why == packets.FULL:
            at, why = advance(array[: len(data)], at, symbol, scan)
            if scan.found_count[0]:
                places = scan.found[: scan.found_count[0], np.newaxis] + np.arange(MESSAGE_BYTES)
                yield np.ascontiguousarray(array[places]).view(MESSAGE)[:, 0]
                scan.found_count[0] = 0
        if why != packets.MORE_DATA:
            got = data[at : at + 16].hex()
            raise IexError(f"{path}: byte {offset + at}: expected {EXPECTED[why]}, got {got}; download the file again")
        rest = data[at:]
        offset += at
    if rest:
        raise IexError(f"{path}: byte {offset}: expected a whole packet, got the end of the file; download it again")


class _Reader:
    """Converts messages to commands: the levels of an event together, trades immediately."""

    def __init__(self, path: Path, sink: Sink, tick_units: int) -> None:
        self.path, self._units = path, tick_units
        self.writer = LevelWriter(sink)
        self.midnight_ns = self.last_ns = self.row = 0
        self.counts = dict.fromkeys(("levels", "levels_crossed", *TRADE_COUNTS, "prints", "prints_rounded", "halts"), 0)
        self._pending: list[Level] = []
        self._halted = False
        self._halts: set[int] = set()
        """Kinds of messages that report a halt."""

    def read(self, kind: int, flag: int, time_ns: int, symbol: bytes, shares: int, price_units: int) -> None:
        """Converts a message. Raises `IexError`."""
        self.midnight_ns = self.midnight_ns or time_ns // DAY_NS * DAY_NS
        if time_ns < self.last_ns or time_ns - self.midnight_ns > 2 * DAY_NS:
            raise self._error(time_ns, f"a time not before {self.last_ns} ns and of the same day", time_ns)
        self.last_ns = time_ns
        self.writer.stamp(self.row, time_ns - self.midnight_ns)
        self.row += 1
        if kind in (STATUS, OPERATIONAL):
            self._set_status(kind, flag == OPERATIONALLY_HALTED if kind == OPERATIONAL else flag != TRADING)
            return
        if price_units <= 0 or price_units // self._units * shares > CASH_MAX:
            raise self._error(time_ns, "a price above 0 and at most 2^53 ticks x shares", f"{price_units}, {shares}")
        if kind == TRADE:
            self._trade(price_units, shares)
        else:
            self._set_level(BUY if kind == BUY_LEVEL else SELL, time_ns, price_units, shares, flag)

    def _set_level(self, side: int, time_ns: int, price_units: int, shares: int, flag: int) -> None:
        price_ticks, between = divmod(price_units, self._units)
        if between:
            raise self._error(
                time_ns, "a level at a multiple of the tick", f"{price_units * PRICE_UNIT}; give --tick-size"
            )
        self.writer.source.change(side, price_ticks, shares)
        self._pending.append((side, price_ticks, shares))
        self.counts["levels"] += 1
        if flag & EVENT_COMPLETE and not self._halted:
            self._apply_levels(side)

    def _apply_levels(self, newer: int) -> None:
        stale = self.writer.source.uncross(newer)
        self.counts["levels_crossed"] += len(stale)
        self.writer.set_levels(self._pending + stale)
        self._pending = []

    def _trade(self, price_units: int, shares: int) -> None:
        """Converts a trade. At the best displayed price or beyond, an order took displayed lots; between the best prices, the resting order was
        hidden."""
        price_ticks, between = divmod(price_units, self._units)
        bids, asks = self.writer.source.prices
        if bids and price_units <= bids[-1] * self._units:
            resting = BUY
        elif asks and price_units >= asks[0] * self._units:
            resting = SELL
        else:
            resting = -1
        if resting < 0 or between or self._halted:
            self._print(price_units, shares)
            return
        self.writer.trade(self.counts, resting, price_ticks, shares)

    def _print(self, price_units: int, shares: int) -> None:
        ticks = round(Decimal(price_units) / self._units)  # half to even, as for LOBSTER
        self.counts["prints"] += 1
        self.counts["prints_rounded"] += ticks * self._units != price_units
        self.writer.print(BUY, max(1, ticks), shares)

    def _set_status(self, kind: int, is_halt: bool) -> None:
        """Sets the halt state: the symbol is halted while either kind of message reports a halt."""
        self._halts = self._halts | {kind} if is_halt else self._halts - {kind}
        halted = bool(self._halts)
        if halted == self._halted:
            return
        self._halted = halted
        if halted:
            self.counts["halts"] += 1
            self.writer.halt()
            return
        self.writer.resume()
        if self._pending:  # what changed during the halt
            self._apply_levels(self._pending[-1][0])

    def finish(self, name: str, messages: int) -> None:
        """Writes the last block. Raises `IexError` if there was no message of the symbol."""
        if not self.row:
            raise IexError(
                f"{self.path}: expected a symbol of this file, got {name!r}, which none of its {messages:,} messages has; check `--symbols`"
            )
        self.writer.finish()

    def _error(self, time_ns: int, expected: str, got: object) -> IexError:
        return IexError(f"{self.path}: message {self.row} of the symbol, {time_ns} ns: expected {expected}, got {got}")
