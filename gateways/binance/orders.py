"""The orders and trades of one account, from the exchange's reports: the same after any number of restarts."""

import dataclasses
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from serl.clients.session import Report
from serl.exchange.records import EventFlag, EventKind, Reason
from serl.gateways.binance.fees import AccountFees, Charge
from serl.gateways.binance.listing import Listing, Listings
from serl.gateways.binance.order_file import OrderFile, OrderRecord

CLOSED_ORDERS_KEPT = 100_000
TRADES_KEPT = 100_000
"""Number of trades kept per account; older ones are no longer returned."""
CANCELED = {
    Reason.REQUESTED,
    Reason.MASS_CANCEL,
    Reason.PURGED,
    Reason.KILL,
    Reason.DISCONNECT,
    Reason.REPLACED_BELOW_FILLED,
}
"""Reasons of cancellations that somebody requested; after any other Binance calls an order expired."""
PENDING = "PENDING_NEW"
"""Status of an order that waits for another order of its list."""
OPEN = ("NEW", "PARTIALLY_FILLED", PENDING)


class OwnTrade(NamedTuple):
    """A trade of the account. charge: its fee."""

    trade_id: int
    order: "SpotOrder"
    price_ticks: int
    qty_lots: int
    time_ms: int
    maker: bool
    charge: Charge


@dataclasses.dataclass(slots=True, eq=False)
class SpotOrder:
    """One order.

    Attributes:
        qty_lots: the total quantity; smaller after an amendment.
        filled_lots, filled_amount: traded quantity, in lots and in ticks x lots.
        leaves_lots: open quantity.
        prevented_lots: quantity that self-trade prevention took off.
        working: whether it is in the book: a stop order once it has been triggered, a pending one once its working order is filled.
        status: Binance's status, for example PARTIALLY_FILLED.
        amendments: old quantity, new quantity and time of each.
        amended_by: the command id of the last amendment.
    """

    record: OrderRecord
    listing: Listing
    qty_lots: int
    leaves_lots: int
    time_ms: int
    update_ms: int
    working_ms: int
    price_ticks: int
    filled_lots: int = 0
    filled_amount: int = 0
    prevented_lots: int = 0
    working: bool = True
    status: str = "NEW"
    client_id: str = ""
    trades: list[OwnTrade] = dataclasses.field(default_factory=list)
    amendments: list[tuple[int, int, int]] = dataclasses.field(default_factory=list)
    amended_by: int = 0

    @property
    def order_id(self) -> int:
        """Binance's orderId: the exchange's order_id."""
        return self.record.order_id

    @property
    def open(self) -> bool:
        """Whether it can still trade."""
        return self.status in OPEN


def head_of(orders: list[SpotOrder]) -> SpotOrder | None:
    """The open order of a list whose cancel cancels all open ones: waiting orders are cancelled with the one that they wait for."""
    return min((order for order in orders if order.open), key=lambda order: order.status == PENDING, default=None)


class Execution(NamedTuple):
    """An event of an order: an executionReport of the user data stream.

    Attributes:
        kind: NEW, TRADE, CANCELED, EXPIRED, REPLACED or TRADE_PREVENTION.
        trade: the trade of a TRADE.
        command_id: the command that caused it; 0 if it was not one of the account's.
        filled_lots, filled_amount, status: values of the order right after it.
        prevented_lots: the quantity that a TRADE_PREVENTION took off.
    """

    kind: str
    order: SpotOrder
    time_ms: int
    sequence: int
    command_id: int
    trade: OwnTrade | None
    status: str
    filled_lots: int
    filled_amount: int
    prevented_lots: int


class AccountOrders:
    """All orders of an account.

    Attributes:
        by_id: orders by orderId, oldest first.
        by_client_id: by symbol and the client's id, the last order with both.
        open: orders that can still trade, by orderId.
        trades: trades, oldest first.
        fees: the fees of the trades.
    """

    def __init__(self, listings: Listings, file: OrderFile, offset_ms: int) -> None:
        self._listings, self._file, self._offset_ms = listings, file, offset_ms
        self.by_id: dict[int, SpotOrder] = {}
        self.open: dict[int, SpotOrder] = {}
        self.by_client_id: dict[tuple[str, str], SpotOrder] = {}
        self.trades: deque[OwnTrade] = deque(maxlen=TRADES_KEPT)
        self.lists: dict[int, list[SpotOrder]] = {}
        self.fees = AccountFees()
        self._closed: deque[int] = deque()
        self.on_execution: Callable[[Execution], None] = lambda execution: None

    def apply(self, report: Report) -> None:
        """Processes the next report."""
        kind = report.kind
        if kind == EventKind.ACCEPTED:
            self._accept(report)
            return
        order = self.by_id.get(report.order_id)
        if order is None or kind == EventKind.REJECTED:
            if kind == EventKind.REJECTED and report.order_id == report.command_id:
                self._file.drop(report.order_id)
            return
        order.update_ms = self.to_ms(report.time_ns)
        if kind == EventKind.FILL:
            self._fill(order, report)
        elif kind == EventKind.CANCELLED:
            prevented_lots = self._set_leaves(order, report)
            self._close(order, self._cancelled_status(order, report.reason))
            kinds = {"CANCELED": "CANCELED", "EXPIRED_IN_MATCH": "TRADE_PREVENTION"}
            self._tell(kinds.get(order.status, "EXPIRED"), order, report, prevented_lots=prevented_lots)
        elif kind == EventKind.REDUCED:
            self._reduce(order, report)
        elif kind in (EventKind.RESTED, EventKind.REPLACED):
            self._move(order, report)
        elif kind == EventKind.TRIGGERED:
            if order.status == PENDING and order.record.stop_ticks:
                order.status = "NEW"  # it waits for its price now
            else:
                order.working, order.working_ms = True, order.update_ms
                order.status = "NEW" if order.status == PENDING else order.status
            self._tell("NEW", order, report)

    def to_ms(self, time_ns: int) -> int:
        """Converts exchange time to Binance's milliseconds."""
        return time_ns // 1_000_000 + self._offset_ms

    def _accept(self, report: Report) -> None:
        listing = self._listings.by_number.get(report.symbol)
        if listing is None:
            return  # its symbol did not exist on the exchange when the gateway started
        record = self._file.records.get(report.order_id)
        if record is None or (record.symbol, record.side, record.price_ticks, record.qty_lots) != (
            listing.name, report.side, report.price_ticks, report.leaves_lots,
        ):  # fmt: skip
            record = OrderRecord(
                report.order_id, listing.name, report.side, report.price_ticks, report.leaves_lots, f"serl-{report.order_id}",
                "LIMIT" if report.price_ticks else "MARKET", "GTC", report.price_ticks,
            )  # fmt: skip
        time_ms = self.to_ms(report.time_ns)
        order = SpotOrder(
            record, listing, report.leaves_lots, report.leaves_lots, time_ms, time_ms, time_ms, record.shown_ticks, client_id=record.client_id
        )  # fmt: skip
        if record.stop_ticks or record.pending:
            order.working, order.working_ms = False, -1
        order.status = PENDING if record.pending else order.status
        self.by_id[order.order_id] = self.open[order.order_id] = self.by_client_id[order.record.client_key] = order
        if record.list_id >= 0:
            self.lists.setdefault(record.list_id, []).append(order)
        self._tell("NEW", order, report)

    def _fill(self, order: SpotOrder, report: Report) -> None:
        maker = bool(report.flags & EventFlag.MAKER)
        charge = self.fees.charge(report)
        trade = OwnTrade(report.match_id, order, report.price_ticks, report.qty_lots, order.update_ms, maker, charge)
        order.trades.append(trade)
        self.trades.append(trade)
        order.filled_lots += report.qty_lots
        order.filled_amount += report.qty_lots * report.price_ticks
        order.leaves_lots = report.leaves_lots
        order.status = "PARTIALLY_FILLED"
        if not report.leaves_lots:
            self._close(order, "FILLED")
        self._tell("TRADE", order, report, trade)

    def _reduce(self, order: SpotOrder, report: Report) -> None:
        """Reduces the quantity. The report about an iceberg's reserve, before its cancel, has the cancel's reason and changes no quantity."""
        prevented_lots = self._set_leaves(order, report)
        if prevented_lots:
            self._tell("TRADE_PREVENTION", order, report, prevented_lots=prevented_lots)
        elif report.reason == Reason.NONE and report.qty_lots:
            before, order.qty_lots = order.qty_lots, order.qty_lots - report.qty_lots
            if report.command_id and report.command_id == order.amended_by:  # the reserve of an iceberg came before
                before = order.amendments.pop()[0]
            order.amended_by = report.command_id
            order.amendments.append((before, order.qty_lots, order.update_ms))
            self._tell("REPLACED", order, report)

    @staticmethod
    def _set_leaves(order: SpotOrder, report: Report) -> int:
        """Sets the open quantity; returns by how much self-trade prevention has reduced it."""
        prevented_lots = order.leaves_lots - report.leaves_lots if report.reason == Reason.SELF_TRADE else 0
        order.leaves_lots = report.leaves_lots
        order.prevented_lots += prevented_lots
        return prevented_lots

    def _move(self, order: SpotOrder, report: Report) -> None:
        """Applies a REPLACE, which another session of the participant sent, or the next part of an iceberg."""
        if report.kind == EventKind.REPLACED:
            order.qty_lots = order.filled_lots + report.leaves_lots
            order.leaves_lots = report.leaves_lots
        elif report.command_id and report.command_id != order.order_id and report.price_ticks != order.price_ticks:
            order.price_ticks = report.price_ticks
            self._tell("REPLACED", order, report)

    def _cancelled_status(self, order: SpotOrder, reason: int) -> str:
        if reason == Reason.SELF_TRADE:
            return "EXPIRED_IN_MATCH"
        if reason == Reason.LINKED:
            others = [other for other in self.lists.get(order.record.list_id, ()) if other is not order]
            return "CANCELED" if any(other.status == "CANCELED" for other in others) else "EXPIRED"
        return "CANCELED" if reason in CANCELED else "EXPIRED"

    def _close(self, order: SpotOrder, status: str) -> None:
        order.status = status
        self.open.pop(order.order_id, None)
        self._file.forget(order.order_id)
        self._closed.append(order.order_id)
        if len(self._closed) > CLOSED_ORDERS_KEPT:
            self._forget(self.by_id[self._closed.popleft()])

    def _forget(self, order: SpotOrder) -> None:
        """Forgets a closed order, unless another one of its list is open."""
        if any(other.open for other in self.lists.get(order.record.list_id, ())):
            self._closed.append(order.order_id)
            return
        del self.by_id[order.order_id]
        self._file.drop(order.order_id)
        if self.by_client_id.get(order.record.client_key) is order:
            del self.by_client_id[order.record.client_key]
        self.lists.pop(order.record.list_id, None)

    def _tell(
        self, kind: str, order: SpotOrder, report: Report, trade: OwnTrade | None = None, prevented_lots: int = 0
    ) -> None:
        self.on_execution(
            Execution(
                kind,
                order,
                order.update_ms,
                report.sequence,
                report.command_id,
                trade,
                order.status,
                order.filled_lots,
                order.filled_amount,
                prevented_lots,
            )
        )
