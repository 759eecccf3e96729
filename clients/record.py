"""Records a running exchange as a day file, from its anonymous feed: no login, no influence, no effect on a lockstep clock."""

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from serl.clients.dashboard.sockets import Sockets
from serl.clients.errors import ExchangeAway, FeedGap, Refused, UnknownSymbol
from serl.exchange.records import EVENT, EventFlag, EventKind, Phase, Rows
from serl.exchange.wire import Kind
from serl.history import named_book
from serl.history.day import DayWriter, Reference, SymbolReference
from serl.history.named_book import FIRST_NS, ROW, TIME_NS
from serl.history.source import flush, make_room
from serl.history.tape import HASH, Tape, actions, play_public, public

ROWS, TIME = 118, 117
ANSWER_S = 10.0
"""How long an exchange may take to answer, or its feed to say the time, before it counts as away."""
WAIT_MS = 100
PHASES = "the public feed alone does not make an auction again, so only continuous trading is recorded from it (`--accounts`: everything)"
MESSAGES_MAX = 10_000
"""Feed messages between two looks at everything else."""


class Recorder:
    """Subscribes, takes the books as they are, and writes what happens from then on; `finish` ends the file."""

    def __init__(
        self, endpoint: str, writer: DayWriter, symbols: tuple[str, ...] = (), curve: Path | None = None
    ) -> None:
        self.endpoint = endpoint
        self.tape = Tape()
        self.time_ns = 0
        self.epoch = -1
        self.sequences: list[int] = []
        self._writer = writer
        self._sockets = Sockets(endpoint, curve)
        try:
            self._instruments = self._choose(symbols)
            self._book = named_book.named_book(len(self._instruments))
            self._pending: list[Rows] = []
            self._told_s = time.monotonic()
            self._complete = -1
            self._subscribe()
            self._open()
        except BaseException:
            self._sockets.close()
            raise

    def _ask(self, kind: Kind, *values: int) -> list[Any]:
        """The reply to a query; ExchangeAway if there is none."""
        replies: list[list[Any]] = []
        deadline = time.monotonic() + ANSWER_S
        asked = False
        while not replies:
            asked = asked or self._sockets.ask(lambda reply, _: replies.append(reply), kind, *values)
            self._sockets.wait(WAIT_MS if asked else 1)
            self._sockets.take_replies()
            if time.monotonic() > deadline:
                raise ExchangeAway(
                    f"no answer from {self.endpoint} for {ANSWER_S:g} s; start an exchange with `serl exchange start`"
                )
        if replies[0][0] == Kind.ERROR:
            raise Refused(replies[0][1], replies[0][2])
        return replies[0]

    def _choose(self, wanted: tuple[str, ...]) -> list[tuple[int, SymbolReference]]:
        """(the exchange's number, reference data) of what is recorded."""
        _, symbols, clock, _ = self._ask(Kind.INFO)[5]
        self._midnight_ns = int(clock[3])
        known = {name: (number, SymbolReference(name, tick, lot)) for number, name, tick, lot in symbols}
        missing = [name for name in wanted if name not in known]
        if missing:
            raise UnknownSymbol(f"{', '.join(missing)} not traded at {self.endpoint}, which has {', '.join(known)}")
        return [known[name] for name in wanted or known]

    def _subscribe(self) -> None:
        """Returns when the feed is known to reach us."""
        self._topics = {f"rows/{symbol.name}/".encode(): place for place, (_, symbol) in enumerate(self._instruments)}
        for topic in (*self._topics, b"time/"):
            self._sockets.feed.subscribe(topic)
        early: list[tuple[bytes, list[Any]]] = []
        while not any(topic == b"time/" for topic, _ in early):
            if time.monotonic() - self._told_s > ANSWER_S:
                raise ExchangeAway(
                    f"no word from the feed of {self.endpoint} for {ANSWER_S:g} s; is a firewall between us and its port?"
                )
            self._sockets.wait(WAIT_MS)
            early += self._sockets.feed_messages(MESSAGES_MAX)
        self._early = early

    def _open(self) -> None:
        """The books as they are: the first rows of the tape, at one time."""
        snapshots, halted = [], []
        for number, _ in self._instruments:
            before, reply, after = (self._ask(kind, number) for kind in (Kind.STATUS, Kind.L3, Kind.STATUS))
            while before[5] != after[5]:
                before, reply, after = after, self._ask(Kind.L3, number), self._ask(Kind.STATUS, number)
            snapshots.append(reply)
            halted.append(after[5][0])
            if after[5][1] != Phase.CONTINUOUS:
                raise Refused("phase", f"{PHASES}; begin when trading is continuous")
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
            self._tell(rows)
        self._book.counter[ROW] = 0
        self.time_ns = first_ns
        for topic, message in self._early:
            self.take(topic, message)

    def take(self, topic: bytes, message: list[Any]) -> None:
        """Puts away a message of the feed; FeedGap if some before it are missing."""
        kind, epoch, previous, sequence, time_ns, data = message
        if self.epoch >= 0 and epoch != self.epoch:
            raise FeedGap(
                f"the exchange at {self.endpoint} was started anew (epoch {epoch} after {self.epoch}); the recording ends before that"
            )
        if kind == TIME:
            self._told_s = time.monotonic()
            self._complete = sequence
            self._write_complete()
            self.time_ns = max(self.time_ns, time_ns - self._midnight_ns)
            return
        place = self._topics[topic]
        if previous > self.sequences[place]:
            raise FeedGap(
                f"the feed has a gap (events {self.sequences[place]} to {previous}): this machine is too slow for the flow; the recording "
                "ends before it. Record fewer --symbols, or slow the clock down"
            )
        if sequence > self.sequences[place]:
            rows = np.frombuffer(data, EVENT).copy()
            rows = rows[rows["sequence"] > self.sequences[place]]
            phases = np.flatnonzero((rows["kind"] == EventKind.PHASED) & (rows["flags"] != Phase.CONTINUOUS))
            if len(phases):
                raise FeedGap(
                    f"{PHASES}; the recording ends where {self._instruments[place][1].name} left continuous trading"
                )
            rows["symbol"] = place
            rows["time_ns"] -= self._midnight_ns
            self._pending.append(rows)
            self.sequences[place] = sequence

    def _write_complete(self) -> None:
        """Tells what every symbol has told up to now, in the order of events."""
        if not self._pending:
            return
        rows = np.concatenate(self._pending)
        rows = rows[np.argsort(rows["sequence"], kind="stable")]
        complete = rows["sequence"] <= self._complete
        self._pending = [rows[~complete]] if not complete.all() else []
        self._tell(rows[complete])

    def _tell(self, rows: Rows) -> None:
        self.tape.update(rows)
        rows = public(rows)
        action = actions(rows)
        at = 0
        while (at := play_public(self._book, rows, action, at)) < len(rows):
            self._book = make_room(self._book, self._writer)
        flush(self._book, self._writer)

    def run(self, stop: threading.Event, tell: Callable[["Recorder"], None], seconds: float = float("inf")) -> str:
        """Records until `stop` is set, the exchange is gone or the time is over, calling `tell` now and then; why it ended."""
        until_s = time.monotonic() + seconds
        while True:
            stopping = (
                stop.is_set() or time.monotonic() > until_s
            )  # asked first: what has come until then is taken below
            self._sockets.wait(0 if stopping else WAIT_MS)
            for topic, message in self._sockets.feed_messages(MESSAGES_MAX):
                self.take(topic, message)
            tell(self)
            if stopping:
                return "stopped" if stop.is_set() else f"{seconds:g} s are over"
            if time.monotonic() - self._told_s > ANSWER_S:
                return f"the exchange is gone (nothing for {ANSWER_S:g} s)"

    def finish(self) -> Reference:
        """Ends the day file with everything that has come; each symbol's part is without a gap."""
        self._complete = max((sequence for sequence in self.sequences), default=0)
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
            counts=dict(zip(named_book.COUNT_NAMES, self._book.counts.tolist(), strict=True)),
            parameters={"endpoint": self.endpoint, HASH: self.tape.hexdigest()},
        )
        self._writer.finish(reference)
        return reference

    def close(self) -> None:
        """Lets the sockets go."""
        self._sockets.close()
