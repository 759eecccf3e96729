"""The session of one account with the exchange: commands with their answers, and a new session whenever one ends."""

import asyncio
import dataclasses
import time
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgpack
import numpy as np

from serl.clients.asynchronous import AsyncExchange, resume
from serl.clients.errors import ExchangeUnreachable, LoginRefused, ReportGap, RequestRejected, SessionEnded
from serl.clients.session import Report
from serl.clients.values import Balance
from serl.exchange.account import Account as Balances
from serl.exchange.log import log, without_repeats
from serl.exchange.records import CommandKind, EventKind, Reason
from serl.exchange.terms import NO_TERMS, Terms, order
from serl.exchange.wire import Kind
from serl.gateways.accounts import GatewayAccount
from serl.gateways.binance.errors import BinanceError, away, rejection, throttled, unknown_outcome
from serl.gateways.binance.fees import Rates
from serl.gateways.binance.listing import Listings
from serl.gateways.binance.order_file import OrderFile, OrderRecord
from serl.gateways.binance.orders import AccountOrders
from serl.gateways.binance.pending import PendingIds
from serl.gateways.binance.session import AccountSession, ends_command

REPLY_S = 5.0
"""A command without an answer for this long has an unknown outcome."""
SILENT_HEARTBEATS = 3.5
"""The exchange counts as away when it has sent nothing for this many heartbeats."""
FEES_S = 1.0
"""How often the fees are read."""
DELAYED_S = 2.0
"""This long after its fees were read, the reports of an account with a latency have arrived."""
RETRY_S = 0.2
REPLACED_RETRY_S = 5.0
"""Wait before logging in again if another session took the account's place: that one must not be ended at once."""


class _Waiter(NamedTuple):
    future: "asyncio.Future[Report]"
    until_s: float
    last: int  # the EventKind that ends the wait; 0: whatever ends the command of one order


class NewOrder(NamedTuple):
    """The fields of a NEW command in addition to the record."""

    time_in_force: int
    flags: int
    terms: Terms = NO_TERMS


class Leg(NamedTuple):
    """An order of a list. relation: the term that names the first order, "" for none."""

    record: Callable[[int], OrderRecord]
    fields: NewOrder
    relation: str


class AccountLink:
    """One account's orders, and its session while there is one.

    Attributes:
        orders: kept up to date by the session's reports.
        up: whether commands can be sent now.
        pending_ids: symbols and the client's ids of orders that the exchange has not answered in this session.
        pending_lists: the client's ids of such order lists.
        last_command_id: id of the last command that was sent.
    """

    def __init__(
        self, endpoint: str, curve: Path | None, account: GatewayAccount, file: OrderFile, listings: Listings, offset_ms: int
    ) -> None:  # fmt: skip
        self._endpoint, self._curve, self.account, self._file = endpoint, curve, account, file
        self._listings, self._offset_ms = listings, offset_ms
        self.orders = AccountOrders(listings, file, offset_ms)
        self.up = False
        self.pending_ids, self.pending_lists = PendingIds(), PendingIds()
        self.last_command_id = 0
        self._outgoing: list[bytes] = []
        self._client: AsyncExchange | None = None
        self._waiting: dict[int, _Waiter] = {}
        self._pings = 0
        self._charged: dict[int, int] | None = None  # fees that were read but not settled yet
        self._settle_until_s = 0.0
        self._checked: Any = None  # the instruments that were checked against the listings
        self._session = self._new_session(0)

    def _new_session(self, last_report: int) -> AccountSession:
        """A session that gets every report after `last_report`; -1: only new reports."""
        session = AccountSession(self.account.participant, self.account.token, replace=True)
        session.last_report = last_report
        session.on_report, session.on_refusal = self._on_report, self._refuse
        return session

    async def connect(self) -> None:
        """Logs in; returns once all orders and trades of the account are loaded. Raises the errors of the login."""
        try:
            await self._open()
        except ReportGap:
            self._start_over()
            await self._open()

    async def _open(self) -> None:
        client = await resume(self._endpoint, self._session, curve=self._curve)
        self._client = client
        try:
            self._listings.require_same(self._session.instruments.values())
            await self._read_fees(client)
            while not self._settle_fees():
                await client.wait(0.2)
                client.core.raise_if_silent()
        except BaseException:
            await self._close()
            raise
        self.up = True

    async def _read_fees(self, client: AsyncExchange) -> None:
        """Reads the rates and the fees that the account has been charged. When the PONG that follows arrives, all reports up to then have arrived."""
        if self._charged is None:
            whose = self.account.token, self.account.participant
            rates = {symbol: Rates(*values) for symbol, *values in (await client.ask(Kind.FEES, *whose))[5]}
            *_, sequence, _, rows = await client.ask(Kind.ACCOUNT, *whose)
            self.orders.fees.read(rates, sequence)
            self._settle_until_s = time.monotonic() + DELAYED_S
            self._charged = {symbol: Balances.from_balances(balances).fees_microticks for symbol, _, *balances in rows}
        self._pings += 1
        client.send(msgpack.packb([Kind.PING, self._pings]))

    def _settle_fees(self) -> bool:
        """Settles the fees that were read, if their PONG has arrived."""
        if self._charged is None or self._session.last_pong != self._pings:
            return False
        is_late = time.monotonic() > self._settle_until_s
        if self._session.limits.get("feed_delayed") and not is_late and not self.orders.fees.explains(self._charged):
            return False  # PONGs have no latency, reports have
        for number in self.orders.fees.settle(self._charged):
            listing = self._listings.by_number.get(number)
            symbol = f"symbol {number}" if listing is None else listing.name
            log(
                "binance_fees",
                f"account {self.account.participant}: fees of {symbol} changed between fills; their commissions are 0",
            )
        self._charged = None
        return True

    async def _keep_fees(self, client: AsyncExchange) -> None:
        """Reads the fees periodically until cancelled."""
        while True:
            await asyncio.sleep(FEES_S)
            with suppress(ExchangeUnreachable, SessionEnded, RequestRejected):  # `_serve` gets these errors too
                await self._read_fees(client)

    async def run(self) -> None:
        """Keeps the session until cancelled."""
        report = without_repeats(partial(log, "binance_away"))
        while True:
            pause_s = RETRY_S
            try:
                if not self.up:
                    await self.connect()
                    log("binance_back", f"account {self.account.participant}: connected again")
                    report = without_repeats(partial(log, "binance_away"))
                await self._serve()
            except ReportGap:
                self._start_over()
            except (ExchangeUnreachable, SessionEnded, RequestRejected, LoginRefused) as error:
                report(f"account {self.account.participant}: {error}")
                if getattr(error, "code", "") in ("replaced", "login", "symbols"):
                    pause_s = REPLACED_RETRY_S
            await self._close()
            await asyncio.sleep(pause_s)
            self._expire()

    async def _serve(self) -> None:
        """Receives until the session ends, which raises an error."""
        client = self._client
        assert client is not None
        keeping = asyncio.create_task(self._keep_fees(client))
        try:
            await self._receive(client)
        finally:
            keeping.cancel()

    async def _receive(self, client: AsyncExchange) -> None:
        received, heard_s = -1, time.monotonic()
        silent_s = SILENT_HEARTBEATS * float(self._session.limits.get("heartbeat_s", 1.0))
        while True:
            await client.wait(0.25)
            self._settle_fees()
            now_s = time.monotonic()
            if client.core.received != received:
                received, heard_s = client.core.received, now_s
            elif now_s - heard_s > silent_s:
                raise ExchangeUnreachable(f"{self._endpoint} has sent nothing for {silent_s:g} s")
            self._expire()

    def _start_over(self) -> None:
        """Starts over with a new session: the exchange no longer has all the reports needed (another journal, or one whose beginning is gone)."""
        name = self.account.participant
        if self._session.last_report > 0:
            log(
                "binance_new_journal",
                f"account {name}: the exchange has another journal; orders and trades start from nothing",
            )
            self._session, self._charged = self._new_session(0), None
            self._file.reload()
            self.orders, tell = AccountOrders(self._listings, self._file, self._offset_ms), self.orders.on_execution
            self.orders.on_execution = tell
        else:
            log(
                "binance_gap",
                f"account {name}: the exchange no longer has the account's first reports; older orders are missing",
            )
            self._session = self._new_session(-1)

    async def _close(self) -> None:
        self.up = False
        self.pending_ids.clear()  # after the next login all reports up to then have arrived
        self.pending_lists.clear()
        client, self._client = self._client, None
        if client is not None:
            self._session.live = False  # no BYE: messages waiting in the sockets are dropped
            for socket in client.core.sockets:
                socket.linger = 0
            await client.close()

    async def close(self) -> None:
        """Logs out; orders stay in the book."""
        self.up = False
        if self._client is not None:
            await self._client.close()
            self._client = None
        self._file.close()

    def _on_report(self, report: Report) -> None:
        self.orders.apply(report)
        self._answered(report.command_id)
        waiter = self._waiting.get(report.command_id)
        if waiter is not None and (
            report.kind == waiter.last
            or (not waiter.last and ends_command(report))
            or report.kind == EventKind.REJECTED
        ):
            del self._waiting[report.command_id]
            if not waiter.future.done():
                waiter.future.set_result(report)

    def _answered(self, command_id: int) -> None:
        self.pending_ids.answered(command_id)
        self.pending_lists.answered(command_id)

    def _expire(self) -> None:
        """Gives up commands without an answer; they are not sent again."""
        now_s = time.monotonic()
        for command_id, waiter in list(self._waiting.items()):
            if waiter.until_s > now_s:
                break  # the later ones wait longer
            self._fail(command_id, unknown_outcome())

    def _fail(self, command_id: int, error: BinanceError) -> None:
        self._session.unanswered.pop(command_id, None)
        waiter = self._waiting.pop(command_id)
        if not waiter.future.done():
            waiter.future.set_exception(error)

    def _refuse(self, refused: RequestRejected) -> None:
        """Handles a message that the exchange refused."""
        log("binance_refused", f"account {self.account.participant}: {refused}")
        for command_id in self._session.refused(refused):
            self._answered(command_id)
            self._file.drop(command_id)  # if it was an order, there is none
            if command_id in self._waiting:
                self._fail(command_id, throttled() if refused.code == "throttled" else away())

    def require(self) -> AsyncExchange:
        """The client of the live session. Raises BinanceError if the exchange is away."""
        if not self.up or self._client is None:
            raise away()
        if self._session.instruments is not self._checked:  # a session logs in again by itself
            if not self._listings.are(self._session.instruments.values()):
                raise away()
            self._checked = self._session.instruments
        return self._client

    def new(
        self, record: Callable[[int], OrderRecord], number: int, order_fields: NewOrder
    ) -> "asyncio.Future[Report]":
        """Writes the record of a NEW order, then sends the order; the future gets the report that ends the command.

        record: creates the record from the order's id.
        number: the number of the symbol.
        """
        client, session = self.require(), self._session
        time_in_force, flags, terms = order_fields
        if terms is NO_TERMS:
            made = record(session.next_command_id)
            self._file.append(made)
            values = (number, made.side, made.qty_lots, made.price_ticks, time_in_force, flags)
            command_id, message = session.command(CommandKind.NEW, *values)
        else:
            made = record(session.next_command_id + len(terms.items()))
            self._file.append(made)
            rows = order(
                session.next_command_id, terms, flags=flags, symbol=number, side=made.side, qty_lots=made.qty_lots, price_ticks=made.price_ticks,
                time_in_force=time_in_force,
            )  # fmt: skip
            command_id, message = made.order_id, session.rows(rows)
            session.unanswered[command_id] = message
        self.pending_ids.add(command_id, made.client_key)
        return self._send(client, command_id, message)

    def new_list(
        self, legs: "list[Leg]", number: int, list_client_id: str, list_type: str
    ) -> "list[asyncio.Future[Report]]":
        """Sends orders that depend on the first of them in one message, so that no other command comes between them."""
        client, session = self.require(), self._session
        next_id, rows, made = session.next_command_id, [], []
        first: int | None = None
        for record, (time_in_force, flags, given), relation in legs:
            named: dict[str, Any] = {relation: first} if relation else {}
            terms = dataclasses.replace(given, **named)
            order_id = next_id + len(terms.items())
            first = first or order_id
            each = record(order_id)._replace(
                list_id=first, list_client_id=list_client_id, list_type=list_type, list_size=len(legs), pending=terms.waits is not None,
            )  # fmt: skip
            self._file.append(each)
            made.append(each)
            rows.append(order(
                next_id, terms, flags=flags, symbol=number, side=each.side, qty_lots=each.qty_lots, price_ticks=each.price_ticks,
                time_in_force=time_in_force,
            ))  # fmt: skip
            next_id = order_id + 1
        message = session.rows(np.concatenate(rows))
        futures = []
        for each in made:
            session.unanswered[each.order_id] = message
            futures.append(self._wait_for(each.order_id))
            self.pending_ids.add(each.order_id, each.client_key)
        self.pending_lists.add(made[-1].order_id, list_client_id)
        self._send_now(client, message)
        return futures

    def amend(self, kind: CommandKind, *values: int, last: int = 0) -> "asyncio.Future[Report]":
        """Sends CANCEL, REDUCE or MASS_CANCEL."""
        client = self.require()
        command_id, message = self._session.command(kind, *values)
        return self._send(client, command_id, message, last)

    def _send(self, client: AsyncExchange, command_id: int, message: bytes, last: int = 0) -> "asyncio.Future[Report]":
        future = self._wait_for(command_id, last)
        self._send_now(client, message)
        return future

    def _wait_for(self, command_id: int, last: int = 0) -> "asyncio.Future[Report]":
        future: asyncio.Future[Report] = asyncio.get_running_loop().create_future()
        self.last_command_id = command_id
        self._waiting[command_id] = _Waiter(future, time.monotonic() + REPLY_S, last)
        return future

    def _send_now(self, client: AsyncExchange, message: bytes) -> None:
        """Sends a message, together with all others of this moment, before the event loop waits again: sent back to back they cost only a third."""
        if not self._outgoing:
            asyncio.get_running_loop().call_soon(self._flush, client)
        self._outgoing.append(message)

    def _flush(self, client: AsyncExchange) -> None:
        outgoing, self._outgoing = self._outgoing, []
        if client is not self._client:
            return  # the session ended: the next login sends unanswered commands
        try:
            client.send(*outgoing)
        except ExchangeUnreachable:
            for command_id in [each for each in self._waiting if each in self._session.unanswered]:
                self._fail(command_id, unknown_outcome())

    async def balances(self) -> dict[str, Balance]:
        """The account's balances in each symbol, from the exchange. Raises BinanceError."""
        try:
            return await self.require().account()
        except (ExchangeUnreachable, SessionEnded, RequestRejected):
            raise away() from None

    async def assets(self) -> tuple[bool, dict[str, tuple[Decimal, Decimal]]]:
        """(whether the account has balance checks, balance and reserved of each asset from the exchange; no assets without deposits and
        checks). Raises BinanceError."""
        try:
            checked, rows = (await self.require().ask(Kind.BALANCES, self._session.token, self._session.name))[5]
        except (ExchangeUnreachable, SessionEnded, RequestRejected):
            raise away() from None
        return bool(checked), {asset: (Decimal(balance), Decimal(reserved)) for asset, balance, reserved in rows}


def accepted(report: Report, broken_filter: BinanceError | None = None) -> Report:
    """The report of a command that the exchange executed. Raises BinanceError for a rejection. broken_filter: of the order's terms, for which the
    exchange has one reason."""
    if report.kind == EventKind.REJECTED:
        raise (report.reason == Reason.BAD_TERMS and broken_filter) or rejection(report.reason)
    return report
