"""What the clients sent and received, and what the exchange executed: the history that `check` judges."""

from collections import defaultdict
from typing import Any

import numpy as np

from serl.exchange.core import Core
from serl.exchange.gateway.state import EXECUTED
from serl.exchange.journal.checks import map_commands
from serl.exchange.journal.segment import first_sequence
from serl.exchange.limits import MarketLimits
from serl.exchange.market import Market
from serl.exchange.records import COMMAND, EVENT, CommandKind, Rows
from serl.exchange.wire import EVENT_FIELDS

FIELDS = {
    CommandKind.NEW: ("symbol", "side", "qty_lots", "price_ticks", "time_in_force", "flags"),
    CommandKind.CANCEL: ("order_id",),
    CommandKind.REDUCE: ("order_id", "qty_lots"),
    CommandKind.REPLACE: ("order_id", "qty_lots", "price_ticks"),
    CommandKind.MASS_CANCEL: ("symbol",),
}
"""Fields of a command's message, in their order (docs/protocol.md)."""
SENT_FIELDS = ("kind", "symbol", "side", "qty_lots", "price_ticks", "time_in_force", "flags", "order_id")


class Violation(AssertionError):
    """A promise that was not kept."""


def require(holds: Any, text: str) -> None:
    """Raises Violation unless it holds."""
    if not holds:
        raise Violation(text)


class History:
    """Sent commands, received reports, executed commands and the events that follow from them."""

    def __init__(self, symbols: list[str], limits: MarketLimits) -> None:
        self._symbols, self._limits = symbols, limits
        #: (name, command id) -> what was sent under it; a client that was killed may use an id again
        self.sent: dict[tuple[str, int], list[tuple[int, ...]]] = defaultdict(list)
        #: (name, report number or 0, report as sent) that no check has seen yet, and all of them by event sequence
        self.unchecked: list[tuple[str, int, tuple[int, ...]]] = []
        self.received: dict[int, set[str]] = defaultdict(set)
        self.names: list[str] = []
        self.rows: Rows = np.zeros(0, COMMAND)
        self.events: Rows = np.zeros(0, EVENT)
        self.operators: set[int] = set()
        self._new_market()

    def _new_market(self) -> None:
        self.market = Market(self._symbols, limits=self._limits)
        for participant in self.operators:
            self.market.grant_operator(participant)
        self._replayed = 0
        self._events: list[Rows] = []

    # -- clients --------------------------------------------------------------------------------------------------------

    def send(self, name: str, command_id: int, kind: int, values: tuple[int, ...]) -> None:
        """A client sends a command."""
        fields = dict.fromkeys(SENT_FIELDS, 0) | {"kind": int(kind)}
        fields |= dict(zip(FIELDS[CommandKind(kind)], map(int, values), strict=True))
        self.sent[name, command_id].append(tuple(fields.values()))

    def send_rows(self, name: str, rows: Rows) -> None:
        """A client sends COMMAND rows."""
        for row in rows:
            self.sent[name, int(row["command_id"])].append(tuple(int(row[field]) for field in SENT_FIELDS))

    def receive(self, name: str, number: int, report: tuple[int, ...]) -> None:
        """A client receives a report; number 0: repeated as the answer to a repeated command."""
        self.unchecked.append((name, number, report))

    # -- exchange -------------------------------------------------------------------------------------------------------

    def collect(self, core: Core) -> None:
        """Notes what the exchange has executed since the last call."""
        self._note_participants(core)
        known, last = len(self.rows), core.journal.commands
        stop = last.first_sequence + int(core.gateway.counter[EXECUTED]) - 1
        if stop <= known:
            return
        if last.first_sequence <= known + 1:
            self._append(last.rows[known + 1 - last.first_sequence : stop + 1 - last.first_sequence])
            return
        for path in core.journal.segments("commands"):
            first = first_sequence(path)
            if first < last.first_sequence:
                self._append(map_commands(path), upto=last.first_sequence - 1)
        self.collect(core)

    def _append(self, rows: Rows, upto: int = 1 << 62) -> None:
        known = len(self.rows)
        new = rows[(rows["sequence"] > known) & (rows["sequence"] <= upto)]
        if len(new):
            require(
                np.array_equal(new["sequence"], known + 1 + np.arange(len(new))),
                f"the journal has a gap after command {known}",
            )
            self.rows = np.concatenate((self.rows, new))

    def _note_participants(self, core: Core) -> None:
        participants = core.journal.participants
        self.names = [entry["name"] for entry in participants]
        for number, entry in enumerate(participants):
            if entry["operator"] and number not in self.operators:
                self.operators.add(number)
                self.market.grant_operator(number)

    def replay(self) -> None:
        """Executes the commands that are new in a market of its own, which gives the events that must have happened."""
        if self._replayed > len(self.rows):
            self._new_market()
        if self._replayed < len(self.rows):
            self._events.append(self.market.submit(self.rows[self._replayed :].copy()))
            self._replayed = len(self.rows)
            self.events = np.concatenate(self._events)
        elif not self._events:
            self.events = np.zeros(0, EVENT)

    def truncate(self, count: int) -> None:
        """After a power cut that may lose them: forgets the commands after the first `count`, and the reports of them."""
        self.rows = self.rows[:count]
        self.replay()
        last = len(self.events)
        self.unchecked = [each for each in self.unchecked if each[2][-1] <= last]
        self.received = defaultdict(set, {key: names for key, names in self.received.items() if key <= last})

    def check_reports(self) -> None:
        """Every received report is an event of the commands that the exchange has, to the last field."""
        columns = [self.events[field].tolist() for field in EVENT_FIELDS]
        participants, numbers = self.events["participant"].tolist(), self.events["report"].tolist()
        for name, number, report in self.unchecked:
            at = report[-1] - 1
            require(
                at < len(self.events), f"lost: {name} has report {report} of an event that the exchange no longer has"
            )
            expected = tuple(column[at] for column in columns)
            require(report == expected, f"{name} received report {report}, the journal gives {expected}")
            require(self.names[participants[at]] == name, f"{name} received the report {report} of {participants[at]}")
            require(number in (0, numbers[at]), f"{name} received report {numbers[at]} under the number {number}")
            self.received[report[-1]].add(name)
        self.unchecked.clear()
