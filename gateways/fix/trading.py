"""The orders of one account over FIX: connects its FIX session with its session on the exchange."""

import asyncio
import contextlib
import time
from collections.abc import Iterable
from typing import Any

from serl.clients.asynchronous import AsyncExchange, resume
from serl.clients.errors import ExchangeUnreachable
from serl.clients.session import Instrument, Report
from serl.exchange.errors import ConfigError, SerlError
from serl.gateways.accounts import GatewayAccount
from serl.gateways.fix.codec import Message
from serl.gateways.fix.entry import OrderEntry
from serl.gateways.fix.interfaces import Owner
from serl.gateways.fix.market_data import MarketData
from serl.gateways.fix.orders import Orders
from serl.gateways.fix.reference import ReferenceData
from serl.gateways.fix.reports import Reports
from serl.gateways.fix.settings import Settings
from serl.gateways.fix.store import INBOUND, OUTBOUND, REPORT, SNAPSHOT, SYMBOLS
from serl.gateways.fix.stored import StoredApplication
from serl.gateways.fix.venue import Refusal, ReportSession, bulk

COMMANDS_MAX, COMMANDS_LOW = 512, 256
"""With COMMANDS_MAX commands without a reply from the exchange, a session is not read until there are fewer than COMMANDS_LOW."""
QUERIES_MAX, QUERIES_LOW = 16, 8
"""The same for market data and status requests, so that a flood of them does not keep other clients from their turn."""
SILENCE_S = 5.0
"""An exchange that is silent for this long counts as away: it sends a heartbeat each second."""
_PING_S = 1.0


class Trading(StoredApplication):
    """One account. It has a session on the exchange while a connection is open."""

    def __init__(self, account: GatewayAccount, settings: Settings) -> None:
        super().__init__(account, settings)
        self._orders = Orders()
        self._unanswered: dict[int, bytes] = {}
        self._last_command_id = 0
        self._symbols: list[Instrument] = []
        self._exchange: AsyncExchange | None = None
        self._venue: ReportSession | None = None
        self._entry: OrderEntry | None = None
        self._reports: Reports | None = None
        self._market: MarketData | None = None
        self._reference: ReferenceData | None = None
        self._pinged_s = 0.0

    # ---- state

    def _restore(self, record: list[Any]) -> None:
        kind = record[0]
        if kind == INBOUND:
            _, _, change, command_id, rows = record
            self._orders.restore_request(change)
            self._unanswered[command_id] = bulk(rows)
            self._last_command_id = command_id
        elif kind == OUTBOUND and record[4] is not None:
            of_order, answered = record[4]
            self._unanswered.pop(answered, None)
            if of_order is not None:
                self._unanswered.pop(of_order[0], None)
            self._orders.restore_report(record[4])
        elif kind == SYMBOLS:
            self._set_symbols([Instrument.of(*row) for row in record[1]])
        elif kind == SNAPSHOT:
            self._last_command_id, state, unanswered, *more = record[2] or (0, None, {})
            self._orders.load(state)
            self._unanswered = dict(unanswered)
            for rows in more:  # files of earlier versions have none
                self._set_symbols([Instrument.of(*row) for row in rows])

    def _set_symbols(self, symbols: list[Instrument]) -> None:
        """Sets the exchange's symbols. With others than before it has another journal, which has none of the orders."""
        if self._symbols and symbols != self._symbols:
            self._orders.forget()
            self._unanswered = {}
        self._symbols = symbols

    def state(self) -> Any:
        """See `Application.state`."""
        last = self._venue.next_command_id - 1 if self._venue else self._last_command_id
        state = self._orders.state()
        self._orders.load(state)
        return [last, state, self._venue.unanswered if self._venue else self._unanswered, _symbol_rows(self._symbols)]

    # ---- connection

    async def _open(self, owner: Owner) -> None:
        account = self._account
        venue = ReportSession(
            account.participant, account.token, replace=True, cancel_on_disconnect=account.cancel_on_disconnect
        )
        venue.last_report = self.store.last_report
        venue.next_command_id = self._last_command_id + 1
        venue.unanswered, venue.former = self._unanswered, self._symbols
        exchange = await resume(self._settings.endpoint, venue, curve=self._settings.curve)
        if exchange.core.lockstep:
            await exchange.close()
            raise ConfigError(
                "expected an exchange with a live or scaled clock, got lockstep; FIX clients cannot wait for turns"
            )
        # libzmq frees room late: with its default of 1,000 a burst would be refused
        exchange.core.orders.sndhwm = 8 * COMMANDS_MAX
        self._venue, self._exchange, self._owner = venue, exchange, owner
        self.session.begin()
        self._reports = Reports(self.session, self._orders, venue.instruments.values())
        self._entry = OrderEntry(self.session, venue, self._orders, self._reports)
        self._market = MarketData(self.session, exchange, self._reports.quotings, owner)
        self._reference = ReferenceData(self.session, exchange, self._reports.quotings, owner)
        self._receivers = self._entry.receivers | self._market.receivers | self._reference.receivers
        # venue.last_report may be later: reports can arrive together with the answer to the login
        if not venue.is_other_journal:  # otherwise once the client has been told of it
            self._note_beginning(venue)
        self.store.flush()

    def _note_beginning(self, venue: ReportSession) -> None:
        if self.store.last_report != venue.begins_after:
            self.store.append([REPORT, venue.begins_after])
        symbols = list(venue.instruments.values())
        if symbols != self._symbols:
            self.store.append([SYMBOLS, _symbol_rows(symbols)])
            self._set_symbols(symbols)

    def start(self) -> None:
        """Starts processing reports: the client is logged on."""
        venue = self._venue
        assert venue is not None
        if venue.is_other_journal:
            former = Reports(self.session, self._orders, self._symbols or venue.instruments.values())
            former.lost("the exchange has another journal, without this order")
            self._note_beginning(venue)
        self._task = asyncio.create_task(self._take_reports())

    async def close(self) -> None:
        """Logs out of the exchange."""
        async with self._opening:
            await self._close()

    async def _close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None
        for part in (self._market, self._reference):
            if part is not None:
                part.close()
        if self._exchange is not None and self._venue is not None:
            self._last_command_id = self._venue.next_command_id - 1
            self._unanswered = self._venue.unanswered
            exchange, self._exchange, self._venue = self._exchange, None, None
            await exchange.close()
        with contextlib.suppress(OSError):  # the store is `broken` then
            self.store.flush()

    # ---- work

    def receive(self, message: Message) -> None:
        """See `Application.receive`."""
        if self._is_away or (self._venue is not None and self._venue.is_over):
            self.session.business_reject(
                message, 4, "the exchange does not answer; try later", message.fields.get("11", "")
            )
            return
        receiver = self._receivers.get(message.type)
        if receiver is not None:
            receiver(message)

    def send_commands(self) -> None:
        """Sends the commands of the entered orders, which are in the store."""
        entry, exchange = self._entry, self._exchange
        if entry is not None and entry.commands and exchange is not None and self._venue is not None:
            commands, entry.commands = entry.commands, []
            messages = self._venue.messages(commands)
            if not self._venue.live:  # they are sent after the login, if the exchange then has the same journal
                return
            try:
                exchange.send(*messages)
            except ExchangeUnreachable as error:  # they are sent again at the next logon
                self.session.end(str(error))

    @property
    def is_full(self) -> bool:
        """Whether so many commands or queries wait for a reply that the client must not be read. While the exchange is away it is read: its orders are
        refused then."""
        if self._venue is None or self._is_away:
            return False
        return len(self._venue.unanswered) >= COMMANDS_MAX or self._queries >= QUERIES_MAX

    @property
    def is_low(self) -> bool:
        """Whether the client may be read again."""
        if self._venue is None or self._is_away:
            return True
        return len(self._venue.unanswered) <= COMMANDS_LOW and self._queries <= QUERIES_LOW

    @property
    def _queries(self) -> int:
        """The number of the client's requests that wait for an answer from the exchange."""
        return sum(part.waiting for part in (self._market, self._reference) if part is not None)

    @property
    def _is_away(self) -> bool:
        return self._exchange is None or self._exchange.core.silent_s > SILENCE_S

    def tick(self) -> None:
        """Sends a PING to a silent exchange: a restarted one answers that we are not logged in."""
        exchange, now = self._exchange, time.monotonic()
        if exchange is None or exchange.core.silent_s < 2 * _PING_S or now - self._pinged_s < _PING_S:
            return
        self._pinged_s = now
        try:
            exchange.core.ping()
        except ExchangeUnreachable:
            return

    async def _take_reports(self) -> None:
        assert self._exchange is not None and self._owner is not None
        exchange, owner = self._exchange, self._owner
        try:
            while True:
                items = await exchange.wait_all()
                self.session.begin()
                for item in items:
                    self._take(item)
                owner.flush()
        except SerlError as error:
            self.session.begin()
            self.session.logout(str(error))
            owner.flush()

    def _take(self, item: Any) -> None:
        reports = self._reports
        assert reports is not None and self._market is not None and self._reference is not None
        if type(item) is Report:
            reports.apply(item)
        elif isinstance(item, Refusal):
            reports.refused(item)
        elif not self._reference.take(item):
            self._market.take(item)


def _symbol_rows(symbols: Iterable[Instrument]) -> list[list[Any]]:
    """Symbols as they are stored."""
    return [[each.number, each.name, str(each.tick_size), str(each.lot_size)] for each in symbols]
