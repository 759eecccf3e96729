"""One participant's session as a state machine: bytes in, events out; no sockets, no clock, no waiting."""

import dataclasses
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any, Literal, NamedTuple

import msgpack
import numpy as np

from serl.clients.bulk import bulk_message
from serl.clients.errors import LoginRefused, ReportGap, RequestRejected, SessionEnded, UnknownSymbol
from serl.clients.instrument import Instrument as Instrument
from serl.clients.relogin import DUPLICATE
from serl.exchange.integers import integer
from serl.exchange.records import (
    ALL_SYMBOLS,
    EVENT,
    CommandFlag,
    CommandKind,
    EventKind,
    Reason,
    Rows,
    Side,
    TimeInForce,
)
from serl.exchange.terms import NO_TERMS, Terms, check_terms, checked_time_in_force
from serl.exchange.wire import EVENT_FIELDS, VERSION, Kind, event_lists

_pack = msgpack.Packer().pack
NEW, POST_ONLY, MARKET = int(CommandKind.NEW), int(CommandFlag.POST_ONLY), int(CommandFlag.MARKET)
REASONS = {int(each): each.name for each in Reason}
NAMED: dict[str, type[IntEnum]] = {"kind": EventKind, "side": Side, "reason": Reason}
"""Fields of a report that are printed as names."""


class Report(NamedTuple):
    """One event of this participant, as on the wire.

    Attributes:
        kind: an `EventKind`, e.g. ACCEPTED, FILL, CANCELLED, REJECTED.
        command_id: the command that this event answers; 0 if none of ours caused it.
        order_id: our id of the order (the command_id of its NEW).
        order_number: the exchange's number of the order, as on the feed.
        side: 0 buy, 1 sell.
        leaves_lots: quantity of the order that is still open after this event.
        reason: a `Reason`, for REJECTED and CANCELLED.
        match_id: number of the trade, the same for both sides, for FILL.
        sequence: number of the event in the exchange, over all participants.
    """

    kind: int
    time_ns: int
    command_id: int
    order_id: int
    order_number: int
    symbol: int
    side: int
    qty_lots: int
    price_ticks: int
    leaves_lots: int
    reason: int
    flags: int
    match_id: int
    sequence: int

    def __repr__(self) -> str:
        known = {name: {int(each): each.name for each in kind} for name, kind in NAMED.items()}
        shown = (f"{name}={known.get(name, {}).get(value, value)}" for name, value in self._asdict().items())
        return f"Report({', '.join(shown)})"


class Grant(NamedTuple):
    """Lockstep: it is our turn at time_ns; the feed is complete up to event_sequence."""

    time_ns: int
    event_sequence: int


OrderState = Literal["sent", "open", "done", "rejected"]
"""sent: no report yet; open: in the book; done: filled or cancelled; rejected."""


@dataclasses.dataclass
class Order:
    """One of our orders, kept up to date by its reports.

    Attributes:
        order_id: its id in `Report.order_id`.
        symbol: the symbol's number; `Instrument.number` of `instrument(name)`.
        side: 0 buy, 1 sell.
        price_ticks: its limit price; 0 for a market order.
        qty_lots: the quantity it was sent with.
        time_in_force: how long it lives; IOC for a market order.
        filled_lots: quantity traded so far.
        open_lots: quantity that can still trade.
        fills: its FILL reports, oldest first.
        reason: why it was rejected or cancelled, the name of a `Reason`, or the code of the ERROR that refused it; "" for neither.
    """

    order_id: int
    symbol: int
    side: Side
    price_ticks: int
    qty_lots: int
    time_in_force: TimeInForce
    state: OrderState = "sent"
    filled_lots: int = 0
    open_lots: int = 0
    fills: list[Report] = dataclasses.field(default_factory=list)
    reason: str = ""


class RowsMessage(bytes):
    """A message of rows. `Session.unanswered` does not contain it unless its sender adds it."""


class Session:
    """Encodes commands and keeps orders, fills and positions from the reports. Every report counts once, even across reconnects."""

    def __init__(self, name: str, token: str = "", **options: bool) -> None:
        self.name, self.token, self.options = name, token, options
        self.live = self.operator = False
        #: number of the last report that was processed; after a reconnect the exchange resends the later ones
        self.last_report = -1
        #: `last_report` at the last login, and the report before the first one that followed it
        self._gap = (-1, -1)
        self.next_command_id = 1
        self.instruments: dict[str, Instrument] = {}
        self._numbered: dict[int, Instrument] = {}
        self.limits: dict[str, Any] = {}
        self.clock: list[Any] = ["live", 1.0, 0, 0]
        #: the integer of the last PONG; everything that the exchange sent before it has been received
        self.last_pong = 0
        #: prefix of our feed topics: our participant number if our feed has a latency
        self.topic_prefix = ""
        #: arrival time of our commands (lockstep: the time of the last grant)
        self.time_ns = 0
        #: commands without a reply, by id: resent after a reconnect
        self.unanswered: dict[int, bytes] = {}
        #: `last_report` of each HELLO of this login
        self._asked = set[int]()
        #: commands that were unanswered at a login but had been executed before it, by id: the reports that follow contain their answers
        self.replayed: dict[int, bytes] = {}
        #: ids of an order's TERM commands, by its id: the reply to the order also answers them
        self.term_ids: dict[int, list[int]] = {}
        self.orders: dict[int, Order] = {}
        self.fills: list[Report] = []
        self.positions: dict[int, int] = {}
        #: called with each new report instead of `wait` returning it; orders, fills and positions are then not kept
        self.on_report: Callable[[Report], None] | None = None
        #: called with each refusal during the session, except that of a login, instead of `receive` raising it
        self.on_refusal: Callable[[RequestRejected], None] | None = None

    def hello(self) -> bytes:
        """The login message; after a reconnect it also requests the missed reports."""
        if self.live:
            self._asked = set()
        self.live = False
        self._pass_gap()
        self._asked.add(self.last_report)
        return _pack([Kind.HELLO, VERSION, VERSION, self.name, self.token, self.last_report, self.options])

    def instrument(self, symbol: str) -> Instrument:
        """Reference data of a symbol. Raises `UnknownSymbol`."""
        if symbol not in self.instruments:
            raise UnknownSymbol(f"expected one of {', '.join(self.instruments)}, got symbol {symbol!r}")
        return self.instruments[symbol]

    def instrument_numbered(self, number: int) -> Instrument:
        """Reference data of the symbol with this number, as in orders and reports. Raises `UnknownSymbol`."""
        if number not in self._numbered:
            raise UnknownSymbol(f"expected a symbol number from 0 to {len(self.instruments) - 1}, got {number}")
        return self._numbered[number]

    def new_order(
        self, symbol: str, side: int, qty_lots: int, price_ticks: int | None, time_in_force: int, post_only: bool,
        terms: Terms = NO_TERMS,
    ) -> tuple[Order, list[bytes]]:  # fmt: skip
        """Creates a NEW order and its messages. Without a price (and without a peg) it is a market order. Raises PriceOffTick for a price
        that is not an integer, and ConfigError for a quantity or time in force that is not."""
        if has_terms := terms is not NO_TERMS:  # most orders have none: enumerating them takes longer than all the rest
            check_terms(terms)
        instrument = self.instrument(symbol)
        number, qty_lots = instrument.number, integer("qty_lots", qty_lots)
        price_ticks = None if price_ticks is None else instrument.checked_ticks(price_ticks)
        if type(time_in_force) is not TimeInForce:
            time_in_force = checked_time_in_force(time_in_force)
        market = price_ticks is None and terms.peg is None
        flags = (POST_ONLY if post_only else 0) | (MARKET if market else 0) | (int(terms.flags) if has_terms else 0)
        triggers = terms.stop_ticks, terms.trail_ticks, terms.touch_ticks, terms.waits
        waits = any(trigger is not None for trigger in triggers)
        immediate = market and not waits and not terms.to_limit
        tif = TimeInForce.IOC if immediate and time_in_force < TimeInForce.IOC else time_in_force
        term_commands = self._term_commands(terms) if has_terms else []
        values = (number, int(side), qty_lots, price_ticks or 0, int(tif), flags)
        command_id, message = self.command(NEW, *values)
        messages = self._with_terms(command_id, message, term_commands) if term_commands else [message]
        order = Order(command_id, number, Side(side), price_ticks or 0, qty_lots, TimeInForce(tif))
        self.orders[command_id] = order
        return order, messages

    def _with_terms(self, command_id: int, message: bytes, term_commands: list[tuple[int, bytes]]) -> list[bytes]:
        """The messages of a command with terms. The exchange accepts all of them or none: a resend includes the terms."""
        self.term_ids[command_id] = [term_id for term_id, _ in term_commands]
        messages = [*(term_message for _, term_message in term_commands), message]
        if command_id not in self.unanswered or len(messages) > self.limits.get("bulk_rows_max", len(messages)):
            return messages  # in process, or an exchange that does not accept such a message
        for term_id in self.term_ids[command_id]:
            del self.unanswered[term_id]
        self.unanswered[command_id] = bulk_message(messages)
        return [self.unanswered[command_id]]

    def _term_commands(self, terms: Terms) -> list[tuple[int, bytes]]:
        return [self.command(CommandKind.TERM, term, value) for term, value in terms.items()]

    def command(self, kind: int, *values: int) -> tuple[int, bytes]:
        """(command id, message) of a command; values are the fields of its kind in the order of docs/protocol.md."""
        command_id = self.next_command_id
        self.next_command_id += 1
        message: bytes = _pack([int(kind), command_id, *values, self.time_ns])
        self.unanswered[command_id] = message
        return command_id, message

    def mass_cancel(self, symbol: str | None = None) -> tuple[int, bytes]:
        """(command id, message) that cancels all our orders, in one symbol or in all."""
        return self.command(CommandKind.MASS_CANCEL, ALL_SYMBOLS if symbol is None else self.instrument(symbol).number)

    def amend(self, order: Order, kind: CommandKind, *values: int, terms: Terms = NO_TERMS) -> tuple[int, list[bytes]]:
        """(command id, messages) of a CANCEL, REDUCE (qty_lots) or REPLACE (qty_lots, price_ticks, and terms that change). From here on an
        order of an earlier session of ours is kept up to date. Raises ConfigError for values that are not integers."""
        check_terms(terms)
        checked = [integer(name, value) for name, value in zip(("qty_lots", "price_ticks"), values, strict=False)]
        self.orders.setdefault(order.order_id, order)
        if terms is NO_TERMS:
            command_id, message = self.command(kind, order.order_id, *checked)
            return command_id, [message]
        term_commands = self._term_commands(terms)
        command_id, message = self.command(kind, order.order_id, *checked, int(CommandFlag.TERMS))
        return command_id, self._with_terms(command_id, message, term_commands)

    def rows(self, rows: Rows) -> bytes:
        """Encodes COMMAND rows as one BULK message. The caller chooses their command ids, which must increase, and resends them after a login:
        the session does not keep them."""
        self.next_command_id = int(rows[-1]["command_id"]) + 1
        return RowsMessage(_pack([Kind.BULK, rows.tobytes()]))

    def receive(self, data: bytes) -> list[Any]:
        """Processes a message; returns its new reports (with the option rows: EVENT rows) or its grant. Raises an error if it is a refusal."""
        message = msgpack.unpackb(data, strict_map_key=False)
        kind = message[0]
        if kind in (Kind.REPORTS, Kind.REPORT_ROWS):
            self._pass_gap()
        if kind == Kind.REPORTS:
            return self._new_reports(message[1], [Report(*values) for values in message[2]])
        if kind == Kind.REPORT_ROWS:
            return self._new_rows(message[1], np.frombuffer(message[2], EVENT))
        if kind == Kind.DUPLICATE:
            self._mark_answered(message[1])
        elif kind == Kind.WELCOME:
            self._welcome(message)
        elif kind == Kind.GRANT:
            self.time_ns = message[1]
            return [Grant(message[1], message[2])]
        elif kind in (Kind.PONG, Kind.HEARTBEAT):
            self.clock[2] = message[-1]
            if kind == Kind.PONG:
                self.last_pong = message[1]
        elif kind == Kind.ERROR:
            self._refuse(message[1], message[2])
        elif kind == Kind.GOODBYE:
            self.live = False
            raise SessionEnded(message[1], message[2])
        return []

    def _refuse(self, code: str, text: str) -> None:
        if code == "not_logged_in":
            self.live = False  # the exchange was restarted or ended our session: the client logs in again
            return
        if code == "replay_gone":
            raise ReportGap(text)
        if not self.live:
            raise LoginRefused(code, text)
        refusal = RequestRejected(code, text)
        if self.on_refusal is None or code == DUPLICATE:
            raise refusal
        self.on_refusal(refusal)

    def set_reference_data(self, symbols: list[Any], clock: list[Any], limits: dict[str, Any]) -> None:
        """Stores what WELCOME and INFO say about the exchange."""
        self.limits, self.clock = limits, clock
        self.set_instruments([Instrument.of(*symbol) for symbol in symbols])

    def set_instruments(self, instruments: Sequence[Instrument]) -> None:
        """Sets what the exchange lists."""
        self.instruments = {instrument.name: instrument for instrument in instruments}
        self._numbered = {instrument.number: instrument for instrument in instruments}

    def _welcome(self, message: list[Any]) -> None:
        _, _, _, participant, next_report, last_command_id, symbols, clock, limits, operator = message
        self.live = True
        self.operator = operator
        self.topic_prefix = f"{participant}/" if limits.get("feed_delayed") else ""
        self.set_reference_data(symbols, clock, limits)
        if self.last_report < 0:
            self.last_report = next_report - 1
        # a repeated HELLO is answered twice, perhaps after reports have arrived: that is not a gap
        begins_after = self.last_report if next_report - 1 in self._asked else next_report - 1
        self._gap = self.last_report, begins_after
        self.next_command_id = max(self.next_command_id, last_command_id + 1)
        self.replayed = {key: value for key, value in self.unanswered.items() if key <= last_command_id}
        self.unanswered = {key: value for key, value in self.unanswered.items() if key > last_command_id}

    @property
    def has_gap(self) -> bool:
        """After a login: whether the exchange does not continue where the last session ended. It has another journal, or no longer has our reports."""
        before, begins_after = self._gap
        return before != begins_after

    def _pass_gap(self) -> None:
        """After a login to an exchange that has another journal or no longer stores what we missed: continues with the first report that it has.
        Not done earlier, so that whoever catches the `ReportGap` still sees `last_report`."""
        before, begins_after = self._gap
        self._gap = (-1, -1)
        if self.last_report == before:
            self.last_report = begins_after

    def _new_reports(self, first: int, reports: list[Report]) -> list[Report]:
        fresh = reports[max(0, self.last_report + 1 - first) :]
        self._advance(first, len(reports))
        if self.on_report is not None:
            for report in fresh:
                self._mark_answered(report.command_id)
                self.on_report(report)
            return []
        for report in fresh:
            self.apply(report)
        return fresh

    def _new_rows(self, first: int, rows: Rows) -> list[Any]:
        fresh = rows[max(0, self.last_report + 1 - first) :]
        self._advance(first, len(rows))
        if self.orders or self.unanswered or self.replayed:
            self._update_single_orders(fresh)
        return [fresh] if len(fresh) else []

    def _update_single_orders(self, rows: Rows) -> None:
        """Keeps orders that were sent one by one up to date until they are done; the caller tracks those that it sent as rows."""
        waiting = [*self.unanswered, *self.replayed]
        own = np.isin(rows["order_id"], list(self.orders)) | np.isin(rows["command_id"], waiting)
        for report in map(Report._make, event_lists(rows[own])):
            self._mark_answered(report.command_id)
            order = self.orders.get(report.order_id)
            if order is not None:
                self._update_order(order, report)
                if order.state in ("done", "rejected"):
                    del self.orders[report.order_id]

    def _advance(self, first: int, count: int) -> None:
        if first > self.last_report + 1:
            raise ReportGap(f"expected report {self.last_report + 1}, got {first}: reports were lost; connect again")
        self.last_report = max(self.last_report, first + count - 1)

    def _mark_answered(self, command_id: int) -> None:
        for answered_id in (command_id, *self.term_ids.pop(command_id, ())):
            self.unanswered.pop(answered_id, None)
            self.replayed.pop(answered_id, None)

    def is_waiting(self, command_id: int) -> bool:
        """Whether a command has no answer yet."""
        return command_id in self.unanswered or command_id in self.replayed

    def owner_of(self, command_id: int) -> int:
        """The command that a command is a term of; otherwise the command itself."""
        return next((owner for owner, ids in self.term_ids.items() if command_id in ids), command_id)

    def withdraw(self, command_id: int, code: str) -> None:
        """Forgets a command that the exchange refused with an ERROR, which may name a term of it, so that it is not sent again."""
        command_id = self.owner_of(command_id)
        self._mark_answered(command_id)
        if (order := self.orders.get(command_id)) is not None:
            order.state, order.reason = "rejected", code
            if self.options.get("rows"):
                del self.orders[command_id]

    def apply(self, report: Report) -> None:
        """Updates order, fills and position with a new report."""
        self._mark_answered(report.command_id)
        if report.kind == EventKind.FILL:
            self._count_fill(report)
        if (order := self.orders.get(report.order_id)) is not None:
            self._update_order(order, report)

    def _count_fill(self, fill: Report) -> None:
        self.fills.append(fill)
        signed = fill.qty_lots if fill.side == Side.BUY else -fill.qty_lots
        self.positions[fill.symbol] = self.positions.get(fill.symbol, 0) + signed

    @staticmethod
    def _update_order(order: Order, report: Report) -> None:
        if report.kind == EventKind.FILL:
            order.fills.append(report)
            order.filled_lots += report.qty_lots
        if report.kind == EventKind.REJECTED:
            if report.command_id == order.order_id:
                order.state, order.reason = "rejected", REASONS.get(report.reason, str(report.reason))
            return
        if report.kind == EventKind.CANCELLED:
            order.reason = REASONS.get(report.reason, str(report.reason))
        if report.kind == EventKind.RESTED:
            order.price_ticks = report.price_ticks
        order.open_lots = report.leaves_lots
        order.state = "open" if report.leaves_lots else "done"

    def open_orders(self) -> list[Order]:
        """Our orders that can still trade."""
        return [order for order in self.orders.values() if order.state in ("sent", "open")]


assert Report._fields == EVENT_FIELDS, "Report must have the fields of the wire, in their order"
