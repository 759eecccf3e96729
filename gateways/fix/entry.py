"""Order entry: NewOrderSingle, OrderCancelRequest, OrderCancelReplaceRequest, OrderMassCancelRequest and OrderStatusRequest become commands."""

from collections.abc import Callable
from typing import Any

from serl.exchange.errors import ConfigError, SerlError
from serl.exchange.records import ALL_SYMBOLS, CommandFlag, CommandKind, Peg, Rows, TimeInForce
from serl.exchange.terms import Terms, order, replacement
from serl.gateways.fix.codec import Message, number, parse_timestamp
from serl.gateways.fix.fields import DISPLAY_QTY
from serl.gateways.fix.instruments import Quoting
from serl.gateways.fix.orders import Order, Orders, Request
from serl.gateways.fix.reports import Reports
from serl.gateways.fix.session import FixSession
from serl.gateways.fix.store import INBOUND
from serl.gateways.fix.venue import ReportSession

SIDES = {"1": 0, "2": 1}
TIMES_IN_FORCE = {
    "0": TimeInForce.DAY, "1": TimeInForce.GTC, "2": TimeInForce.AT_OPEN, "3": TimeInForce.IOC, "4": TimeInForce.FOK,
    "6": TimeInForce.GTT, "7": TimeInForce.AT_CLOSE,
}  # fmt: skip
MARKET, LIMIT, STOP, STOP_LIMIT, PEGGED = "1", "2", "3", "4", "P"
UNKNOWN_SYMBOL, UNKNOWN_ORDER, DUPLICATE, UNSUPPORTED, BAD_QTY, OTHER = 1, 5, 6, 11, 13, 99
"""OrdRejReason (103)."""
CANCEL_UNKNOWN, CANCEL_DUPLICATE, CANCEL_OTHER = 1, 6, 99
"""CxlRejReason (102)."""
_EXEC_INST = {"6": CommandFlag.POST_ONLY, "G": CommandFlag.ALL_OR_NONE, "E": CommandFlag.REDUCE_ONLY}
_EXEC_INST_IGNORED = frozenset("125")  # not held, work, held
_PEGS = {"R": Peg.PRIMARY, "M": Peg.MID}
_SPECIAL_TAGS = frozenset(["18", "99", "110", "111", "126", "211", DISPLAY_QTY])
_NEW, _CANCEL, _REPLACE, _MASS_CANCEL = map(int, (CommandKind.NEW, CommandKind.CANCEL, CommandKind.REPLACE, CommandKind.MASS_CANCEL))  # fmt: skip
_MARKET_FLAG = int(CommandFlag.MARKET)


class _Refused(SerlError):
    """An order that the gateway does not forward. reason: OrdRejReason (103)."""

    def __init__(self, reason: int, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class _Missing(SerlError):
    """A conditionally required field is missing."""


class OrderEntry:
    """Enters the orders of one session. Commands wait in `commands` until they are in the store."""

    def __init__(self, session: FixSession, venue: ReportSession, orders: Orders, reports: Reports) -> None:
        self._session, self._venue, self._orders, self._reports = session, venue, orders, reports
        self._quotings = reports.quotings
        #: (command id, COMMAND rows)
        self.commands: list[tuple[int, bytes]] = []
        self.receivers: dict[str, Callable[[Message], None]] = {
            "D": self._new, "F": self._cancel, "G": self._replace, "H": self._status, "q": self._mass_cancel,
        }  # fmt: skip

    # ---- new orders

    def _new(self, message: Message) -> None:
        fields = message.fields
        if fields["11"] in self._orders.named:
            if fields.get("97") != "Y":
                self._reports.refuse_order(fields, DUPLICATE, f"ClOrdID {fields['11']} was used before")
            return
        try:
            self._send_new(message, fields)
        except _Refused as refused:
            self._reports.refuse_order(fields, refused.reason, str(refused))
        except _Missing as missing:
            self._session.business_reject(message, 5, str(missing), fields["11"])

    def _send_new(self, message: Message, fields: dict[str, str]) -> None:
        quoting = self._quotings.get(fields["55"])
        if quoting is None:
            raise _Refused(UNKNOWN_SYMBOL, f"expected one of {', '.join(self._quotings)[:120]}, got {fields['55']}")
        kind, time_in_force = fields["40"], fields.get("59", "0")
        side, validity = SIDES.get(fields["54"], -1), TIMES_IN_FORCE.get(time_in_force, -1)
        if side < 0 or validity < 0:
            tag = "54" if side < 0 else "59"
            raise _Refused(UNSUPPORTED, f"tag {tag}: {fields[tag]} is not supported")
        qty_lots = self._lots(quoting, fields, "38")
        price_ticks = 0
        if kind in (LIMIT, STOP_LIMIT) or (kind == PEGGED and "44" in fields):
            price_ticks = self._ticks(quoting, fields, "44")
        elif kind not in (MARKET, STOP, PEGGED):
            raise _Refused(UNSUPPORTED, f"tag 40: {kind} is not supported")
        flags = _MARKET_FLAG if kind in (MARKET, STOP) else 0
        values = (quoting.number, side, qty_lots, price_ticks, validity, flags)
        if kind in (LIMIT, MARKET) and _SPECIAL_TAGS.isdisjoint(fields) and validity != TimeInForce.GTT:
            order_id, rows = self._venue.row(_NEW, *values)
        else:
            order_id, rows = self._with_terms(quoting, fields, values)
        account = f"1={fields['1']}\x01" if "1" in fields else ""
        fixed = f"55={quoting.name}\x01{account}54={fields['54']}\x0140={kind}\x0159={time_in_force}\x01"
        stop = fields["99"] if kind in (STOP, STOP_LIMIT) else ""
        new = Order(order_id, fields["11"], quoting.number, side, qty_lots, price_ticks, price_ticks > 0, fixed, stop)
        self._commit(message, self._orders.add(new), order_id, rows)

    def _commit(self, message: Message, change: list[Any], command_id: int, rows: bytes) -> None:
        self._session.store.append([INBOUND, message.seq, change, command_id, rows])
        self.commands.append((command_id, rows))

    def _with_terms(self, quoting: Quoting, fields: dict[str, str], values: tuple[int, ...]) -> tuple[int, bytes]:
        """(command id, rows) of an order with terms."""
        symbol, side, qty_lots, price_ticks, validity, flags = values
        terms, more_flags = self._terms(quoting, fields)
        return self._rows_with_terms(
            order, terms, symbol=symbol, side=side, qty_lots=qty_lots, price_ticks=price_ticks, time_in_force=int(validity),
            flags=flags | more_flags,
        )  # fmt: skip

    def _rows_with_terms(self, make: Callable[..., Rows], terms: Terms, **fields: int) -> tuple[int, bytes]:
        """(command id, rows) of an order or a replacement. Refuses a value beyond 64 bits, like an ExpireTime in the year 9999."""
        try:
            rows = make(self._venue.next_command_id, terms, **fields)
        except ConfigError as error:
            raise _Refused(OTHER, str(error)) from None
        return self._venue.order_rows(rows)

    def _terms(self, quoting: Quoting, fields: dict[str, str]) -> tuple[Terms, int]:
        kind, flags, peg = fields["40"], 0, Peg.NONE
        for instruction in fields.get("18", "").split():
            if instruction in _PEGS and kind == PEGGED:
                peg = _PEGS[instruction]
            elif instruction in _EXEC_INST:
                flags |= int(_EXEC_INST[instruction])
            elif instruction not in _EXEC_INST_IGNORED:
                raise _Refused(UNSUPPORTED, f"tag 18: {instruction} is not supported with OrdType {kind}")
        if kind == PEGGED and peg == Peg.NONE:
            raise _Missing("expected ExecInst (18) R (primary) or M (mid) with OrdType P, got neither")
        display_tag = "111" if "111" in fields else DISPLAY_QTY
        display_lots = self._lots(quoting, fields, display_tag, zero=True) if display_tag in fields else None
        if display_lots == 0:
            flags |= int(CommandFlag.HIDDEN)
        terms = Terms(
            display_lots=display_lots or None,
            min_lots=(self._lots(quoting, fields, "110", zero=True) or None) if "110" in fields else None,
            stop_ticks=self._ticks(quoting, fields, "99") if kind in (STOP, STOP_LIMIT) else None,
            peg=peg or None,
            offset_ticks=self._offset(quoting, fields) if kind == PEGGED and "211" in fields else None,
            expire_ns=self._expiry(fields),
        )
        return terms, flags

    @staticmethod
    def _expiry(fields: dict[str, str]) -> int | None:
        if fields.get("59") != "6":
            return None
        if "126" not in fields:
            raise _Missing("expected ExpireTime (126) with TimeInForce 6, got none")
        return max(parse_timestamp(fields["126"]), 1)

    @staticmethod
    def _offset(quoting: Quoting, fields: dict[str, str]) -> int:
        """PegOffsetValue in ticks away from the market: below for a buy, above for a sell."""
        text = fields["211"]
        away = text.startswith("-") == (fields["54"] == "1")
        ticks = quoting.ticks(text.removeprefix("-"))
        if ticks < 0 or (ticks and not away):
            raise _Refused(UNSUPPORTED, f"tag 211: expected whole ticks away from the market, got {text}")
        return ticks

    def _lots(self, quoting: Quoting, fields: dict[str, str], tag: str, zero: bool = False) -> int:
        text = fields.get(tag)
        if text is None:
            raise _Missing(f"expected a quantity ({tag}), got none")
        qty_lots = quoting.lots(text)
        if not (0 if zero else 1) <= qty_lots <= self._venue.limits["qty_lots_max"]:
            most = quoting.qty(self._venue.limits["qty_lots_max"])
            raise _Refused(BAD_QTY, f"tag {tag}: expected multiples of {quoting.lot_size:f} up to {most}, got {text}")
        return qty_lots

    def _ticks(self, quoting: Quoting, fields: dict[str, str], tag: str) -> int:
        text = fields.get(tag)
        if text is None:
            raise _Missing(f"expected a price ({tag}), got none")
        price_ticks = quoting.ticks(text)
        if not 1 <= price_ticks <= self._venue.limits["price_ticks_max"]:
            most = quoting.price(self._venue.limits["price_ticks_max"])
            raise _Refused(OTHER, f"tag {tag}: expected multiples of {quoting.tick_size:f} up to {most}, got {text}")
        return price_ticks

    # ---- changes of orders

    def _known_order(self, message: Message) -> Order | None:
        """The order that a cancel or replace request names; refuses the request if there is none or its ClOrdID is not new."""
        fields = message.fields
        found = self._orders.find(fields["41"])
        if fields["11"] in self._orders.named:
            if fields.get("97") != "Y":
                text = f"ClOrdID {fields['11']} was used before"
                self._reports.refuse_change(message.type, fields, found, CANCEL_DUPLICATE, text)
            return None
        if found is None:
            text = f"expected OrigClOrdID (41) of an order, got {fields['41']}"
            self._reports.refuse_change(message.type, fields, None, CANCEL_UNKNOWN, text)
            return None
        quoting = self._reports.numbered[found.symbol]
        if (fields["55"], SIDES.get(fields["54"])) != (quoting.name, found.side):
            text = (
                f"expected Symbol {quoting.name} and the Side of {fields['41']}, got {fields['55']} and {fields['54']}"
            )
            self._reports.refuse_change(message.type, fields, found, CANCEL_OTHER, text)
            return None
        return found

    def _cancel(self, message: Message) -> None:
        if (found := self._known_order(message)) is None:
            return
        command_id, rows = self._venue.row(_CANCEL, order_id=found.order_id)
        request = Request(command_id, "F", message.fields["11"], message.fields["41"], found.order_id)
        self._commit(message, self._orders.ask(request), command_id, rows)

    def _replace(self, message: Message) -> None:
        if (found := self._known_order(message)) is None:
            return
        fields, quoting = message.fields, self._reports.numbered[found.symbol]
        try:
            qty_lots = self._lots(quoting, fields, "38")
            price_ticks = self._ticks(quoting, fields, "44") if found.has_price or "44" in fields else 0
            if f"\x0140={fields['40']}\x01" not in found.fixed:
                raise _Refused(OTHER, f"tag 40: the OrdType of {fields['41']} cannot change")
            stop, terms = self._new_terms(quoting, fields, found)
            command_id, rows = self._replacement(found, qty_lots, price_ticks, terms)
        except _Missing as missing:
            self._session.business_reject(message, 5, str(missing), fields["11"])
            return
        except _Refused as refused:
            self._reports.refuse_change("G", fields, found, CANCEL_OTHER, str(refused))
            return
        request = Request(command_id, "G", fields["11"], fields["41"], found.order_id, qty_lots, price_ticks, stop=stop)
        self._commit(message, self._orders.ask(request), command_id, rows)

    def _new_terms(self, quoting: Quoting, fields: dict[str, str], found: Order) -> tuple[str, Terms]:
        """StopPx of the order after a replacement, and the terms that change: the stop of a waiting order, and the expiry."""
        stop = fields.get("99", found.stop) if found.waits else found.stop
        stop_ticks = self._ticks(quoting, {"99": stop}, "99") if found.waits else None
        return stop, Terms(stop_ticks=stop_ticks, expire_ns=self._expiry(fields) if "126" in fields else None)

    def _replacement(self, found: Order, qty_lots: int, price_ticks: int, terms: Terms) -> tuple[int, bytes]:
        """(command id, rows) of a REPLACE."""
        if not terms.items():
            return self._venue.row(_REPLACE, order_id=found.order_id, qty_lots=qty_lots, price_ticks=price_ticks)
        return self._rows_with_terms(
            replacement, terms, order_id=found.order_id, qty_lots=qty_lots, price_ticks=price_ticks
        )

    def _mass_cancel(self, message: Message) -> None:
        fields, scope = message.fields, message.fields["530"]
        quoting = self._quotings.get(fields.get("55", ""))
        side = {"1": 1, "2": 2}.get(fields.get("54", ""), 0)
        if fields["11"] in self._orders.named:
            self._reports.refuse_mass_cancel(fields, OTHER, f"ClOrdID {fields['11']} was used before")
        elif scope not in ("1", "7"):
            self._reports.refuse_mass_cancel(fields, 0, f"tag 530: expected 1 or 7, got {scope}")
        elif scope == "1" and quoting is None:
            self._reports.refuse_mass_cancel(fields, 1, f"expected a Symbol (55), got {fields.get('55', 'none')}")
        elif "54" in fields and not side:
            self._reports.refuse_mass_cancel(fields, OTHER, f"tag 54: {fields['54']} is not supported")
        else:
            symbol = quoting.number if quoting is not None and scope == "1" else ALL_SYMBOLS
            command_id, rows = self._venue.row(_MASS_CANCEL, symbol, flags=side)
            request = Request(command_id, "q", fields["11"], "", 0, scope=scope)
            self._commit(message, self._orders.ask(request), command_id, rows)

    def _status(self, message: Message) -> None:
        fields = message.fields
        found = self._orders.find(fields["11"])
        if found is None:
            found = self._orders.by_id.get(number(fields.get("37", "")))
        if found is None:
            self._reports.unknown_status(fields)
        else:
            self._reports.status(found, fields)
