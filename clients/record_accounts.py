"""Records a running exchange as the commands of everybody, from its journal: for operators, without effect on the market."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from serl.clients.drop_copy import DropCopy
from serl.clients.errors import ExchangeAway, Refused
from serl.exchange.records import COMMAND, EVENT, Rows
from serl.exchange.request import Request, request_socket
from serl.exchange.wire import Kind
from serl.history.accounts import EXCHANGE, LIMITS, AccountsTape, from_midnight, kept, renumbered
from serl.history.day import DayWriter, Reference, SymbolReference
from serl.history.tape import HASH

EVERY_S = 0.2
"""Between two looks at the journal."""
UNKNOWN = 1 << 16
"""Above every participant: the exchange has not given a command itself yet."""


class AccountsRecorder:
    """Copies the journal from its first command on; `finish` ends the file. `accounts_recorder` makes it."""

    def __init__(self, endpoint: str, ask: Request, info: list[Any], writer: DayWriter, token: str) -> None:
        _, symbols, clock, limits = info
        self.endpoint = endpoint
        self.tape = AccountsTape()
        self.time_ns = 0
        self._first_ns = -1
        self._sequence = 0
        self._names: list[str] = []
        self._symbols = tuple(SymbolReference(name, tick, lot) for _, name, tick, lot in symbols)
        self._midnight_ns, self._limits = int(clock[3]), limits
        self._ask, self._token, self._writer = ask, token, writer
        self._copy = DropCopy(ask, token)
        self._events = np.zeros(0, EVENT)

    def take(self) -> bool:
        """Writes the next piece of the journal; False if there is none. Refused without an operator's token, or where the journal
        cannot be a day; ExchangeAway if nobody answers."""
        data, names = self._ask(Kind.COMMAND_COPY, self._token, self._sequence)[5]
        commands = np.frombuffer(data, COMMAND).copy()
        if not len(commands):
            return False
        self._names, self._sequence = names.split("\n"), int(commands[-1]["sequence"])
        if commands[0]["time_ns"] < self._midnight_ns:
            raise Refused(
                "journal",
                "it begins before the exchange's day; record an exchange that was started with a new --journal folder",
            )
        events = self._events_of(self._sequence)
        self._tell(kept(commands, events))
        events["time_ns"] -= self._midnight_ns
        self.tape.update(events)
        return True

    def _events_of(self, sequence: int) -> Rows:
        """The events of the commands up to this one, behind those that were taken before."""
        parts = [self._events]
        for rows in self._copy.pieces():
            parts.append(rows)
            if rows[-1]["command_sequence"] > sequence:
                break
        events = np.concatenate(parts)
        ours = events["command_sequence"] <= sequence
        self._events = events[~ours]
        return events[ours]

    def _tell(self, commands: Rows) -> None:
        if not len(commands):
            return
        rows = commands["sequence"] - 1
        from_midnight(commands, self._midnight_ns)
        renumbered(commands, self._own())
        self._writer.write(commands, rows)
        self.time_ns = int(commands[-1]["time_ns"])
        if self._first_ns < 0:
            self._first_ns = int(commands[0]["time_ns"])

    def _own(self) -> int:
        """The number of the exchange itself, whose name nobody else can have."""
        return next((number for number, name in enumerate(self._names) if name.startswith("\0")), UNKNOWN)

    def run(
        self, stop: threading.Event, tell: Callable[["AccountsRecorder"], None], seconds: float = float("inf")
    ) -> str:
        """Records until `stop` is set, the exchange is gone or the time is over, calling `tell` now and then; why it ended."""
        until_s = time.monotonic() + seconds
        while True:
            stopping = stop.is_set() or time.monotonic() > until_s  # asked first: what came until then is taken
            try:
                while self.take():
                    tell(self)
            except ExchangeAway:
                return "the exchange is gone"
            tell(self)
            if stopping:
                return "stopped" if stop.is_set() else f"{seconds:g} s are over"
            stop.wait(EVERY_S)

    def finish(self) -> Reference:
        """Ends the day file with everything that has come."""
        midnight = datetime.fromtimestamp(self._midnight_ns // 1_000_000_000, UTC)
        others = [name for name in self._names if name and not name.startswith("\0")]
        reference = Reference(
            symbols=self._symbols,
            date=midnight.date().isoformat() if self._midnight_ns else "",
            source="recorded",
            first_time_ns=max(0, self._first_ns),
            last_time_ns=self.time_ns,
            source_rows=self._sequence,
            parameters={"endpoint": self.endpoint, HASH: self.tape.hexdigest()}
            | {name: int(self._limits[name]) for name in LIMITS},
            participants=(EXCHANGE, *others),
        )
        self._writer.finish(reference)
        return reference


@contextmanager
def accounts_recorder(
    endpoint: str, writer: DayWriter, token: str = "", curve: Path | None = None
) -> Iterator[AccountsRecorder]:
    """An `AccountsRecorder` for the time of a `with`; `writer` is one for accounts. ExchangeAway if nobody answers."""
    with request_socket(endpoint, "queries", curve) as query:
        info = query(Kind.INFO)[5]
    with request_socket(endpoint, "admin", curve) as ask:
        yield AccountsRecorder(endpoint, ask, info, writer, token)
