"""The orders of all participants, as reported by a drop copy: built from events alone, because only the participants know their ClOrdIDs."""

from collections.abc import Iterable
from typing import Any

from serl.clients.session import Instrument, Report
from serl.exchange.records import EventFlag, EventKind, Reason
from serl.gateways.fix.codec import UtcClock, plain
from serl.gateways.fix.instruments import Quoting
from serl.gateways.fix.orders import CANCELED, EXPIRED, FILLED, NEW, PARTIALLY_FILLED, REJECTED

_REASONS = {int(reason): reason.name for reason in Reason}
_EXPIRIES = (Reason.DAY_END, Reason.EXPIRED)
_QTY, _PRICE, _FILLED, _NOTIONAL, _LEAVES = range(5)


class CopiedOrders:
    """Keeps [qty_lots, price_ticks, filled_lots, notional, leaves_lots] by participant and order, for open orders. A price of 0: a market order,
    or a replaced one that does not rest yet, because no event before that has its new price."""

    def __init__(self) -> None:
        self._orders: dict[tuple[str, int], list[int]] = {}
        self._quotings: dict[int, Quoting] = {}
        self._clock = UtcClock()

    def set_instruments(self, instruments: Iterable[Instrument]) -> None:
        """Sets the symbols of the exchange."""
        self._quotings = {instrument.number: Quoting(instrument) for instrument in instruments}

    def restore(self, change: list[Any] | None) -> None:
        """Repeats the change of an event: [participant, order_id, values or None]."""
        if change is None:
            return
        name, order_id, values = change
        if values is None:
            self._orders.pop((name, order_id), None)
        else:
            self._orders[name, order_id] = values

    def state(self) -> list[Any]:
        """The whole state, for msgpack."""
        return [[name, order_id, values] for (name, order_id), values in self._orders.items()]

    def load(self, state: list[Any] | None) -> None:
        """Replaces everything with a state."""
        self._orders = {}
        for change in state or []:
            self.restore(change)

    def body_of(self, name: str, report: Report) -> tuple[str, list[Any]] | None:
        """(fields of an ExecutionReport, change for the store) of an event; None if it changes no order."""
        key = name, report.order_id
        if report.kind == EventKind.REJECTED and report.command_id == report.order_id:
            rejected = [report.qty_lots, report.price_ticks, 0, 0, 0]
            return self._body(name, report, rejected, REJECTED, REJECTED, f"103=99\x0158={_REASONS[report.reason]}\x01"), [*key, None]  # fmt: skip
        if report.kind == EventKind.ACCEPTED:
            self._orders[key] = [report.qty_lots, report.price_ticks, 0, 0, report.leaves_lots]
            self._orders[key][_QTY] = report.leaves_lots
        order = self._orders.get(key)
        if order is None:
            return None
        told = self._change(order, report)
        if told is None:
            return None
        exec_type, status, extra = told
        body = self._body(name, report, order, exec_type, status, extra)
        if order[_LEAVES]:
            return body, [*key, list(order)]
        del self._orders[key]
        return body, [*key, None]

    def _change(self, order: list[int], report: Report) -> tuple[str, str, str] | None:
        """Changes an order by a report; returns (ExecType, OrdStatus, fields), None if nothing changes."""
        kind = report.kind
        if kind == EventKind.ACCEPTED:
            return NEW, NEW, ""
        if kind == EventKind.FILL:
            order[_FILLED] += report.qty_lots
            order[_NOTIONAL] += report.qty_lots * report.price_ticks
            order[_LEAVES] -= report.qty_lots
            quoting = self._quotings[report.symbol]
            liquidity = 1 if report.flags & EventFlag.MAKER else 2
            trade = (
                f"32={quoting.qty(report.qty_lots)}\x0131={quoting.price(report.price_ticks)}\x01851={liquidity}\x01"
            )
            return "F", self._working(order), trade
        if kind == EventKind.CANCELLED:
            order[_LEAVES] = 0
            status = EXPIRED if report.reason in _EXPIRIES else CANCELED
            return status, status, f"58={_REASONS[report.reason]}\x01"
        if kind == EventKind.RESTED and report.price_ticks != order[_PRICE]:
            order[_PRICE] = report.price_ticks
            return "5", self._working(order), ""
        if kind == EventKind.REPLACED:
            order[_PRICE] = 0
        if kind == EventKind.REPLACED or (kind == EventKind.REDUCED and report.qty_lots):
            if report.leaves_lots == order[_LEAVES]:
                return None
            order[_LEAVES] = report.leaves_lots
            order[_QTY] = order[_FILLED] + report.leaves_lots
            return "5", self._working(order), ""
        return None

    @staticmethod
    def _working(order: list[int]) -> str:
        if not order[_LEAVES]:
            return FILLED
        return PARTIALLY_FILLED if order[_FILLED] else NEW

    def _body(self, name: str, report: Report, order: list[int], exec_type: str, status: str, extra: str) -> str:
        quoting = self._quotings[report.symbol]
        price = f"44={quoting.price(order[_PRICE])}\x01" if order[_PRICE] else ""
        return (
            f"37={report.order_id}\x0117={report.sequence}\x01150={exec_type}\x0139={status}\x011={plain(name)}\x0155={quoting.name}\x01"
            f"54={report.side + 1}\x0138={quoting.qty(order[_QTY])}\x01{price}{extra}151={quoting.qty(order[_LEAVES])}\x01"
            f"14={quoting.qty(order[_FILLED])}\x016={quoting.average(order[_NOTIONAL], order[_FILLED])}\x01"
            f"60={self._clock.text(report.time_ns)}\x01"
        )
