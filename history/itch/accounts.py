"""Exports a day with auctions as an ITCH 5.0 file: like `writer`, plus the trading states, executions and crosses of the auctions."""

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from serl.exchange.atomic_file import atomic_file
from serl.exchange.records import EventFlag, EventKind, HaltReason, Phase, Rows
from serl.history.accounts import public_events, single_symbol_reference
from serl.history.day import Day, Reference
from serl.history.errors import ExportError
from serl.history.itch.messages import encode, session_start
from serl.history.itch.writer import FIELD_MAX, MESSAGE_BYTES_MAX, encode_events, price_units, require_times

HALTED, QUOTING, TRADING = "H", "Q", "T"
CROSSES = {
    Phase.PRE_OPEN: "O", Phase.OPENING: "O", Phase.INTRADAY: "I", Phase.VOLATILITY: "H", Phase.CLOSING: "C",
}  # fmt: skip
"""Cross type by the phase that the auction ends."""
REASONS = {HaltReason.NEWS: "T1", HaltReason.VOLATILITY: "LUDP"}
"""Reason codes of trading actions; other reasons have none."""


class AuctionEncoder:
    """Encodes the events that only a market with auctions has; keeps each symbol's phase.

    names: of the symbols, by number. units: [symbol] price units of a tick.
    """

    def __init__(self, names: list[str], units: Any) -> None:
        self._names = names
        self._units = units.tolist()
        self._phase = dict.fromkeys(range(len(self._names)), Phase.CONTINUOUS)
        self._reason: dict[int, str] = {}  # by halted symbol
        self._traded: dict[int, dict[int, tuple[int, int]]] = {}  # symbol -> price -> (lots, last match)

    def encode(self, event: Any) -> bytes:
        """The messages of one EVENT row."""
        symbol, kind = int(event["symbol"]), event["kind"]
        if kind == EventKind.PHASED:
            return self._phased(event, symbol)
        if kind == EventKind.HALTED:
            self._reason[symbol] = REASONS.get(HaltReason(int(event["flags"])), "")
            return self._state(event, symbol)
        if kind == EventKind.RESUMED:
            self._reason.pop(symbol, None)
            return self._state(event, symbol)
        return self._auction_fill(event, symbol)

    def _message(self, event: Any, symbol: int, kind: str, **values: Any) -> bytes:
        head = {"type": kind, "locate": symbol + 1, "time_ns": int(event["time_ns"])}
        return encode(head | {"stock": self._names[symbol]} | values)

    def _auction_fill(self, event: Any, symbol: int) -> bytes:
        """C, not printable, for a displayed order; the cross reports the trade."""
        lots, price, match = (int(event[name]) for name in ("qty_lots", "price_ticks", "match_id"))
        if event["flags"] & EventFlag.MAKER:
            traded = self._traded.setdefault(symbol, {})
            traded[price] = (traded.get(price, (0, 0))[0] + lots, match)
        if event["kind"] == EventKind.PRINT:
            return b""
        return self._message(
            event, symbol, "C", order=int(event["order_number"]), shares=lots, match=match, printable="N",
            price=price * self._units[symbol],
        )  # fmt: skip

    def _phased(self, event: Any, symbol: int) -> bytes:
        """Q for each price of an auction (several if orders were cancelled during it), then H for the phase."""
        before, self._phase[symbol] = self._phase[symbol], Phase(int(event["flags"]))
        messages = [
            self._message(
                event, symbol, "Q", shares=lots, price=price * self._units[symbol], match=match, cross=CROSSES[before]
            )
            for price, (lots, match) in self._traded.pop(symbol, {}).items()
        ]
        if self._phase[symbol] != before:
            messages.append(self._state(event, symbol))
        return b"".join(messages)

    def _state(self, event: Any, symbol: int) -> bytes:
        state, reason = self.trading_state(symbol)
        return self._message(event, symbol, "H", state=state, reason=reason)

    def trading_state(self, symbol: int) -> tuple[str, str]:
        """(trading state, reason) of a symbol, as H gives them."""
        phase = self._phase[symbol]
        if symbol in self._reason or phase == Phase.CLOSED:
            return HALTED, self._reason.get(symbol, "")
        if phase == Phase.CONTINUOUS:
            return TRADING, ""
        return QUOTING, REASONS[HaltReason.VOLATILITY] if phase == Phase.VOLATILITY else ""

    def set_status(self, symbol: int, halted: bool, phase: int, reason: int) -> None:
        """Sets the state of a symbol whose events were not all encoded."""
        self._phase[symbol] = Phase(phase)
        self._traded.pop(symbol, None)
        self._reason.pop(symbol, None)
        if halted:
            self._reason[symbol] = REASONS.get(HaltReason(reason), "")


def _is_auction_event(events: Rows) -> Any:
    """[event] whether `AuctionEncoder` encodes it."""
    kind = events["kind"]
    traded = np.isin(kind, (EventKind.FILL, EventKind.PRINT)) & ((events["flags"] & EventFlag.AUCTION) > 0)
    return traded | np.isin(kind, (EventKind.PHASED, EventKind.HALTED, EventKind.RESUMED))


def stocks_of(names: list[str]) -> Any:
    """[symbol, 8] names in ASCII, padded."""
    return np.array([list(name.ljust(8).encode()) for name in names], np.uint8).reshape(-1, 8)


def encode_messages(events: Rows, auctions: AuctionEncoder, units: Any, stocks: Any) -> Iterator[bytes]:
    """The messages of EVENT rows of `public_view`, each after its length."""
    start = 0
    for stop in [*np.flatnonzero(_is_auction_event(events)).tolist(), len(events)]:
        out = np.empty((stop - start) * MESSAGE_BYTES_MAX, np.uint8)
        yield out[: encode_events(events[start:stop], units, stocks, out)].tobytes()
        if stop < len(events):
            yield auctions.encode(events[stop])
        start = stop + 1


def write_itch_of_accounts(day: Day, path: Path, symbol: str | None = None) -> int:
    """Writes the file (compressed if its name ends in .gz), complete or not at all; returns the number of uncompressed bytes.
    symbol: exports this symbol only. Raises `ExportError`."""
    require_times(day, path)
    reference, number = single_symbol_reference(day, symbol) if symbol else (day.reference, None)
    units = np.array(price_units(reference), np.int64)
    with atomic_file(path) as raw:
        if path.suffix == ".gz":
            with gzip.GzipFile(fileobj=raw, mode="wb", mtime=0) as compressed:
                return _write(day, number, reference, units, path, cast("IO[bytes]", compressed))
        return _write(day, number, reference, units, path, raw)


def _write(day: Day, number: int | None, reference: Reference, units: Any, path: Path, file: IO[bytes]) -> int:
    names = [symbol.name for symbol in reference.symbols]
    stocks = stocks_of(names)
    size = file.write(session_start(names, reference.first_time_ns))
    auctions = AuctionEncoder(names, units)
    for events in public_events(day, number):
        highest = events["price_ticks"] * units[events["symbol"]]
        if len(events) and max(int(events["qty_lots"].max()), int(highest.max())) > FIELD_MAX:
            raise ExportError(f"{path}: expected sizes and prices of up to 32 bits, as ITCH has, got larger ones")
        for message in encode_messages(events, auctions, units, stocks):
            size += file.write(message)
    return size + file.write(encode({"type": "S", "time_ns": reference.last_time_ns, "event": "C"}))
