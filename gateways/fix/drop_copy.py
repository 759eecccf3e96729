"""Drop copies: a session that receives an execution report for every change of an order of any participant of the exchange."""

import asyncio
import contextlib
from contextlib import ExitStack
from typing import Any

import numpy as np

from serl.clients.session import Instrument, Report
from serl.exchange.errors import RequestRejected, SerlError
from serl.exchange.records import EVENT, Rows
from serl.exchange.request import Request, request_socket
from serl.exchange.wire import Kind, event_lists
from serl.gateways.accounts import GatewayAccount
from serl.gateways.fix.codec import Message
from serl.gateways.fix.copied_orders import CopiedOrders
from serl.gateways.fix.interfaces import Owner
from serl.gateways.fix.settings import Settings
from serl.gateways.fix.store import OUTBOUND, REPORT, SNAPSHOT
from serl.gateways.fix.stored import StoredApplication

POLL_S = 0.05
"""Seconds between two requests for new events."""


class DropCopies(StoredApplication):
    """The drop copy of one account. The number of a report is the sequence of its event; the journal gives each event once."""

    def __init__(self, account: GatewayAccount, settings: Settings) -> None:
        super().__init__(account, settings)
        self._orders = CopiedOrders()
        self._sockets: ExitStack | None = None
        self._admin: Request | None = None
        self._queries: Request | None = None
        self._names: list[str] = []
        self._journal = ""  # the id of the journal whose events the store has; empty before the first logon
        self._request: asyncio.Future[list[Any]] | None = None

    def _restore(self, record: list[Any]) -> None:
        if record[0] == OUTBOUND:
            self._orders.restore(record[4])
        elif record[0] == REPORT and len(record) > 2:
            self._journal = record[2]
        elif record[0] == SNAPSHOT:
            state: Any = record[2]
            is_earlier = not isinstance(state, dict)  # written by an earlier version, without the journal
            self._journal = "" if is_earlier else state["journal"]
            self._orders.load(state if is_earlier else state["orders"])

    def state(self) -> Any:
        """See `Application.state`."""
        return {"journal": self._journal, "orders": self._orders.state()}

    async def _open(self, owner: Owner) -> None:
        self._owner = owner
        self._sockets = ExitStack()
        settings = self._settings
        self._admin, self._queries = (
            self._sockets.enter_context(request_socket(settings.endpoint, name, settings.curve, self._account.token))
            for name in ("admin", "queries")
        )
        try:
            _, symbols, *_ = (await self._ask(self._queries, Kind.INFO))[5]
            self._orders.set_instruments([Instrument.of(*symbol) for symbol in symbols])
            journal, events = await self._learn_names()
        except BaseException:
            await self._close()
            raise
        if self._journal not in ("", journal) or not 0 <= self.store.last_report <= events:
            self._begin_after(journal, events)
        elif not self._journal:  # a store of an earlier version
            self._begin_with(journal, self.store.last_report)

    def _begin_after(self, journal: str, event: int) -> None:
        """Begins with the next events of a journal: at the first logon, and if the exchange has another journal."""
        self._orders.load(None)
        self._begin_with(journal, event)

    def _begin_with(self, journal: str, event: int) -> None:
        self._journal = journal
        self.store.append([REPORT, event, journal])

    async def _ask(self, request: Request, *arguments: Any) -> list[Any]:
        """Sends a request in a thread. If the caller is cancelled, the thread still runs to its end, and the sockets are closed after that."""
        self._request = asyncio.ensure_future(asyncio.to_thread(request, *arguments))
        return await asyncio.shield(self._request)

    async def _learn_names(self, journal: str = "") -> tuple[str, int]:
        """Learns the names of the participants of a journal ("": of the one that the exchange has); returns its id and the number of its events so far."""
        assert self._queries is not None and self._admin is not None
        counts = (await self._ask(self._queries, Kind.STATISTICS))[5]
        arguments = self._account.token, counts["commands"], journal or counts["journal"]
        _, names, journal = (await self._ask(self._admin, Kind.COMMAND_COPY, *arguments))[5]
        self._names = names.split("\n") if names else []
        return journal, int(counts["events"])

    def start(self) -> None:
        """Called once the client is logged on."""
        self._task = asyncio.create_task(self._copy())

    async def close(self) -> None:
        """Disconnects from the exchange."""
        async with self._opening:
            await self._close()

    async def _close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        if self._request is not None:
            await asyncio.wait([self._request])
            self._request.exception()  # its error has been raised, or nobody waits for it
            self._request = None
        if self._sockets is not None:
            self._sockets.close()
            self._sockets = None
        with contextlib.suppress(OSError):  # the store is `broken` then
            self.store.flush()

    async def _copy(self) -> None:
        assert self._admin is not None and self._owner is not None
        try:
            while True:
                arguments = self._account.token, "", self.store.last_report, self._journal
                after, data, _ = (await self._ask(self._admin, Kind.DROP_COPY, *arguments))[5]
                if after == self.store.last_report:
                    await asyncio.sleep(POLL_S)
                    continue
                await self._take(np.frombuffer(data, EVENT), after)
                await self._owner.drain()
        except SerlError as error:
            self.session.begin()
            if isinstance(error, RequestRejected) and error.code == "replay_gone":
                with contextlib.suppress(SerlError):  # otherwise it happens at the next logon
                    self._begin_after(*await self._learn_names())
            self.session.logout(str(error))
            self._owner.flush()

    async def _take(self, rows: Rows, after: int) -> None:
        assert self._owner is not None
        if len(rows) and int(rows["participant"].max()) >= len(self._names):
            await self._learn_names(self._journal)
        self.session.begin()
        for participant, values in zip(rows["participant"].tolist(), event_lists(rows), strict=True):
            report = Report._make(values)
            told = self._orders.body_of(self._names[participant], report)
            if told is not None:
                body, change = told
                self.session.send("8", body, report.sequence, change)
        if self.store.last_report < after:
            self.store.append([REPORT, after])
        self._owner.flush()

    def receive(self, message: Message) -> None:
        """Rejects a message: a drop copy takes no orders."""
        self.session.business_reject(message, 6, "a drop copy session only receives reports")

    def send_commands(self) -> None:
        """Does nothing: a drop copy has no commands."""

    def tick(self) -> None:
        """Does nothing: the requests have their own timeout."""

    is_full = False
    is_low = True
