"""Records a running exchange to a day file from its anonymous feed: without a login, and without effect on the market or its clock."""

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from serl.clients.errors import ExchangeUnreachable, FeedGap, RequestRejected, UnknownSymbol, no_reply
from serl.clients.record_news import NewsRecording
from serl.clients.sockets import Sockets
from serl.exchange.news import FEED_KIND, LIMIT, TOPIC
from serl.exchange.records import EVENT, EventFlag, EventKind, Phase, Rows
from serl.exchange.wire import FeedKind, Kind
from serl.history import stream_book
from serl.history.day import DayWriter, Reference, SymbolReference
from serl.history.source import flush, make_room
from serl.history.stream_book import FIRST_NS, ROW, TIME_NS
from serl.history.tape import HASH, Tape, public_view, tape_actions, write_public_commands

SILENCE_S = 10.0
"""An exchange that sends no reply, or no time on its feed, for this long counts as unreachable."""
POLL_MS = 100
ONLY_CONTINUOUS = "the public feed does not suffice to reproduce an auction, so it records only continuous trading (`--accounts` records everything)"
MESSAGES_MAX = 10_000
"""Feed messages to process at a time."""


class Recorder:
    """Writes the current books and then everything that happens; `finish` completes the file."""

    def __init__(
        self, endpoint: str, writer: DayWriter, symbols: tuple[str, ...] = (), curve: Path | None = None,
        token: str = "",
    ) -> None:  # fmt: skip
        self.endpoint = endpoint
        #: whether the exchange has news; earlier versions do not
        self.has_news = False
        self.tape = Tape()
        self.time_ns = 0
        self.epoch = -1
        self.sequences: list[int] = []
        self._writer = writer
        self._sockets = Sockets(endpoint, curve, token)
        try:
            self._instruments = self._select(symbols)
            self._book = stream_book.empty_book(len(self._instruments))
            self._pending: list[Rows] = []
            self._feed_time_s = time.monotonic()
            self._complete_until = -1
            self._news = NewsRecording([symbol.name for _, symbol in self._instruments], self._midnight_ns, token)
            if self.has_news:
                self._news.receive_reply(self._ask(*self._news.query()))
            self._subscribe()
            self._write_books()
        except BaseException:
            self._sockets.close()
            raise

    def _ask(self, kind: Kind, *values: int | str) -> list[Any]:
        """Sends a query and returns its reply."""
        replies: list[list[Any]] = []
        deadline = time.monotonic() + SILENCE_S
        sent = False
        while not replies:
            sent = sent or self._sockets.request(
                lambda reply, _: replies.append(reply), kind, *values, timeout_s=SILENCE_S
            )
            self._sockets.wait(POLL_MS if sent else 1)
            self._sockets.process_replies()
            if time.monotonic() > deadline:
                raise no_reply(self.endpoint, SILENCE_S, with_keys=self._sockets.has_keys)
        if replies[0][0] == Kind.ERROR:
            raise RequestRejected(replies[0][1], replies[0][2])
        return replies[0]

    def _select(self, names: tuple[str, ...]) -> list[tuple[int, SymbolReference]]:
        """(the exchange's number, reference data) of each symbol to record."""
        _, symbols, clock, limits = self._ask(Kind.INFO)[5]
        self._midnight_ns, self.has_news = int(clock[3]), LIMIT in limits
        known = {name: (number, SymbolReference(name, tick, lot)) for number, name, tick, lot in symbols}
        missing = [name for name in names if name not in known]
        if missing:
            raise UnknownSymbol(f"expected symbols of {self.endpoint} ({', '.join(known)}), got {', '.join(missing)}")
        return [known[name] for name in dict.fromkeys(names or known)]

    def _subscribe(self) -> None:
        """Subscribes; returns once the feed has begun to arrive."""
        self._topics = {f"rows/{symbol.name}/".encode(): place for place, (_, symbol) in enumerate(self._instruments)}
        for topic in (*self._topics, TOPIC, b"time/"):
            self._sockets.subscribe(topic)
        early: list[tuple[bytes, list[Any]]] = []
        while not any(topic == b"time/" for topic, _ in early):
            if time.monotonic() - self._feed_time_s > SILENCE_S:
                raise ExchangeUnreachable(
                    f"nothing from the feed of {self.endpoint} for {SILENCE_S:g} s; check that no firewall blocks its port"
                )
            self._sockets.wait(POLL_MS)
            early += self._sockets.feed_messages(MESSAGES_MAX)
        self._early = early

    def _write_books(self) -> None:
        """Writes the current books: the first rows of the tape, all at one time."""
        snapshots, halted = [], []
        for number, _ in self._instruments:
            before, reply, after = (self._ask(kind, number) for kind in (Kind.STATUS, Kind.L3, Kind.STATUS))
            while before[5] != after[5]:
                before, reply, after = after, self._ask(Kind.L3, number), self._ask(Kind.STATUS, number)
            snapshots.append(reply)
            halted.append(after[5][0])
            if after[5][1] != Phase.CONTINUOUS:
                raise RequestRejected("phase", f"{ONLY_CONTINUOUS}; start during continuous trading")
        self.epoch = snapshots[0][2]
        self.sequences = [reply[3] for reply in snapshots]
        first_ns = min(reply[4] for reply in snapshots) - self._midnight_ns
        for place, (reply, is_halted) in enumerate(zip(snapshots, halted, strict=True)):
            rows = np.zeros(len(reply[5]), EVENT)
            for row, (number, side, price_ticks, lots) in zip(rows, reply[5], strict=True):
                row["order_number"], row["side"], row["price_ticks"], row["qty_lots"] = (
                    number,
                    side,
                    price_ticks,
                    lots,
                )
            rows["kind"], rows["flags"] = EventKind.ACCEPTED, EventFlag.RESTING
            if is_halted:
                rows = np.append(rows, np.zeros(1, EVENT))
                rows["kind"][-1] = EventKind.HALTED
            rows["symbol"], rows["time_ns"] = place, first_ns
            self._book.counter[ROW] = -1 - len(rows)
            self._write(rows)
        self._book.counter[ROW] = 0
        self.time_ns = first_ns
        for topic, message in self._early:
            self.process(topic, message)

    def process(self, topic: bytes, message: list[Any]) -> None:
        """Records a feed message. Raises `FeedGap` if messages before it are missing."""
        kind, epoch, previous, sequence, time_ns, data = message
        if self.epoch >= 0 and epoch != self.epoch:
            raise FeedGap(
                f"the exchange at {self.endpoint} was restarted (epoch {epoch} after {self.epoch}); the recording ends before the restart"
            )
        if kind == FeedKind.TIME:
            if sequence < self._complete_until:  # restarted without its journal: it numbers from 1, in the same epoch
                raise FeedGap(
                    f"the exchange at {self.endpoint} was restarted without its journal (event {sequence} after {self._complete_until}); the "
                    "recording ends before the restart"
                )
            self._feed_time_s = time.monotonic()
            self._complete_until = sequence
            self._write_complete()
            self.time_ns = max(self.time_ns, time_ns - self._midnight_ns)
            return
        if kind == FEED_KIND:
            self._news.receive(message)
            return
        place = self._topics[topic]
        if previous > self.sequences[place]:
            self._end_at(self.sequences[place])
            raise FeedGap(
                f"the feed has a gap (events {self.sequences[place]} to {previous}): this machine is too slow for it; the recording "
                "ends before the gap. Record fewer --symbols, or reduce the speed of the clock"
            )
        if sequence > self.sequences[place]:
            rows = np.frombuffer(data, EVENT).copy()
            rows = rows[rows["sequence"] > self.sequences[place]]
            phases = np.flatnonzero((rows["kind"] == EventKind.PHASED) & (rows["flags"] != Phase.CONTINUOUS))
            rows["symbol"] = place
            rows["time_ns"] -= self._midnight_ns
            self._pending.append(rows)
            self.sequences[place] = sequence
            if len(phases):
                self._end_at(int(rows["sequence"][phases[0]]) - 1)
                raise FeedGap(
                    f"{ONLY_CONTINUOUS}; the recording ends where {self._instruments[place][1].name} left continuous trading"
                )

    def _end_at(self, sequence: int) -> None:
        """Drops what came after an event: from there on, events of a symbol are missing."""
        self._pending = [rows[rows["sequence"] <= sequence] for rows in self._pending]

    def _write_complete(self) -> None:
        """Writes the rows up to the event to which every symbol is complete, in the order of events."""
        if not self._pending:
            return
        rows = np.concatenate(self._pending)
        rows = rows[np.argsort(rows["sequence"], kind="stable")]
        complete = rows["sequence"] <= self._complete_until
        self._pending = [rows[~complete]] if not complete.all() else []
        self._write(rows[complete])

    def _write(self, rows: Rows) -> None:
        self.tape.update(rows)
        rows = public_view(rows)
        action = tape_actions(rows)
        at = 0
        while (at := write_public_commands(self._book, rows, action, at)) < len(rows):
            self._book = make_room(self._book, self._writer)
        flush(self._book, self._writer)

    def run(self, stop: threading.Event, report: Callable[["Recorder"], None], seconds: float = float("inf")) -> str:
        """Records until `stop` is set, the exchange stops or `seconds` have passed, calling `report` from time to time; returns why it ended."""
        deadline_s = time.monotonic() + seconds
        while True:
            # checked first, so that everything received before it is recorded below
            stopping = stop.is_set() or time.monotonic() > deadline_s
            self._sockets.wait(0 if stopping else POLL_MS)
            for topic, message in self._sockets.feed_messages(MESSAGES_MAX):
                self.process(topic, message)
            if self.has_news:
                self._news.ask_for_missing(self._sockets)
            report(self)
            if stopping:
                return "stopped" if stop.is_set() else f"recorded {seconds:g} s"
            if time.monotonic() - self._feed_time_s > SILENCE_S:
                return f"the exchange stopped (silent for {SILENCE_S:g} s)"

    def finish(self) -> Reference:
        """Writes the remaining rows and completes the day file; no symbol has a gap."""
        self._complete_until = max((sequence for sequence in self.sequences), default=0)
        self._write_complete()
        counter = self._book.counter
        date = (
            datetime.fromtimestamp(self._midnight_ns // 1_000_000_000, UTC).date().isoformat()
            if self._midnight_ns
            else ""
        )
        reference = Reference(
            symbols=tuple(symbol for _, symbol in self._instruments),
            date=date,
            source="recorded",
            first_time_ns=int(counter[FIRST_NS]),
            last_time_ns=int(counter[TIME_NS]),
            source_rows=int(counter[ROW]),
            counts=dict(zip(stream_book.COUNT_NAMES, self._book.counts.tolist(), strict=True)),
            parameters={"endpoint": self.endpoint, HASH: self.tape.hexdigest()},
        )
        self._writer.finish(reference, self._news.messages)
        return reference

    def close(self) -> None:
        """Closes the sockets."""
        self._sockets.close()
