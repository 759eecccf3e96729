"""Converts the exchange's reports to ExecutionReport (8), OrderCancelReject (9) and OrderMassCancelReport (r)."""

import time
from collections.abc import Iterable

from serl.clients.session import Instrument, Report
from serl.exchange.records import EventFlag, EventKind, Reason
from serl.gateways.fix.codec import UtcClock, plain
from serl.gateways.fix.instruments import Quoting
from serl.gateways.fix.orders import CANCELED, EXPIRED, FILLED, REJECTED, Order, Orders, Request
from serl.gateways.fix.session import FixSession
from serl.gateways.fix.store import REPORT
from serl.gateways.fix.venue import Refusal

TRADE, RESTATED, ORDER_STATUS, REPLACED = "F", "D", "I", "5"
"""Values of ExecType (150) that are not OrdStatus values."""
_ORDER_REJECTS = {
    Reason.UNKNOWN_SYMBOL: 1, Reason.HALTED: 2, Reason.WRONG_PHASE: 2, Reason.LIMIT_QTY: 3, Reason.LIMIT_NOTIONAL: 3,
    Reason.LIMIT_ORDERS: 3, Reason.LIMIT_POSITION: 3, Reason.LIMIT_BALANCE: 3, Reason.BAD_FLAGS: 11, Reason.BAD_TERMS: 11, Reason.BAD_TIME_IN_FORCE: 11,
    Reason.BAD_QTY: 13,
}  # fmt: skip
"""OrdRejReason (103) by the exchange's reason; 99 for the others."""
_EXPIRIES = (Reason.DAY_END, Reason.EXPIRED)
_REASONS = {int(reason): reason.name for reason in Reason}
ACCEPTED, REJECTED_EVENT, FILL, CANCELLED, REDUCED, REPLACED_EVENT = map(int, (
    EventKind.ACCEPTED, EventKind.REJECTED, EventKind.FILL, EventKind.CANCELLED, EventKind.REDUCED, EventKind.REPLACED,
))  # fmt: skip
_MAKER = int(EventFlag.MAKER)
_REDUCE_OWN = int(Reason.SELF_TRADE)


class Reports:
    """Reports to a session on its orders. `apply` takes every report of the participant, in order."""

    def __init__(self, session: FixSession, orders: Orders, instruments: Iterable[Instrument]) -> None:
        self._session, self._orders = session, orders
        #: symbols by name, and by number
        self.quotings = {instrument.name: Quoting(instrument) for instrument in instruments}
        self.numbered = {quoting.number: quoting for quoting in self.quotings.values()}
        self._clock = UtcClock()

    def apply(self, report: Report) -> None:
        """Processes the next report, whose number follows the store's `last_report`."""
        kind = report.kind
        sent = False
        order = self._orders.by_id.get(report.order_id)
        if kind == ACCEPTED and order is not None:
            order.status = order.working_status
            self._send(order, report, order.status, "", 0)
            sent = True
        elif kind == FILL and order is not None:
            self._fill(order, report)
            sent = True
        elif kind == REJECTED_EVENT:
            sent = self._rejected(order, report)
        elif kind == EventKind.MASS_CANCELLED:
            sent = self._mass_cancelled(report)
        elif order is not None:
            sent = self._changed(order, report)
        if not sent:
            self._session.store.append([REPORT, self._session.store.last_report + 1])

    def _send(self, order: Order, report: Report, exec_type: str, extra: str, answered: int) -> None:
        """Sends an ExecutionReport for a report. answered: the command id of the request that it answers."""
        quoting = self.numbered[order.symbol]
        price = f"44={quoting.price(order.price_ticks)}\x01" if order.has_price else ""
        stop = f"99={order.stop}\x01" if order.stop else ""
        body = (
            f"37={order.order_id}\x0111={order.cl_ord_id}\x0117={report.sequence}\x01150={exec_type}\x0139={order.status}\x01{order.fixed}"
            f"38={quoting.qty(order.qty_lots)}\x01{price}{stop}{extra}151={quoting.qty(order.leaves_lots)}\x0114={quoting.qty(order.filled_lots)}\x01"
            f"6={quoting.average(order.notional, order.filled_lots)}\x0160={self._clock.text(report.time_ns)}\x01"
        )
        self._session.send("8", body, self._session.store.last_report + 1, [order.change(), answered])

    def _fill(self, order: Order, report: Report) -> None:
        quoting, qty_lots = self.numbered[order.symbol], report.qty_lots
        order.filled_lots += qty_lots
        order.leaves_lots -= qty_lots
        order.notional += qty_lots * report.price_ticks
        order.status = order.working_status if order.leaves_lots else FILLED
        liquidity = 1 if report.flags & _MAKER else 2
        extra = f"32={quoting.qty(qty_lots)}\x0131={quoting.price(report.price_ticks)}\x01851={liquidity}\x01"
        self._send(order, report, TRADE, extra, 0)

    def _changed(self, order: Order, report: Report) -> bool:
        """Processes any other report of an order; returns whether it was sent."""
        request = self._orders.requests.get(report.command_id)
        if report.kind == CANCELLED:
            self._cancelled(order, report, request)
        elif report.kind in (REPLACED_EVENT, REDUCED) and request is not None and request.kind == "G":
            leaves_lots = request.qty_lots - order.filled_lots
            if report.leaves_lots != leaves_lots:
                return False  # the reserve of an iceberg; its displayed part follows
            order.qty_lots, order.price_ticks, order.leaves_lots = request.qty_lots, request.price_ticks, leaves_lots
            order.stop = request.stop
            self._answer(order, report, request, REPLACED)
        elif report.kind == REDUCED and report.reason == _REDUCE_OWN:
            order.qty_lots -= report.qty_lots
            order.leaves_lots -= report.qty_lots
            self._send(order, report, RESTATED, "378=5\x0158=SELF_TRADE\x01", 0)
        elif report.kind == EventKind.TRIGGERED:
            order.waits = False
            self._send(order, report, RESTATED, "378=99\x0158=TRIGGERED\x01", 0)
        else:
            return False
        return True

    def _answer(self, order: Order, report: Report, request: Request, exec_type: str, text: str = "") -> None:
        """Sends the report that answers a cancel or replace request; from here on the request's ClOrdID is that of the order."""
        del self._orders.requests[request.command_id]
        order.cl_ord_id = request.cl_ord_id
        self._send(order, report, exec_type, f"41={request.orig_cl_ord_id}\x01{text}", request.command_id)

    def _cancelled(self, order: Order, report: Report, request: Request | None) -> None:
        order.leaves_lots = 0
        reason = report.reason
        if reason == Reason.REPLACED_BELOW_FILLED and request is not None:
            order.qty_lots, order.status = order.filled_lots, FILLED
            self._answer(order, report, request, REPLACED)
            return
        order.status = EXPIRED if reason in _EXPIRIES else CANCELED
        text = "" if reason == Reason.REQUESTED else f"58={_REASONS[reason]}\x01"
        if request is not None and request.kind == "F":
            self._answer(order, report, request, order.status, text)
        else:
            self._send(order, report, order.status, text, 0)

    def _rejected(self, order: Order | None, report: Report) -> bool:
        request = self._orders.requests.pop(report.command_id, None)
        text = _REASONS.get(report.reason, "")
        number = self._session.store.last_report + 1
        if request is not None:
            self._refused(request, order, report.reason, text, number)
        elif order is not None and report.command_id == order.order_id:
            self._order_rejected(order, report, _ORDER_REJECTS.get(Reason(report.reason), 99), text)
        else:
            return False
        return True

    def _order_rejected(self, order: Order, report: Report, reason: int, text: str) -> None:
        order.status, order.leaves_lots = REJECTED, 0
        self._send(order, report, REJECTED, f"103={reason}\x0158={text}\x01", 0)

    def _refused(self, request: Request, order: Order | None, reason: int, text: str, number: int = 0) -> None:
        """Rejects a cancel, replace or mass cancel that the exchange refused. number: that of the report."""
        fields = {"11": request.cl_ord_id, "41": request.orig_cl_ord_id, "530": request.scope}
        if request.kind == "q":
            self.refuse_mass_cancel(fields, 99, text, number, request.command_id)
            return
        too_late = reason == Reason.UNKNOWN_ORDER
        code = 0 if too_late else 99
        self.refuse_change(request.kind, fields, order, code, text, number, request.command_id)

    def _mass_cancelled(self, report: Report) -> bool:
        request = self._orders.requests.pop(report.command_id, None)
        if request is None:
            return False
        body = (
            f"37={request.command_id}\x0111={request.cl_ord_id}\x01530={request.scope}\x01531={request.scope}\x01533={report.qty_lots}\x01"
            f"60={self._clock.text(report.time_ns)}\x01"
        )
        self._session.send("r", body, self._session.store.last_report + 1, [None, request.command_id])
        return True

    # ---- answers of the gateway itself

    def refused(self, refusal: Refusal) -> None:
        """Answers commands that the exchange did not accept."""
        for command_id in refusal.command_ids:
            request = self._orders.requests.pop(command_id, None)
            order = self._orders.by_id.get(request.order_id if request else command_id)
            if request is not None:
                self._refused(request, order, 0, refusal.text)
            elif order is not None:
                order.status, order.leaves_lots = REJECTED, 0
                self._tell(order, REJECTED, f"103=0\x0158={plain(refusal.text)}\x01")

    def lost(self, text: str) -> None:
        """Ends all orders: the exchange no longer has them, because it began with another journal."""
        for order in list(self._orders.by_id.values()):
            if order.is_open:
                order.status, order.leaves_lots = CANCELED, 0
                self._tell(order, CANCELED, f"58={text}\x01")
        self._orders.requests.clear()

    def _exec_id(self) -> str:
        """ExecID (17) of a report that no event of the exchange numbers. It has the time, because MsgSeqNum begins again with ResetSeqNumFlag."""
        return f"G{self._session.store.next_out}-{time.time_ns()}"

    def _tell(self, order: Order, exec_type: str, extra: str) -> None:
        """Sends an ExecutionReport without a report from the exchange."""
        quoting = self.numbered[order.symbol]
        price = f"44={quoting.price(order.price_ticks)}\x01" if order.has_price else ""
        stop = f"99={order.stop}\x01" if order.stop else ""
        body = (
            f"37={order.order_id}\x0111={order.cl_ord_id}\x0117={self._exec_id()}\x01150={exec_type}\x0139={order.status}\x01{order.fixed}"
            f"38={quoting.qty(order.qty_lots)}\x01{price}{stop}{extra}151={quoting.qty(order.leaves_lots)}\x0114={quoting.qty(order.filled_lots)}\x01"
            f"6={quoting.average(order.notional, order.filled_lots)}\x0160={self._clock.now()}\x01"
        )
        self._session.send("8", body, 0, [order.change(), 0])

    def status(self, order: Order, fields: dict[str, str]) -> None:
        """Answers an OrderStatusRequest."""
        request = f"790={fields['790']}\x01" if "790" in fields else ""
        self._tell(order, ORDER_STATUS, request)

    def unknown_status(self, fields: dict[str, str]) -> None:
        """Answers an OrderStatusRequest for an unknown order."""
        self._unknown(fields, ORDER_STATUS, 5, f"no order has ClOrdID {fields['11']}")

    def refuse_order(self, fields: dict[str, str], reason: int, text: str) -> None:
        """Rejects a NewOrderSingle. reason: OrdRejReason (103)."""
        self._unknown(fields, REJECTED, reason, text)

    def _unknown(self, fields: dict[str, str], exec_type: str, reason: int, text: str) -> None:
        given = "".join(
            f"{tag}={fields[tag]}\x01" for tag in ("55", "1", "54", "38", "40", "44", "790") if tag in fields
        )
        body = (
            f"37=NONE\x0111={fields['11']}\x0117={self._exec_id()}\x01150={exec_type}\x0139=8\x01103={reason}\x01{given}"
            f"151=0\x0114=0\x016=0\x0160={self._clock.now()}\x0158={plain(text)}\x01"
        )
        self._session.send("8", body)

    def refuse_change(
        self, kind: str, fields: dict[str, str], order: Order | None, reason: int, text: str, number: int = 0, answered: int = 0
    ) -> None:  # fmt: skip
        """Rejects a cancel or replace request (9). reason: CxlRejReason (102)."""
        order_id, status = ("NONE", REJECTED) if order is None else (str(order.order_id), order.status)
        body = (
            f"37={order_id}\x0111={fields['11']}\x0141={fields['41']}\x0139={status}\x01434={1 if kind == 'F' else 2}\x01102={reason}\x01"
            f"60={self._clock.now()}\x0158={plain(text)}\x01"
        )
        self._session.send("9", body, number, [None, answered] if answered else None)

    def refuse_mass_cancel(
        self, fields: dict[str, str], reason: int, text: str, number: int = 0, answered: int = 0
    ) -> None:
        """Rejects an OrderMassCancelRequest (r). reason: MassCancelRejectReason (532)."""
        body = (
            f"37={answered or 'NONE'}\x0111={fields['11']}\x01530={fields['530']}\x01531=0\x01532={reason}\x01"
            f"60={self._clock.now()}\x0158={plain(text)}\x01"
        )
        self._session.send("r", body, number, [None, answered] if answered else None)
