"""Live execution: NautilusTrader's orders as orders of a participant of an exchange."""

import asyncio
from decimal import Decimal
from typing import Any

from nautilus_trader.cache.cache import Cache
from nautilus_trader.common.component import LiveClock, MessageBus
from nautilus_trader.live.execution_client import LiveExecutionClient
from nautilus_trader.model.enums import AccountType, ContingencyType, OmsType, OrderSide
from nautilus_trader.model.identifiers import AccountId, ClientId
from nautilus_trader.model.objects import AccountBalance, Money

from serl.clients.errors import RequestRejected
from serl.clients.session import Report
from serl.exchange.account import Account
from serl.exchange.errors import ConfigError, ExchangeUnreachable
from serl.exchange.records import MICRO, CommandKind
from serl.exchange.wire import Kind
from serl.gateways.nautilus.config import SerlExecClientConfig
from serl.gateways.nautilus.instruments import SERL_VENUE, SymbolUnits
from serl.gateways.nautilus.link import Link
from serl.gateways.nautilus.order_changes import read_change
from serl.gateways.nautilus.order_events import OrderEvents
from serl.gateways.nautilus.orders import new_order
from serl.gateways.nautilus.own_orders import OwnOrders
from serl.gateways.nautilus.providers import SerlInstrumentProvider
from serl.gateways.nautilus.reports import fill_report, order_report, position_report, venue_order_id

REPLAY_WAIT_S = 10.0
"""The longest time between two reports of earlier sessions at the start."""


class SerlExecutionClient(LiveExecutionClient):
    """Sends orders and reports their events. The account is a margin account, because the exchange allows short positions."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, link: Link, msgbus: MessageBus, cache: Cache, clock: LiveClock,
        provider: SerlInstrumentProvider, config: SerlExecClientConfig, name: str | None,
    ) -> None:  # fmt: skip
        super().__init__(
            loop=loop, client_id=ClientId(name or SERL_VENUE.value), venue=SERL_VENUE, oms_type=OmsType.NETTING,
            account_type=AccountType.MARGIN, base_currency=None, instrument_provider=provider, msgbus=msgbus, cache=cache,
            clock=clock, config=config,
        )  # fmt: skip
        self._set_account_id(AccountId(f"{name or SERL_VENUE.value}-{config.participant}"))
        self._link, self._provider = link, provider
        self._starting = [Money.from_str(balance) for balance in config.starting_balances]
        self._own = OwnOrders()
        self._events = OrderEvents(self, link, self._own, provider)
        #: the exchange's ids of orders that this client has sent
        self._order_ids: dict[Any, int] = {}
        #: id of a command whose report shows that the reports of earlier sessions are complete
        self._barrier = -1
        self._reported = asyncio.Event()
        self._is_live = False
        self._account_task: asyncio.Task[None] | None = None
        self._skipped_task: asyncio.Task[None] | None = None
        link.on_report, link.on_gap, link.warn = self._on_report, self._on_gap, self._log.warning
        link.before_return, link.on_return = self._forget_closed, self._reject_skipped

    async def _connect(self) -> None:
        await self._link.open()
        await self._provider.initialize()
        if not self._is_live:
            await self._hear_replay()
        await self._update_account()
        await self._await_account_registered()

    async def _disconnect(self) -> None:
        await self._link.close()

    async def _hear_replay(self) -> None:
        """Waits for all reports of earlier sessions: reports arrive in order, so the one provoked by a new command comes last."""
        self._barrier, message = self._link.session.command(CommandKind.CANCEL, 0)
        self._link.send(message)
        while not self._is_live:
            self._reported.clear()
            try:
                await asyncio.wait_for(self._reported.wait(), REPLAY_WAIT_S)
            except TimeoutError:
                raise ExchangeUnreachable(
                    f"no report from {self._link.address.endpoint} for {REPLAY_WAIT_S:g} s"
                ) from None

    def _on_report(self, report: Report) -> None:
        own = self._own.apply(report)
        self._reported.set()
        self._link.session.fills.clear()  # they are in the orders
        if own is not None and not own.open_lots:
            self._link.session.orders.pop(own.order_id, None)
        if report.command_id == self._barrier:
            self._is_live = True
        elif self._is_live:
            if self._events.tell(report, own):
                self._update_account_soon()
            if self._is_over(report):
                self._order_ids.pop(self._events.client_ids.pop(report.order_id, None), None)

    def _is_over(self, report: Report) -> bool:
        """Whether a report is the last one of its order; from then on the node's cache has the order's ids."""
        own = self._own.orders.get(report.order_id)
        return not own.open_lots if own is not None else report.command_id == report.order_id

    def _on_gap(self, text: str) -> None:
        self._log.error(
            f"{text}; orders of earlier sessions may still be open: positions are right, but open orders may be missing"
        )

    def _forget_closed(self) -> None:
        """Called before commands are sent again: forgets those of orders that the node has given up meanwhile, and their terms."""
        for client_order_id, order_id in self._order_ids.items():
            order = self._cache.order(client_order_id)
            if order is not None and order.is_closed:
                for command_id in (order_id, *self._link.session.term_ids.pop(order_id, ())):
                    self._link.session.unanswered.pop(command_id, None)

    def _reject_skipped(self) -> None:
        if self._skipped_task is None or self._skipped_task.done():
            self._skipped_task = self.create_task(self._events.reject_skipped())

    # Account

    async def _balances(self) -> list[tuple[Any, SymbolUnits, Account]]:
        """(instrument, its units, the participant's account in it) of each symbol that it has traded."""
        session = self._link.session
        reply = await self._link.exchange.ask(Kind.ACCOUNT, session.token, session.name)
        known = [row for row in reply[5] if row[0] in self._provider.numbered]
        return [(*self._provider.numbered[row[0]], Account.from_balances(row[2:])) for row in known]

    async def _update_account(self) -> None:
        totals = {money.currency: money.as_decimal() for money in self._starting}
        for instrument, units, made in await self._balances():
            unit = units.price(1).as_decimal() * units.quantity(1).as_decimal()
            profit = unit * (made.realised_ticks - Decimal(made.fees_microticks) / MICRO)
            totals[instrument.quote_currency] = totals.get(instrument.quote_currency, Decimal(0)) + profit
        balances = []
        for currency, total in totals.items():
            money = Money(total, currency)
            balances.append(AccountBalance(money, Money(0, currency), money))
        self.generate_account_state(balances, [], True, self._clock.timestamp_ns())

    def _update_account_soon(self) -> None:
        """Updates the account after fills: one query at a time, and another one for fills that happen meanwhile."""
        if self._account_task is None or self._account_task.done():
            self._account_task = self.create_task(self._update_account_until_current())

    async def _update_account_until_current(self) -> None:
        told = -1
        while told != self._events.fills:
            told = self._events.fills
            try:
                await self._update_account()
            except (ExchangeUnreachable, RequestRejected) as error:
                self._log.warning(f"the account's state is not known: {error}")
                return

    async def _query_account(self, command: Any) -> None:
        await self._update_account()

    # Commands

    async def _submit_order(self, command: Any) -> None:
        self._submit(command.order)

    async def _submit_order_list(self, command: Any) -> None:
        orders = command.order_list.orders
        kinds = {order.contingency_type for order in orders} - {ContingencyType.NO_CONTINGENCY}
        if not kinds or (kinds == {ContingencyType.OCO} and len(orders) == 2):
            for order in orders:
                self._submit(order)
            return
        for order in orders:
            self._deny(
                order,
                "expected an order list of single orders or of one OCO pair; let the node emulate it with emulation_trigger",
            )

    def _deny(self, order: Any, reason: str) -> None:
        now_ns = self._clock.timestamp_ns()
        self.generate_order_denied(order.strategy_id, order.instrument_id, order.client_order_id, reason, now_ns)

    def _submit(self, order: Any) -> None:
        if order.is_closed:
            self._log.warning(f"cannot submit a closed order: {order}")
            return
        try:
            units = self._units(order.instrument_id)
            unix_ns = getattr(order, "expire_time_ns", 0)
            expire_ns = self._link.exchange_time(unix_ns, self._clock.timestamp_ns()) if unix_ns else None
            new = new_order(order, units, expire_ns, self._other_of_pair(order))
            if not self._link.is_open:
                raise ConfigError(f"no connection to {self._link.address.endpoint}")
            sent, messages = self._link.session.new_order(units.name, *new)
        except ConfigError as error:
            self._deny(order, str(error))
            return
        now_ns = self._clock.timestamp_ns()
        self.generate_order_submitted(order.strategy_id, order.instrument_id, order.client_order_id, now_ns)
        self._order_ids[order.client_order_id] = sent.order_id
        self._events.client_ids[sent.order_id] = order.client_order_id
        self._link.send(*messages)

    def _units(self, instrument: Any) -> SymbolUnits:
        if instrument not in self._provider.units:
            raise ConfigError(f"expected an instrument that was loaded, got {instrument}")
        return self._provider.units[instrument]

    def _other_of_pair(self, order: Any) -> int | None:
        """The order id of the other order of an OCO pair, if it was sent before."""
        if order.contingency_type != ContingencyType.OCO:
            return None
        return next((self._order_ids[one] for one in order.linked_order_ids if one in self._order_ids), None)

    def _order_id(self, command: Any) -> int | None:
        """The exchange's id of the order that a command is about; None if it has none."""
        if command.client_order_id in self._order_ids:
            return self._order_ids[command.client_order_id]
        found = command.venue_order_id or self._cache.venue_order_id(command.client_order_id)
        return None if found is None or not found.value.isdigit() else int(found.value)

    async def _modify_order(self, command: Any) -> None:
        order, order_id = self._cache.order(command.client_order_id), self._order_id(command)
        own = self._own.orders.get(order_id or 0)
        if order is None or order_id is None or own is None or not own.open_lots:
            self._events.reject_change(command, "the order is not open at the exchange", is_cancel=False)
            return
        try:
            change = read_change(command, order, own, self._units(order.instrument_id))
        except ConfigError as error:
            self._events.reject_change(command, str(error), is_cancel=False)
            return
        session = self._link.session
        known = session.orders.get(order_id) or own.as_order()
        command_id, messages = session.amend(
            known, CommandKind.REPLACE, change.qty_lots, change.price_ticks, terms=change.terms
        )
        self._own.note_replace(command_id, change.price_ticks)
        self._events.note_replace(command_id, change)
        self._link.send(*messages)

    async def _cancel_order(self, command: Any) -> None:
        order_id = self._order_id(command)
        if order_id is None:
            self._events.reject_change(command, "the order was never sent to the exchange", is_cancel=True)
            return
        self._cancel(order_id)

    def _cancel(self, *order_ids: int) -> None:
        messages = []
        for order_id in order_ids:
            command_id, message = self._link.session.command(CommandKind.CANCEL, order_id)
            self._events.cancels.add(command_id)
            messages.append(message)
        self._link.send(*messages)

    async def _cancel_all_orders(self, command: Any) -> None:
        """Cancels only the strategy's orders: the exchange's mass cancel would also cancel those of other strategies."""
        side = command.order_side
        cache, instrument, strategy = self._cache, command.instrument_id, command.strategy_id
        found = [
            *cache.orders_open(instrument_id=instrument, strategy_id=strategy),
            *cache.orders_inflight(instrument_id=instrument, strategy_id=strategy),
        ]
        order_ids = {self._id_of(order) for order in found if side in (OrderSide.NO_ORDER_SIDE, order.side)}
        self._cancel(*sorted(order_id for order_id in order_ids if order_id is not None))

    def _id_of(self, order: Any) -> int | None:
        if order.client_order_id in self._order_ids:
            return self._order_ids[order.client_order_id]
        return int(order.venue_order_id.value) if order.venue_order_id is not None else None

    async def _batch_cancel_orders(self, command: Any) -> None:
        for cancel in command.cancels:
            await self._cancel_order(cancel)

    # Reports

    async def generate_order_status_report(self, command: Any) -> Any | None:
        """The report of one order; None if the exchange has not reported it."""
        own = self._own.orders.get(self._order_id(command) or 0)
        return None if own is None else self._order_report(own)

    async def generate_order_status_reports(self, command: Any) -> list[Any]:
        """The reports of all orders, including those of earlier sessions as far as the exchange stores their reports."""
        chosen = self._own.open() if command.open_only else list(self._own.orders.values())
        reports = [
            self._order_report(own)
            for own in chosen
            if self._is_asked(command, own.symbol, own.last_ns, bool(own.open_lots))
        ]
        return [report for report in reports if report is not None]

    def _order_report(self, own: Any) -> Any | None:
        instrument, units = self._provider.numbered[own.symbol]
        client_order_id = self._events.client_id(own.order_id)
        cached = None if client_order_id is None else self._cache.order(client_order_id)
        times_ns = (self._link.unix_ns(own.accepted_ns), self._link.unix_ns(own.last_ns), self._clock.timestamp_ns())
        report = order_report(self.account_id, instrument, units, own, cached, times_ns)
        if report is None:
            self._log.warning(
                f"order {own.order_id} of an earlier session is a stop order whose price is not known: it is not changed"
            )
        return report

    def _is_asked(self, command: Any, symbol: int, time_ns: int, is_open: bool = False) -> bool:
        if symbol not in self._provider.numbered:
            return False
        instrument, _ = self._provider.numbered[symbol]
        if not _is_any_or(command.instrument_id, instrument.id):
            return False
        return is_open or command.start is None or self._link.unix_ns(time_ns) >= command.start.value

    async def generate_fill_reports(self, command: Any) -> list[Any]:
        """The reports of all fills of known orders."""
        now_ns = self._clock.timestamp_ns()
        reports = []
        for own in self._own.orders.values():
            if not own.fills or own.symbol not in self._provider.numbered:
                continue
            instrument, units = self._provider.numbered[own.symbol]
            client_order_id = self._events.client_id(own.order_id)
            reports += [
                fill_report(self.account_id, instrument, units, own, fill, client_order_id, self._link.unix_ns(fill.time_ns), now_ns)
                for fill in own.fills
                if self._is_asked(command, own.symbol, fill.time_ns)
                and _is_any_or(command.venue_order_id, venue_order_id(own.order_id))
            ]  # fmt: skip
        return reports

    async def generate_position_status_reports(self, command: Any) -> list[Any]:
        """The report of each symbol that the participant has traded, from the exchange's accounts."""
        now_ns = self._clock.timestamp_ns()
        return [
            position_report(self.account_id, instrument, units, made, now_ns)
            for instrument, units, made in await self._balances()
            if _is_any_or(command.instrument_id, instrument.id)
        ]


def _is_any_or(asked: Any, identifier: Any) -> bool:
    """Whether a command asks for this identifier or, with None, for all. NautilusTrader's identifiers raise if they are compared with None."""
    return asked is None or bool(asked == identifier)
