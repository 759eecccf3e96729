"""The open orders of an account, from its reports alone; includes those of its earlier sessions."""

from dataclasses import dataclass

from serl.clients.session import Report
from serl.exchange.records import EventKind

CHANGES = (
    EventKind.FILL, EventKind.CANCELLED, EventKind.REDUCED, EventKind.REPLACED, EventKind.RESTED, EventKind.TRIGGERED,
)  # fmt: skip
"""Events that state the remaining quantity of an order."""


@dataclass(slots=True)
class OpenOrder:
    """An order that can still trade. side: 0 buy, 1 sell; price_ticks: 0 for an order without a limit."""

    symbol: int
    side: int
    open_lots: int
    price_ticks: int


class OpenOrders(dict[int, OpenOrder]):
    """Open orders by their id, in the order of their entry."""

    def apply(self, report: Report) -> None:
        """Processes the next report of the account."""
        if report.kind == EventKind.ACCEPTED and report.leaves_lots:
            self[report.order_id] = OpenOrder(report.symbol, report.side, report.leaves_lots, report.price_ticks)
            return
        order = self.get(report.order_id)
        if order is None or report.kind not in CHANGES:
            return
        order.open_lots = report.leaves_lots
        if report.kind == EventKind.RESTED:
            order.price_ticks = report.price_ticks
        if not order.open_lots:
            del self[report.order_id]
