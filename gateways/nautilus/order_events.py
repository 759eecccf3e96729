"""Converts reports of the exchange to NautilusTrader order events."""

import asyncio
from typing import TYPE_CHECKING, Any

from nautilus_trader.model.enums import OrderType
from nautilus_trader.model.identifiers import TradeId
from nautilus_trader.model.objects import Money

from serl.clients.session import Report
from serl.exchange.records import EventKind, Reason
from serl.gateways.nautilus.link import Link
from serl.gateways.nautilus.order_changes import Change
from serl.gateways.nautilus.own_orders import REPLACES_MAX, OwnOrder, OwnOrders
from serl.gateways.nautilus.providers import SerlInstrumentProvider
from serl.gateways.nautilus.reports import EXPIRIES, liquidity, venue_order_id

if TYPE_CHECKING:
    from serl.gateways.nautilus.execution import SerlExecutionClient

ANSWER_POLL_S = 0.02
SKIPPED = "the exchange did not accept the command, and has accepted later ones: send the order again"


class OrderEvents:
    """Generates the events of a client's orders.

    Attributes:
        client_ids: the node's id of each order that this client has sent, by the exchange's id.
        cancels: command ids of cancellations under way.
        replaces: changes under way, by command id.
        fills: number of fills so far.
    """

    def __init__(
        self, client: "SerlExecutionClient", link: Link, own: OwnOrders, provider: SerlInstrumentProvider
    ) -> None:
        self._client, self._link, self._own, self._provider = client, link, own, provider
        self.client_ids: dict[int, Any] = {}
        self.cancels: set[int] = set()
        self.replaces: dict[int, Change] = {}
        self.fills = 0

    def note_replace(self, command_id: int, change: Change) -> None:
        """Notes a change under way."""
        self.replaces[command_id] = change
        if len(self.replaces) > REPLACES_MAX:
            del self.replaces[next(iter(self.replaces))]

    def client_id(self, order_id: int) -> Any | None:
        """The node's id of an order, including one of an earlier session; None if the node does not know it."""
        return self.client_ids.get(order_id) or self._client._cache.client_order_id(venue_order_id(order_id))

    def tell(self, report: Report, own: OwnOrder | None) -> bool:
        """Generates the event of a report if the node knows the order. Returns whether it is a fill."""
        client_id = self.client_id(report.order_id)
        order = None if client_id is None else self._client._cache.order(client_id)
        if order is None:
            return False
        if report.kind == EventKind.REJECTED:
            self._tell_rejection(order, report)
        elif own is not None:
            self._tell_change(order, report, own)
        return report.kind == EventKind.FILL

    def _ids(self, order: Any, report: Report) -> tuple[Any, Any, Any, Any]:
        return order.strategy_id, order.instrument_id, order.client_order_id, venue_order_id(report.order_id)

    def _tell_rejection(self, order: Any, report: Report) -> None:
        ids, time_ns, reason = self._ids(order, report), self._link.unix_ns(report.time_ns), Reason(report.reason)
        if report.command_id == report.order_id:
            is_post_only = reason == Reason.WOULD_CROSS
            self._client.generate_order_rejected(*ids[:3], reason.name, time_ns, is_post_only)
        elif report.command_id in self.cancels:
            self.cancels.discard(report.command_id)
            self._client.generate_order_cancel_rejected(*ids, reason.name, time_ns)
        elif self.replaces.pop(report.command_id, None) is not None:
            self._own.replacing.pop(report.command_id, None)
            self._client.generate_order_modify_rejected(*ids, reason.name, time_ns)

    def _tell_change(self, order: Any, report: Report, own: OwnOrder) -> None:
        ids, time_ns, client = self._ids(order, report), self._link.unix_ns(report.time_ns), self._client
        match report.kind:
            case EventKind.ACCEPTED if order.is_closed:  # the node has given it up while it was under way
                client._cancel(report.order_id)
            case EventKind.ACCEPTED:
                client.generate_order_accepted(*ids, time_ns)
            case EventKind.CANCELLED if order.is_closed:
                self.cancels.discard(report.command_id)
            case EventKind.FILL:
                self._tell_fill(order, report, own)
            case EventKind.CANCELLED:
                self.cancels.discard(report.command_id)
                self.replaces.pop(report.command_id, None)
                if report.reason in EXPIRIES:
                    client.generate_order_expired(*ids, time_ns)
                else:
                    client.generate_order_canceled(*ids, time_ns)
            case EventKind.REDUCED | EventKind.REPLACED:
                self._tell_update(order, report, own)
            case EventKind.TRIGGERED if order.order_type == OrderType.STOP_LIMIT:
                client.generate_order_triggered(*ids, time_ns)

    def _tell_fill(self, order: Any, report: Report, own: OwnOrder) -> None:
        _, units = self._provider.numbered[report.symbol]
        instrument = self._provider.find(order.instrument_id)
        self.fills += 1
        fill = own.fills[-1]
        self._client.generate_order_filled(
            *self._ids(order, report), None, TradeId(fill.trade_id), order.side, order.order_type,
            units.quantity(fill.qty_lots), units.price(fill.price_ticks), instrument.quote_currency,
            Money(0, instrument.quote_currency), liquidity(fill), self._link.unix_ns(report.time_ns),
        )  # fmt: skip

    def _tell_update(self, order: Any, report: Report, own: OwnOrder) -> None:
        """Generates the update with a new quantity, limit or stop price. The report of an iceberg's reserve, before its displayed part is cancelled or moved,
        is not an update."""
        change = self.replaces.get(report.command_id)
        if change is None:
            if report.reason != Reason.SELF_TRADE:
                return
        elif report.kind == EventKind.REDUCED and not change.keeps_priority:
            return
        elif report.kind == EventKind.REPLACED:
            self.replaces.pop(report.command_id)
        _, units = self._provider.numbered[report.symbol]
        price = units.price(own.price_ticks) if own.price_ticks else None
        trigger = order.trigger_price if order.has_trigger_price else None
        if change is not None and change.trigger_price is not None:
            trigger = change.trigger_price
        self._client.generate_order_updated(
            *self._ids(order, report), units.quantity(own.qty_lots), price, trigger, self._link.unix_ns(report.time_ns)
        )

    def reject_change(self, command: Any, reason: str, *, is_cancel: bool) -> None:
        """Rejects a change or cancellation that was not sent."""
        generate = (
            self._client.generate_order_cancel_rejected if is_cancel else self._client.generate_order_modify_rejected
        )
        now_ns = self._client._clock.timestamp_ns()
        generate(
            command.strategy_id, command.instrument_id, command.client_order_id, command.venue_order_id, reason, now_ns
        )

    async def reject_skipped(self) -> None:
        """Called after commands have been sent again: rejects orders that the exchange has skipped because it had already accepted later commands."""
        sent: set[int] = set()
        while (waiting := self._unanswered()) or self._link.has_waiting:
            sent |= waiting
            await asyncio.sleep(ANSWER_POLL_S)
        for order_id in sent:
            order = self._client._cache.order(self.client_ids[order_id])
            if order is not None and order.is_inflight and order_id not in self._own.orders:
                now_ns = self._client._clock.timestamp_ns()
                ids = order.strategy_id, order.instrument_id, order.client_order_id
                self._client.generate_order_rejected(*ids, SKIPPED, now_ns)

    def _unanswered(self) -> set[int]:
        return self._link.session.unanswered.keys() & self.client_ids.keys()
