"""Records the commands of all participants from the journal of a running exchange; for operators, without effect on the market."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from serl.clients.drop_copy import DropCopy
from serl.clients.errors import ExchangeUnreachable, RequestRejected
from serl.clients.record_news import of_day
from serl.exchange.news import LIMIT, News
from serl.exchange.records import COMMAND, EVENT, Rows
from serl.exchange.request import Request, request_socket
from serl.exchange.wire import Kind
from serl.history.accounts import EXCHANGE, LIMITS, AccountsTape, effective_commands, put_exchange_first, to_time_of_day
from serl.history.day import DayWriter, Reference, SymbolReference
from serl.history.tape import HASH

POLL_S = 0.2
NO_PARTICIPANT = 1 << 16
"""Greater than every participant number; stands for the exchange itself as long as it has sent no command."""


class AccountsRecorder:
    """Copies the journal from its first command on; `finish` completes the file. Create it with `accounts_recorder`."""

    def __init__(self, endpoint: str, ask: Request, query: Request, writer: DayWriter, token: str) -> None:
        _, symbols, clock, limits = query(Kind.INFO)[5]
        self.endpoint = endpoint
        self.tape = AccountsTape()
        self.time_ns = 0
        self._first_ns = -1
        self._sequence = 0
        self._names: list[str] = []
        self._symbols = tuple(SymbolReference(name, tick, lot) for _, name, tick, lot in symbols)
        self._midnight_ns, self._limits = int(clock[3]), limits
        #: whether the exchange has news; earlier versions do not
        self.has_news = LIMIT in limits
        self._ask, self._query, self._token, self._writer = ask, query, token, writer
        self._news: list[News] = []
        self._last_news = 0
        self._drop_copy = DropCopy(ask, token)
        self._events = np.zeros(0, EVENT)

    def copy_batch(self) -> bool:
        """Writes the next batch of commands; False if there is none.

        Raises `ExchangeUnreachable`, and `RequestRejected` without an operator's token, if the journal begins on an earlier day, or if the exchange
        was restarted with another one.
        """
        copy = self._drop_copy
        data, names, copy.journal = self._ask(Kind.COMMAND_COPY, self._token, self._sequence, copy.journal)[5]
        commands = np.frombuffer(data, COMMAND).copy()
        if not len(commands):
            return False
        self._names = names.split("\n")
        if commands[0]["time_ns"] < self._midnight_ns:
            raise RequestRejected(
                "journal",
                "expected a journal of one day, got one that begins before the exchange's day; start the exchange with a new --journal folder",
            )
        last = int(commands[-1]["sequence"])
        events = self._events_of(last)
        self._sequence = last
        self._write(effective_commands(commands, events))
        events["time_ns"] -= self._midnight_ns
        self.tape.update(events)
        return True

    def copy_news(self) -> None:
        """Collects the news up to now. Raises `ExchangeUnreachable`."""
        names = [symbol.name for symbol in self._symbols]
        while items := self._query(Kind.NEWS, self._token, self._last_news)[5][1]:
            self._last_news = items[-1][0]
            self._news += of_day([News(*item) for item in items], self._midnight_ns, names)

    def _events_of(self, sequence: int) -> Rows:
        """The events of the commands up to number `sequence` that were not returned before."""
        parts = [self._events]
        for rows in self._drop_copy.batches():
            parts.append(rows)
            if rows[-1]["command_sequence"] > sequence:
                break
        events = np.concatenate(parts)
        caused = events["command_sequence"] <= sequence
        self._events = events[~caused]
        return events[caused]

    def _write(self, commands: Rows) -> None:
        if not len(commands):
            return
        rows = commands["sequence"] - 1
        to_time_of_day(commands, self._midnight_ns)
        put_exchange_first(commands, self._exchange_number())
        self._writer.write(commands, rows)
        self.time_ns = int(commands[-1]["time_ns"])
        if self._first_ns < 0:
            self._first_ns = int(commands[0]["time_ns"])

    def _exchange_number(self) -> int:
        """The participant number of the exchange itself, whose name begins with a zero byte; no participant's can."""
        return next((number for number, name in enumerate(self._names) if name.startswith("\0")), NO_PARTICIPANT)

    def run(
        self, stop: threading.Event, report: Callable[["AccountsRecorder"], None], seconds: float = float("inf")
    ) -> str:
        """Records until `stop` is set, the exchange stops or `seconds` have passed, calling `report` from time to time; returns why it ended.
        Raises RequestRejected as `copy_batch`, also if the exchange was restarted with another journal; everything before that is recorded."""
        deadline_s = time.monotonic() + seconds
        while True:
            stopping = stop.is_set() or time.monotonic() > deadline_s  # first, so that everything before is recorded
            try:
                while self.copy_batch():
                    report(self)
                if self.has_news:
                    self.copy_news()
            except ExchangeUnreachable:
                return "the exchange stopped"
            report(self)
            if stopping:
                return "stopped" if stop.is_set() else f"recorded {seconds:g} s"
            stop.wait(POLL_S)

    def finish(self) -> Reference:
        """Completes the day file."""
        midnight = datetime.fromtimestamp(self._midnight_ns // 1_000_000_000, UTC)
        participants = [name for name in self._names if name and not name.startswith("\0")]
        reference = Reference(
            symbols=self._symbols,
            date=midnight.date().isoformat() if self._midnight_ns else "",
            source="recorded",
            first_time_ns=max(0, self._first_ns),
            last_time_ns=self.time_ns,
            source_rows=self._sequence,
            parameters={
                "endpoint": self.endpoint,
                HASH: self.tape.hexdigest(),
                **{name: int(self._limits.get(name, 0)) for name in LIMITS},
            },
            participants=(EXCHANGE, *participants),
        )
        self._writer.finish(reference, self._news)
        return reference


@contextmanager
def accounts_recorder(
    endpoint: str, writer: DayWriter, token: str = "", curve: Path | None = None
) -> Iterator[AccountsRecorder]:
    """Opens an `AccountsRecorder`; `writer` is a day writer with accounts=True. Raises `ExchangeUnreachable`."""
    with request_socket(endpoint, "queries", curve, token) as query, request_socket(endpoint, "admin", curve) as ask:
        yield AccountsRecorder(endpoint, ask, query, writer, token)
