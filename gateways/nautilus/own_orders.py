"""The orders of a participant, from its reports: what is open and what has traded, including earlier sessions."""

from dataclasses import dataclass, field

from serl.clients.session import Order, Report
from serl.exchange.records import EventFlag, EventKind, Reason, Side, TimeInForce

ENDED_MAX = 1_000
"""Number of ended orders that are still remembered; the oldest are forgotten."""

REPLACES_MAX = 1_000
"""Number of REPLACE commands whose limits are remembered: one that keeps the order's limit has no report that needs it."""


@dataclass
class Fill:
    """A trade of an order; `trade_id` is unique among the participant's fills."""

    trade_id: str
    time_ns: int
    qty_lots: int
    price_ticks: int
    is_maker: bool


@dataclass
class OwnOrder:
    """One order, as its reports show it.

    Attributes:
        qty_lots: filled plus open quantity.
        price_ticks: its limit, 0 for none.
        is_stopped: whether it waits for its stop price, as far as its reports show: it was accepted without being displayed.
        reason: why it was rejected or cancelled.
    """

    order_id: int
    symbol: int
    side: int
    qty_lots: int
    price_ticks: int
    accepted_ns: int
    last_ns: int
    open_lots: int = 0
    is_hidden: bool = False
    is_triggered: bool = False
    reason: Reason = Reason.NONE
    fills: list[Fill] = field(default_factory=list)

    @property
    def filled_lots(self) -> int:
        """The quantity traded so far."""
        return sum(fill.qty_lots for fill in self.fills)

    def as_order(self) -> Order:
        """Converts it to the `Order` that a session keeps."""
        return Order(
            self.order_id, self.symbol, Side(self.side), self.price_ticks, self.qty_lots, TimeInForce.GTC, "open",
            self.filled_lots, self.open_lots,
        )  # fmt: skip


class OwnOrders:
    """Keeps a participant's orders. Reports must come in their order."""

    def __init__(self) -> None:
        self.orders: dict[int, OwnOrder] = {}
        #: limits of the REPLACE commands that are under way, by command id; a REPLACED report has the former limit
        self.replacing: dict[int, int] = {}
        self._ended: list[int] = []
        self._last_match = 0

    def note_replace(self, command_id: int, price_ticks: int) -> None:
        """Notes the limit that a REPLACE requests."""
        self.replacing[command_id] = price_ticks
        if len(self.replacing) > REPLACES_MAX:
            del self.replacing[next(iter(self.replacing))]

    def open(self) -> list[OwnOrder]:
        """Orders that can still trade."""
        return [order for order in self.orders.values() if order.open_lots]

    def apply(self, report: Report) -> OwnOrder | None:
        """Updates and returns the order that a report is about; None if it is not about a known order."""
        if report.kind == EventKind.ACCEPTED:
            self._accept(report)
        order = self.orders.get(report.order_id)
        if order is None or report.kind not in CHANGES:
            return None
        order.last_ns = report.time_ns
        if report.kind == EventKind.FILL:
            order.fills.append(self._fill(report))
        elif report.kind == EventKind.RESTED:
            order.price_ticks = report.price_ticks
        elif report.kind == EventKind.TRIGGERED:
            order.is_triggered = True
        elif report.kind in (EventKind.REDUCED, EventKind.REPLACED):
            order.qty_lots = order.filled_lots + report.leaves_lots
            if report.kind == EventKind.REPLACED:
                order.price_ticks = self.replacing.pop(report.command_id, order.price_ticks)
        elif report.kind == EventKind.CANCELLED:
            order.reason = Reason(report.reason)
        order.open_lots = report.leaves_lots
        if not order.open_lots:
            self._end(order)
        return order

    def _accept(self, report: Report) -> None:
        hidden = bool(report.flags & EventFlag.HIDDEN)
        self.orders[report.order_id] = OwnOrder(
            report.order_id, report.symbol, report.side, report.leaves_lots, report.price_ticks, report.time_ns, report.time_ns,
            is_hidden=hidden,
        )  # fmt: skip

    def _fill(self, report: Report) -> Fill:
        """Adds a fill. Both sides of a self-trade have the same match id and are reported one after the other."""
        trade_id = f"{report.match_id}-2" if report.match_id == self._last_match else str(report.match_id)
        self._last_match = report.match_id
        is_maker = bool(report.flags & (EventFlag.MAKER | EventFlag.AUCTION))
        return Fill(trade_id, report.time_ns, report.qty_lots, report.price_ticks, is_maker)

    def _end(self, order: OwnOrder) -> None:
        self._ended.append(order.order_id)
        if len(self._ended) > ENDED_MAX:
            self.orders.pop(self._ended.pop(0), None)


CHANGES = {
    EventKind.ACCEPTED,
    EventKind.FILL,
    EventKind.RESTED,
    EventKind.TRIGGERED,
    EventKind.REDUCED,
    EventKind.REPLACED,
    EventKind.CANCELLED,
}
"""Reports that change an order."""
