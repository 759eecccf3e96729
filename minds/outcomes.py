"""What becomes of a mind's orders, in words."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from serl.clients.session import Instrument, Order, Session
from serl.minds.anonymous import Disguise
from serl.minds.prompts import side_text


class OrderLog:
    """The orders of one mind whose state may still change, or whose changes were not yet reported."""

    def __init__(self, session: Session, disguise: Disguise) -> None:
        self._session, self._disguise = session, disguise
        #: orders that are not done, and their filled quantity that was already reported
        self._told_lots: list[tuple[Order, int]] = []

    @contextmanager
    def sending(self) -> Iterator[None]:
        """Records the order that is sent within the context, even if the exchange rejects it."""
        order_id = self._session.next_command_id
        try:
            yield
        finally:
            if (order := self._session.orders.get(order_id)) is not None:
                self._told_lots.append((order, 0))

    def news(self, rejected: Counter[str]) -> list[str]:
        """What has happened since the last call, one sentence per order. rejected: counts the exchange's reasons."""
        texts, pending = [], []
        for order, told_lots in self._told_lots:
            instrument = self._session.instrument_numbered(order.symbol)
            if order.state == "rejected":
                rejected[order.reason] += 1
            if order.state in ("rejected", "done") or order.filled_lots > told_lots:
                texts.append(outcome_text(order, instrument, self._disguise.shown(instrument.name)))
            if order.state in ("sent", "open"):
                pending.append((order, order.filled_lots))
        self._told_lots = pending
        return texts


def outcome_text(order: Order, instrument: Instrument, shown: str) -> str:
    """A sentence about an order that was rejected, filled or cancelled. shown: the symbol's name in prompts."""
    what = f"your order {order.order_id} to {side_text(order.side)} {order.qty_lots} {shown}"
    if order.state == "rejected":
        return f"The exchange rejected {what}: {order.reason}"
    if order.filled_lots:
        paid = sum(fill.qty_lots * fill.price_ticks for fill in order.fills)
        price = paid * instrument.tick_size / order.filled_lots
        rest = "" if order.state == "open" or order.filled_lots >= order.qty_lots else "; the rest was cancelled"
        return f"Filled {order.filled_lots} of {what}, at {price:.4f} on average{rest}"
    why = f" ({order.reason})" if order.reason else ""
    return f"Cancelled without a fill: {what}{why}"
