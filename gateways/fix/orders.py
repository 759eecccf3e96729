"""The orders of a FIX session: the state of each, and the ClOrdIDs that name it. Kept up to date by `reports`, restored from the store."""

from typing import Any, NamedTuple

NEW, PARTIALLY_FILLED, FILLED, CANCELED, REJECTED, EXPIRED, PENDING_NEW = "0", "1", "2", "4", "8", "C", "A"
"""OrdStatus (39)."""
_FINISHED = (FILLED, CANCELED, REJECTED, EXPIRED)


class Order:
    """One order.

    Attributes:
        order_id: its name on the exchange, OrderID (37).
        cl_ord_id: the last accepted ClOrdID (11).
        symbol: the symbol's number; side: 0 buy, 1 sell.
        fixed: the fields of its reports that never change, from Symbol on.
        stop: StopPx (99) as the client sent it, "" for none; waits: whether it has not been triggered yet.
        notional: ticks x lots of its fills.
        status: OrdStatus (39).
    """

    __slots__ = (
        "cl_ord_id", "filled_lots", "fixed", "has_price", "leaves_lots", "notional", "order_id", "price_ticks", "qty_lots",
        "side", "status", "stop", "symbol", "waits",
    )  # fmt: skip

    def __init__(
        self, order_id: int, cl_ord_id: str, symbol: int, side: int, qty_lots: int, price_ticks: int, has_price: bool, fixed: str,
        stop: str = "",
    ) -> None:  # fmt: skip
        self.order_id, self.cl_ord_id, self.symbol, self.side = order_id, cl_ord_id, symbol, side
        self.qty_lots = self.leaves_lots = qty_lots
        self.price_ticks, self.has_price, self.fixed = price_ticks, has_price, fixed
        self.stop, self.waits = stop, bool(stop)
        self.filled_lots = self.notional = 0
        self.status = PENDING_NEW

    @property
    def is_open(self) -> bool:
        """Whether it may still trade."""
        return self.status not in _FINISHED

    @property
    def working_status(self) -> str:
        """OrdStatus of an order that is open."""
        return PARTIALLY_FILLED if self.filled_lots else NEW

    def change(self) -> list[Any]:
        """The fields that reports change, for the store."""
        return [
            self.order_id, self.cl_ord_id, self.qty_lots, self.price_ticks, self.filled_lots, self.notional,
            self.leaves_lots, self.status, self.stop, self.waits,
        ]  # fmt: skip

    def set(self, change: list[Any]) -> None:
        """Restores the fields returned by `change`; files of earlier versions lack those about stops."""
        _, self.cl_ord_id, self.qty_lots, self.price_ticks, self.filled_lots, self.notional, self.leaves_lots, self.status, *stop = change  # fmt: skip
        if stop:
            self.stop, self.waits = stop


class Request(NamedTuple):
    """A cancel, replace or mass cancel that the exchange has not answered yet.

    Attributes:
        kind: MsgType F, G or q.
        order_id: the order; 0 for a mass cancel.
        qty_lots, price_ticks: for a replace, the new total and price; for a mass cancel, qty_lots counts nothing.
        scope: for a mass cancel, MassCancelRequestType (530).
        stop: for a replace, the order's StopPx (99) from then on.
    """

    command_id: int
    kind: str
    cl_ord_id: str
    orig_cl_ord_id: str
    order_id: int
    qty_lots: int = 0
    price_ticks: int = 0
    scope: str = ""
    stop: str = ""


class Orders:
    """All orders of a session, and the requests under way."""

    def __init__(self) -> None:
        self.by_id: dict[int, Order] = {}
        #: the order of each ClOrdID ever used for it in new, cancel and replace requests
        self.named: dict[str, int] = {}
        self.requests: dict[int, Request] = {}

    def add(self, order: Order) -> list[Any]:
        """Adds a new order; returns the change for the store."""
        self.by_id[order.order_id] = order
        self.named[order.cl_ord_id] = order.order_id
        return [
            "D", order.order_id, order.cl_ord_id, order.symbol, order.side, order.qty_lots, order.price_ticks,
            order.has_price, order.fixed, order.stop,
        ]  # fmt: skip

    def ask(self, request: Request) -> list[Any]:
        """Adds a request; returns the change for the store."""
        self.requests[request.command_id] = request
        self.named[request.cl_ord_id] = request.order_id
        return ["R", *request]

    def find(self, cl_ord_id: str) -> Order | None:
        """The order that a ClOrdID names."""
        return self.by_id.get(self.named.get(cl_ord_id, 0))

    def restore_request(self, change: list[Any] | None) -> None:
        """Repeats the change made by `add` or `ask`."""
        if change is None:
            return
        if change[0] == "D":
            self.add(Order(*change[1:]))
        else:
            self.ask(Request(*change[1:]))

    def restore_report(self, change: list[Any] | None) -> None:
        """Repeats the change made by a report: [change of the order or None, answered command id]."""
        if change is None:
            return
        of_order, command_id = change
        self.requests.pop(command_id, None)
        if of_order is not None and (order := self.by_id.get(of_order[0])) is not None:
            order.set(of_order)

    def state(self) -> list[Any]:
        """The state that survives a reset of the sequence numbers: open orders and requests."""
        open_orders = [order for order in self.by_id.values() if order.is_open]
        kept = {order.order_id for order in open_orders}
        names = [[name, order_id] for name, order_id in self.named.items() if order_id in kept]
        rows = [
            [[order.order_id, order.cl_ord_id, order.symbol, order.side, order.qty_lots, order.price_ticks, order.has_price,
              order.fixed, order.stop], order.change()]
            for order in open_orders
        ]  # fmt: skip
        return [rows, names, [list(request) for request in self.requests.values()]]

    def load(self, state: list[Any] | None) -> None:
        """Replaces everything with a state."""
        self.by_id, self.named, self.requests = {}, {}, {}
        if state is None:
            return
        rows, names, requests = state
        for of_new, change in rows:
            order = Order(*of_new)
            order.set(change)
            self.by_id[order.order_id] = order
        self.named = dict(names)
        self.requests = {request[0]: Request(*request) for request in requests}

    def forget(self) -> None:
        """Forgets all orders and requests, as of an exchange with other symbols. Their ClOrdIDs stay used."""
        self.by_id, self.requests = {}, {}

    def forget_finished(self) -> None:
        """After a reset: forgets everything that `state` left out."""
        self.load(self.state())
