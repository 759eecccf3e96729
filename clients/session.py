"""One participant's session as a state machine: bytes in, what happened out; no sockets, no clock, no waiting."""

import dataclasses
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

import msgpack
import numpy as np

from serl.clients.errors import LoginRefused, PriceOffTick, Refused, ReportGap, SessionEnded, UnknownSymbol
from serl.exchange.records import ALL_SYMBOLS, EVENT, CommandFlag, CommandKind, EventKind, Rows, TimeInForce
from serl.exchange.terms import NO_TERMS, Terms
from serl.exchange.wire import EVENT_FIELDS, VERSION, Kind

_pack = msgpack.Packer().pack


@dataclasses.dataclass(frozen=True)
class Instrument:
    """Reference data of a symbol: its number on the wire and its grid."""

    number: int
    name: str
    tick_size: Decimal
    lot_size: Decimal

    def ticks(self, price: Decimal | str | float) -> int:
        """A price in ticks; PriceOffTick if it is not on the grid. A float counts as its shortest decimal form."""
        try:
            exact = Decimal(str(price)) / self.tick_size
        except InvalidOperation:
            raise PriceOffTick(f"{self.name}: a price is due, got {price!r}") from None
        if exact != exact.to_integral_value():
            below = int(exact // 1)
            raise PriceOffTick(
                f"{self.name}: prices are multiples of {self.tick_size}; {price} is not, the nearest are "
                f"{self.price(below)} and {self.price(below + 1)}"
            )
        return int(exact)

    def price(self, price_ticks: int) -> Decimal:
        """Ticks as a price."""
        return price_ticks * self.tick_size


class Report(NamedTuple):
    """One event of this participant, as on the wire."""

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


class Grant(NamedTuple):
    """Lockstep: it is this participant's turn at time_ns; the feed is complete up to event_sequence."""

    time_ns: int
    event_sequence: int


@dataclasses.dataclass
class Order:
    """An order of ours, as far as reports tell. `state` is sent, open, done or rejected."""

    order_id: int
    symbol: int
    side: int
    price_ticks: int
    qty_lots: int
    state: str = "sent"
    filled_lots: int = 0
    open_lots: int = 0
    fills: list[Report] = dataclasses.field(default_factory=list)


class Session:
    """Builds what is sent, follows what comes back. Every report counts once, also over reconnects."""

    def __init__(self, name: str, token: str = "", **options: bool) -> None:
        self.name = name
        self.token = token
        self.options = options
        self.live = False
        #: the last report that was taken; what HELLO asks to be sent from
        self.last_report = -1
        self.next_command_id = 1
        self.instruments: dict[str, Instrument] = {}
        self.limits: dict[str, Any] = {}
        self.clock: list[Any] = ["live", 1.0, 0, 0]
        self.operator = False
        #: what our topics of the feed begin with: our number where the feed takes its time to us
        self.topic_prefix = ""
        #: arrival time that orders carry (lockstep: the last grant)
        self.time_ns = 0
        #: commands without an answer, by id: sent again after a reconnect
        self.unanswered: dict[int, bytes] = {}
        #: commands that have no answer but that of their order, by its id
        self.terms_of: dict[int, list[int]] = {}
        self.orders: dict[int, Order] = {}
        self.fills: list[Report] = []
        self.positions: dict[int, int] = {}

    def hello(self) -> bytes:
        """The login; also after a reconnect, when it asks for the reports that were missed."""
        self.live = False
        return _pack([Kind.HELLO, VERSION, VERSION, self.name, self.token, self.last_report, self.options])

    def instrument(self, symbol: str) -> Instrument:
        """Reference data of a symbol; UnknownSymbol names those there are."""
        if symbol not in self.instruments:
            raise UnknownSymbol(f"no symbol {symbol!r} here; there are {', '.join(self.instruments)}")
        return self.instruments[symbol]

    def new(
        self, symbol: str, side: int, qty_lots: int, price_ticks: int | None, time_in_force: int, post_only: bool,
        terms: Terms = NO_TERMS,
    ) -> tuple[Order, list[bytes]]:  # fmt: skip
        """A NEW order and the messages that send it, its terms first; without a price (and a peg) a market order."""
        number = self.instrument(symbol).number
        market = price_ticks is None and terms.peg is None
        flags = (CommandFlag.POST_ONLY if post_only else 0) | (CommandFlag.MARKET if market else 0) | terms.flags
        plain = market and terms.stop_ticks is None and terms.trail_ticks is None
        tif = TimeInForce.IOC if plain and time_in_force < TimeInForce.IOC else time_in_force
        said = [self.command(CommandKind.TERM, term, value) for term, value in terms.items()]
        values = (number, int(side), qty_lots, price_ticks or 0, int(tif), int(flags))
        command_id, message = self.command(CommandKind.NEW, *values)
        self.terms_of[command_id] = [term_id for term_id, _ in said]
        order = Order(command_id, number, int(side), price_ticks or 0, qty_lots)
        self.orders[command_id] = order
        return order, [*(text for _, text in said), message]

    def command(self, kind: int, *values: int) -> tuple[int, bytes]:
        """A command of any kind with its own fields in the protocol's order: (command id, message)."""
        command_id = self.next_command_id
        self.next_command_id += 1
        message: bytes = _pack([int(kind), command_id, *values, self.time_ns])
        self.unanswered[command_id] = message
        return command_id, message

    def mass_cancel(self, symbol: str | None = None) -> tuple[int, bytes]:
        """Cancels every order of ours, in one symbol or in all."""
        return self.command(CommandKind.MASS_CANCEL, ALL_SYMBOLS if symbol is None else self.instrument(symbol).number)

    def rows(self, rows: Rows) -> bytes:
        """COMMAND rows as one bulk message; their ids are the caller's and must grow."""
        self.next_command_id = int(rows[-1]["command_id"]) + 1
        return bytes(_pack([Kind.BULK, rows.tobytes()]))

    def receive(self, data: bytes) -> list[Any]:
        """What a message says: Reports, EVENT rows (option rows), Grants. Raises on refusals and on the session's end."""
        message = msgpack.unpackb(data, strict_map_key=False)
        kind = message[0]
        if kind == Kind.REPORTS:
            return self._take(message[1], [Report(*values) for values in message[2]])
        if kind == Kind.REPORT_ROWS:
            return self._take_rows(message[1], np.frombuffer(message[2], EVENT))
        if kind == Kind.DUPLICATE:
            self._answered(message[1])
        elif kind == Kind.WELCOME:
            self._welcome(message)
        elif kind == Kind.GRANT:
            self.time_ns = message[1]
            return [Grant(message[1], message[2])]
        elif kind in (Kind.PONG, Kind.HEARTBEAT):
            self.clock[2] = message[-1]
        elif kind == Kind.ERROR:
            self._refused(message[1], message[2])
        elif kind == Kind.GOODBYE:
            self.live = False
            raise SessionEnded(message[1], message[2])
        return []

    def _refused(self, code: str, text: str) -> None:
        if code == "not_logged_in":
            self.live = False  # the exchange restarted, or dropped us: the shell says HELLO again
            return
        if code == "replay_gone":
            raise ReportGap(text)
        if not self.live:
            raise LoginRefused(code, text)
        raise Refused(code, text)

    def _welcome(self, message: list[Any]) -> None:
        _, _, _, participant, next_report, last_command_id, symbols, clock, limits, operator = message
        self.live = True
        self.limits, self.clock, self.operator = limits, clock, operator
        self.topic_prefix = f"{participant}/" if limits.get("feed_delayed") else ""
        self.instruments = {
            name: Instrument(number, name, Decimal(tick), Decimal(lot)) for number, name, tick, lot in symbols
        }
        if self.last_report < 0:
            self.last_report = next_report - 1
        self.next_command_id = max(self.next_command_id, last_command_id + 1)
        self.unanswered = {key: value for key, value in self.unanswered.items() if key > last_command_id}

    def _take(self, first: int, reports: list[Report]) -> list[Report]:
        fresh = reports[max(0, self.last_report + 1 - first) :]
        self._count(first, len(reports))
        for report in fresh:
            self._follow(report)
        return fresh

    def _take_rows(self, first: int, rows: Rows) -> list[Any]:
        fresh = rows[max(0, self.last_report + 1 - first) :]
        self._count(first, len(rows))
        return [fresh] if len(fresh) else []

    def _count(self, first: int, count: int) -> None:
        if first > self.last_report + 1:
            raise ReportGap(f"report {self.last_report + 1} is due, got {first}: reports were lost")
        self.last_report = max(self.last_report, first + count - 1)

    def _answered(self, command_id: int) -> None:
        for each in (command_id, *self.terms_of.pop(command_id, ())):
            self.unanswered.pop(each, None)

    def _follow(self, report: Report) -> None:
        self._answered(report.command_id)
        order = self.orders.get(report.order_id)
        if report.kind == EventKind.FILL:
            self.fills.append(report)
            signed = report.qty_lots if report.side == 0 else -report.qty_lots
            self.positions[report.symbol] = self.positions.get(report.symbol, 0) + signed
        if order is None:
            return
        if report.kind == EventKind.FILL:
            order.fills.append(report)
            order.filled_lots += report.qty_lots
        if report.kind == EventKind.REJECTED:
            if report.command_id == order.order_id:
                order.state = "rejected"
            return
        if report.kind == EventKind.RESTED:
            order.price_ticks = report.price_ticks
        order.open_lots = report.leaves_lots
        order.state = "open" if report.leaves_lots else "done"

    def open_orders(self) -> Iterable[Order]:
        """Our orders that can still trade."""
        return [order for order in self.orders.values() if order.state in ("sent", "open")]


assert Report._fields == EVENT_FIELDS, "Report must have the fields of the wire, in their order"
