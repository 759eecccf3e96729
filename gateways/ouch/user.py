"""One user of the gateway: its orders, its stream and its session on the exchange."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from serl.clients.errors import SessionEnded
from serl.exchange.log import without_repeats
from serl.exchange.records import Rows
from serl.gateways.accounts import GatewayAccount
from serl.gateways.ouch.changes import REPLACE, Change, Changes
from serl.gateways.ouch.inbound import Symbols, split
from serl.gateways.ouch.link import GONE, RETRY_S, UNANSWERED_ROWS_MAX, Link, OtherJournal
from serl.gateways.ouch.messages import outbound
from serl.gateways.ouch.order_entry import OrderEntry
from serl.gateways.ouch.orders import MASS_CANCEL, NO_ENTRY, REPLACEMENT, OrderTable
from serl.gateways.ouch.outbound import ReportEncoder
from serl.gateways.ouch.reasons import Reject
from serl.gateways.ouch.restore import restore
from serl.gateways.soup.server import Connection
from serl.gateways.soup.stream import Mark, StreamLog

ALONE = np.zeros(256, bool)
ALONE[[ord("C"), ord("Q")]] = True
"""Whether a message type, by its code, refers to all orders before it."""
TURN_S = 0.005
"""The time for one user's messages before others have their turn: a read may have tens of thousands that are processed one by one."""


class User:
    """See the module. `open` before anything else; `run` keeps it on the exchange.

    Attributes:
        failure: a future that gets the error of a disk that can store nothing more.
    """

    exclusive = True

    def __init__(
        self, folder: Path, account: GatewayAccount, endpoint: str, curve: Path | None, report: Callable[[str], None]
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.account = account
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.readers: set[Connection] = set()
        self._report = report
        self._paused: set[Connection] = set()
        #: messages that wait for their turn, as [start:end] of a read
        self._backlog: deque[tuple[Connection, bytes, NDArray[np.int64], NDArray[np.int64]]] = deque()
        self._turn: asyncio.Handle | None = None
        self.log = StreamLog(folder / "stream")
        self._table = OrderTable(folder / "orders")
        answered_id = restore(self._table, self.log)
        self.link = Link(endpoint, curve, account, report)
        self.link.session.answered_id = answered_id
        self._symbols: Symbols
        self._changes: Changes
        self._encoder: ReportEncoder
        self._entry: OrderEntry

    async def open(self) -> None:
        """Logs in to the exchange. Raises its refusal, OtherJournal, and ConfigError for symbols that OUCH cannot represent."""
        await self.link.connect(self.log.mark)
        session = self.link.session
        stored = self._table.entries["command_id"][: self._table.count]
        session.next_command_id = max(session.next_command_id, int(stored.max(initial=0)) + 1)
        self._symbols = Symbols(list(session.instruments.values()))
        self._changes = Changes(self._table, self._symbols)
        self._encoder = ReportEncoder(self._table, self._changes, self._symbols, int(session.clock[3]))
        self._entry = OrderEntry(self._table, self._changes, self._symbols, self._encoder, self.link, self._tell)
        self._restore_in_flight()
        if not self.log.count:
            start = outbound("S", 1, self._encoder.time_ns(self.link.session.now_ns()))
            start["event"] = ord("S")
            self._tell(start.tobytes(), 1, Mark(session.last_report))
        self.link.settle(self._logged_in)

    def _restore_in_flight(self) -> None:
        """Restores replacements and mass cancels whose answers may still come from the exchange."""
        table = self._table
        for place in np.flatnonzero(~table.answered[: table.count]).tolist():
            entry = table.entries[place]
            command_id, base = int(entry["command_id"]), int(table.base[place])
            if entry["kind"] == MASS_CANCEL:
                self._encoder.mass_cancels[command_id] = place
            elif entry["kind"] == REPLACEMENT and command_id and base != NO_ENTRY:
                self._changes.sent(Change(REPLACE, place, base, int(entry["quantity"])), command_id)

    async def run(self) -> None:
        """Keeps the user on the exchange. Raises OtherJournal, and SessionEnded if another client took the participant's session."""
        while True:
            try:
                await self.link.serve(self._receive_reports, self._logged_in)
            except SessionEnded as end:
                if end.code == "replaced":
                    raise
                self._report(f"{self.account.participant}: the exchange ended the session: {end}")
            except GONE as error:
                self._report(f"{self.account.participant}: {error}")
            await self._reconnect()

    async def _reconnect(self) -> None:
        report = without_repeats(self._report)
        while True:
            await self.link.close()
            await asyncio.sleep(RETRY_S)
            try:
                await self.link.connect(self.log.mark)
            except GONE as error:
                report(f"{self.account.participant}: {error}")
                continue
            self._report(f"{self.account.participant}: the exchange is back")
            return

    def _tell(self, packets: bytes, count: int, mark: Mark | None = None) -> None:
        """Adds messages to the stream and sends them."""
        if not count and mark is None:
            return
        self.log.append(packets, count, mark)
        for reader in list(self.readers):
            reader.send_new(packets, count)

    # from the exchange

    def _receive_reports(self, rows: Rows) -> None:
        mark = self.log.mark
        known = rows[rows["report"] <= mark.number]
        if len(known):
            last = known[-1]
            if last["report"] == mark.number and (last["sequence"], last["time_ns"]) != (mark.sequence, mark.time_ns):
                raise OtherJournal(f"report {mark.number} is not the same as before")
            rows = rows[rows["report"] > mark.number]
        if not len(rows):
            self._resume_readers()
            return
        packets, count = self._encoder.encode(rows)
        last = rows[-1]
        self._tell(packets, count, Mark(int(last["report"]), int(last["sequence"]), int(last["time_ns"])))
        answered = int(rows["command_id"].max())
        if answered:
            self.link.session.answered_id = max(self.link.session.answered_id, answered)
            self.link.answered(answered)
            self._entry.reject_refused(answered, Reject.PORT_RATE)
        self._entry.send_freed()
        self._resume_readers()

    def _resume_readers(self) -> None:
        """Receives from the user again once few commands wait for their reports and no messages wait for their turn."""
        if self._paused and not self._backlog and self.link.unanswered_rows < UNANSWERED_ROWS_MAX // 2:
            for reader in self._paused:
                reader.resume_reading()
            self._paused = set()

    def _logged_in(self) -> None:
        """After a login: rejects or resends commands that the exchange has not received."""
        session, table = self.link.session, self._table
        if not self._symbols.equal(Symbols(list(session.instruments.values()))):
            raise OtherJournal("it has other symbols")
        if session.answered_before > session.last_command_id:
            raise OtherJournal(
                f"the last command that it has of {self.account.participant} is older than the last that was answered"
            )
        self.link.repeat()
        waiting = np.flatnonzero(~table.answered[: table.count])
        ids = table.entries["command_id"][waiting]
        lost = waiting[((ids > session.last_command_id) | (ids == 0)) & (table.entries["kind"][waiting] != MASS_CANCEL)]
        if len(lost):
            for changes in list(self._changes.waiting.values()):
                changes[:] = [change for change in changes if change.kind != REPLACE]
            self._entry.reject(lost, Reject.DESTINATION_CLOSED)
        for command_id in [each for each in self._changes.by_command if each > session.last_command_id]:
            if self._changes.by_command[command_id].kind == REPLACE:
                self._encoder.freed += self._changes.answered(command_id)
        self._entry.send_freed()
        self._resume_readers()  # lost commands get no reports

    # from the user

    def receive(self, connection: Connection, data: bytes, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> None:
        """Receives the OUCH messages data[start:end]."""
        buffer = np.frombuffer(data, np.uint8)
        alone = np.flatnonzero(ALONE[buffer[np.minimum(starts, len(buffer) - 1)]] & (ends > starts))
        cuts = sorted({0, *alone.tolist(), *(alone + 1).tolist(), len(starts)})
        self._backlog += [(connection, data, starts[first:end], ends[first:end]) for first, end in pairwise(cuts)]
        if self._turn is None:
            self._take()
        if self._backlog:
            self._pause(connection)

    def _take(self) -> None:
        """Processes waiting messages, for TURN_S at a time."""
        self._turn, until_s = None, time.monotonic() + TURN_S
        while self._backlog and self._turn is None:
            connection, data, starts, ends = self._backlog.popleft()
            try:
                self._entry.receive(split(data, starts, ends), connection.explain)
            except OSError as error:  # a message that cannot be stored is not sent
                if not self.failure.done():
                    self.failure.set_exception(error)
                self._backlog.clear()
                connection.pause_reading()
                return
            if self.link.unanswered_rows > UNANSWERED_ROWS_MAX:
                self._pause(connection)
            if self._backlog and time.monotonic() > until_s:
                self._turn = asyncio.get_running_loop().call_soon(self._take)
        self._resume_readers()

    def _pause(self, connection: Connection) -> None:
        """Receives nothing more from the user until `_resume_readers`."""
        if connection not in self._paused:
            self._paused.add(connection)
            connection.pause_reading()

    async def close(self) -> None:
        """Logs out of the exchange and closes the files."""
        self._backlog.clear()
        await self.link.close()
        self.log.close()
        self._table.close()
