"""How commands enter a market: one at a time by name, or as rows."""

import struct
from typing import Any, NoReturn

import numpy as np

from serl.exchange import growth
from serl.exchange.decode import Event, decode
from serl.exchange.errors import ConfigError
from serl.exchange.integers import Integer, Symbol, integer
from serl.exchange.kernel.entry import (
    COMMANDS,
    COUNT,
    EVENTS,
    EVENTS_FULL,
    EVENTS_SIZE,
    GROW,
    HANDLE,
    NO_PARTICIPANT,
    RESUMED,
    ROW,
    SPILLED,
    STATUS,
    STOP,
    TIME_NS,
    TRADES,
    TRADES_COUNT,
    TRADES_SIZE,
    run,
)
from serl.exchange.kernel.state import State
from serl.exchange.limits import MarketLimits
from serl.exchange.reasons import rejected
from serl.exchange.records import (
    ALL_SYMBOLS,
    COMMAND,
    EVENT,
    TRADE,
    CommandFlag,
    CommandKind,
    EventKind,
    Reason,
    Rows,
    Side,
    TimeInForce,
    command,
)
from serl.exchange.terms import NO_TERMS, Terms, check_terms, checked_time_in_force, order, replacement

EVENT_ROWS = 4096
TRADES_KEPT = 4096

BUY, SELL = int(Side.BUY), int(Side.SELL)
NEW, CANCEL, REDUCE, REPLACE = (int(kind) for kind in list(CommandKind)[:4])
MARKET, POST_ONLY = int(CommandFlag.MARKET), int(CommandFlag.POST_ONLY)
MASS_CANCELLED = int(EventKind.MASS_CANCELLED)
GTC = TimeInForce.GTC
KINDS = {int(kind): kind.name for kind in CommandKind}
UNKNOWN_ORDER = -int(Reason.UNKNOWN_ORDER)
NEXT_ID, CURRENT_TIME = 0, -1
"""Values that the compiled code replaces: by the next command id, and the time of the last command."""

ROWS = struct.Struct("@q8xqqqqHHBBBB")
pack, unpack = ROWS.pack_into, ROWS.unpack_from
"""A COMMAND row: time_ns, command_id, order_id, price_ticks, qty_lots, symbol, participant, kind, side, time_in_force, flags.
Values other than integers that fit raise struct.error."""

BYTES = np.dtype((np.void, EVENT.itemsize))
"""An EVENT row in one piece: numpy copies structured rows field by field."""


class Entry:
    """Sends commands to a market, one per call; not thread-safe.

    `symbol` is a name or a number, by default the first symbol. By default `command_id` follows the participant's last one; it is also the id of the order that
    the command creates. By default `time_ns` is that of the last command.

    Pass everything beyond quantity and price by keyword; positional arguments are accepted because such calls are faster.

    Raises Rejected if the book does not accept the command: `reason` names the Reason, and `events` has the REJECTED event. Raises ConfigError if
    an argument is not a 64-bit integer, or there is no such symbol or participant; in that case nothing was sent.
    """

    def __init__(self, names: list[str], limits: MarketLimits, state: State, room_slots: int = 0) -> None:
        self.names, self.limits, self.room = names, limits, growth.Room(room_slots)
        self._numbers = {name: number for number, name in enumerate(names)}
        self._events, self._trades = np.zeros(EVENT_ROWS, EVENT), np.zeros(TRADES_KEPT, TRADE)
        self._spilled: list[Any] = []
        self._bytes = self._events.view(BYTES)
        self._block = bytearray(ROW + COMMAND.itemsize)
        self._entry = memoryview(self._block).cast("q")
        self._address = int(np.frombuffer(self._block, np.uint8).ctypes.data)  # the memoryview keeps it there
        entry = self._entry
        entry[COMMANDS], entry[STOP] = self._address + ROW, 1
        entry[EVENTS], entry[EVENTS_SIZE] = self._events.ctypes.data, EVENT_ROWS
        entry[TRADES], entry[TRADES_SIZE] = self._trades.ctypes.data, TRADES_KEPT
        self.state = state

    @property
    def state(self) -> State:
        """The arrays that make up the market."""
        return self._state

    @state.setter
    def state(self, state: State) -> None:
        self._state = growth.rebound(state)
        self._entry[HANDLE] = self._state.handle.ctypes.data

    def __getstate__(self) -> Any:
        """The state for copies and pickles: without addresses, events and trades."""
        return (self.names, self.limits, self.state), self._entry[TIME_NS]

    def __setstate__(self, state: Any) -> None:
        made_of, time_ns = state
        Entry.__init__(self, *made_of)
        self._entry[TIME_NS] = time_ns

    def buy(
        self, qty_lots: Integer, price_ticks: Integer | None = None, symbol: Symbol = 0, participant: Integer = 0,
        time_in_force: TimeInForce = GTC, post_only: bool = False, terms: Terms = NO_TERMS, command_id: Integer | None = None,
        time_ns: Integer | None = None,
    ) -> int:  # fmt: skip
        """Sends a buy order; without a price (and without a peg) it is a market order. Returns its order_id. `terms`: see docs/orders.md."""
        return self._new(
            BUY, qty_lots, price_ticks, symbol, participant, time_in_force, post_only, terms, command_id, time_ns
        )

    def sell(
        self, qty_lots: Integer, price_ticks: Integer | None = None, symbol: Symbol = 0, participant: Integer = 0,
        time_in_force: TimeInForce = GTC, post_only: bool = False, terms: Terms = NO_TERMS, command_id: Integer | None = None,
        time_ns: Integer | None = None,
    ) -> int:  # fmt: skip
        """Sends a sell order; see `buy`."""
        return self._new(
            SELL, qty_lots, price_ticks, symbol, participant, time_in_force, post_only, terms, command_id, time_ns
        )

    def cancel(
        self, order_id: Integer, participant: Integer = 0, command_id: Integer | None = None, time_ns: Integer | None = None
    ) -> bool:  # fmt: skip
        """Cancels an order. Returns False, as `reduce` and `replace` do, if no order with that order_id is open: it was filled or cancelled before."""
        if type(order_id) is not int:  # does not use `_change`, for speed: no other command is as frequent
            order_id = integer("order_id", order_id)
        if type(participant) is not int:
            participant = self._participant(participant)
        if command_id is None:
            command_id = NEXT_ID
        elif type(command_id) is not int or command_id < 1:
            command_id = integer("command_id", command_id, least=1)
        if time_ns is None:
            time_ns = CURRENT_TIME
        elif type(time_ns) is not int or time_ns < 0:
            time_ns = integer("time_ns", time_ns, least=0)
        try:
            pack(self._block, ROW, time_ns, command_id, order_id, 0, 0, 0, participant, CANCEL, 0, 0, 0)
        except struct.error:
            self._refuse(0, participant, order_id=order_id, command_id=command_id, time_ns=time_ns)
        result = run(self._address) or self._go_on()
        return result > 0 or self._was_open(result)

    def reduce(
        self, order_id: Integer, qty_lots: Integer, participant: Integer = 0, command_id: Integer | None = None,
        time_ns: Integer | None = None,
    ) -> bool:  # fmt: skip
        """Reduces the open quantity by qty_lots; the order keeps its time priority."""
        return self._change(REDUCE, order_id, qty_lots, 0, participant, command_id, time_ns)

    def replace(
        self, order_id: Integer, qty_lots: Integer, price_ticks: Integer, participant: Integer = 0,
        command_id: Integer | None = None, time_ns: Integer | None = None, terms: Terms = NO_TERMS,
    ) -> bool:  # fmt: skip
        """Gives an order a new total quantity, price and terms, under the same order_id; docs/orders.md says when it keeps its time priority."""
        if terms is not NO_TERMS:
            check_terms(terms)
            rows = replacement(
                terms=terms, order_id=integer("order_id", order_id), qty_lots=integer("qty_lots", qty_lots),
                price_ticks=integer("price_ticks", price_ticks), **self._sender(participant, command_id, time_ns),
            )  # fmt: skip
            rows = self._accepted(rows)
            result = self._run(rows)
            return result != UNKNOWN_ORDER and self._done(result, rows[-1:].tobytes(), 0) > 0
        return self._change(REPLACE, order_id, qty_lots, price_ticks, participant, command_id, time_ns)

    def mass_cancel(
        self, symbol: Symbol | None = None, participant: Integer = 0, command_id: Integer | None = None, time_ns: Integer | None = None
    ) -> int:  # fmt: skip
        """Cancels a participant's orders in a symbol, or all of them. Returns the number of cancelled orders."""
        number = ALL_SYMBOLS if symbol is None else self._symbol(symbol)
        row = command(CommandKind.MASS_CANCEL, symbol=number, **self._sender(participant, command_id, time_ns))
        self._done(self._run(row), row.tobytes(), 0)
        events = self.events()  # behind the answer, orders may trade that the cancels have triggered
        return int(events["qty_lots"][events["kind"] == MASS_CANCELLED][0])

    def submit(self, commands: Rows) -> Rows:
        """Executes COMMAND rows (participant and time set) in order. Returns the EVENT rows that they cause.

        Assigns their sequences, following the last one. Does not change the given rows. Raises ConfigError if they are not COMMAND rows.
        """
        if not isinstance(commands, np.ndarray) or commands.ndim != 1 or commands.dtype != COMMAND:
            raise ConfigError(
                f"expected an array of COMMAND rows, got {_described(commands)}; make them with `command`"
            )
        self._run(np.ascontiguousarray(commands))
        return self.events()

    def events(self) -> Rows:
        """The EVENT rows of the last call, as a copy."""
        rows = self._bytes[: self._entry[COUNT]]
        rows = np.concatenate([*self._spilled, rows]) if self._entry[SPILLED] else rows.copy()
        return rows.view(EVENT)

    def decode(self, events: Rows | None = None) -> list[Event]:
        """EVENT rows as objects with names; by default those of the last call."""
        return decode(self.events() if events is None else events, self.names)

    def trades(self, symbol: Symbol | None = None, count: Integer = 100) -> Rows:
        """The last trades of a symbol or of all, as TRADE rows, newest last; only the last 4,096 of all symbols together are kept."""
        total = self._entry[TRADES_COUNT]
        rows = self._trades[np.arange(max(0, total - TRADES_KEPT), total) % TRADES_KEPT]
        if symbol is not None:
            rows = rows[rows["symbol"] == self._symbol(symbol)]
        return rows[max(0, len(rows) - integer("count", count, least=0)) :]

    def grow(self) -> None:
        """Provides what the compiled code has asked for: the full rule book, more orders or more far levels."""
        self.state = growth.grow(self.state, self.limits, self.room)

    def _new(
        self, side: int, qty_lots: Integer, price_ticks: Integer | None, symbol: Symbol, participant: Integer, time_in_force: TimeInForce,
        post_only: bool, terms: Terms, command_id: Integer | None, time_ns: Integer | None,
    ) -> int:  # fmt: skip
        """Sends a new order. Like `_change` and `cancel`, it avoids calls for speed: `pack` or the compiled code checks what is not checked here."""
        flags = POST_ONLY if post_only else 0
        if price_ticks is None:
            price_ticks, flags = 0, flags | MARKET
        elif type(price_ticks) is not int:
            price_ticks = integer("price_ticks", price_ticks)
        if type(qty_lots) is not int:
            qty_lots = integer("qty_lots", qty_lots)
        if type(symbol) is not int:
            symbol = self._symbol(symbol)
        if type(participant) is not int:
            participant = self._participant(participant)
        if type(time_in_force) is not TimeInForce:
            time_in_force = checked_time_in_force(time_in_force)
        if terms is not NO_TERMS:
            return self._special(
                side, qty_lots, price_ticks, symbol, participant, time_in_force, flags, terms, command_id, time_ns
            )
        if command_id is None:
            command_id = NEXT_ID
        elif type(command_id) is not int or command_id < 1:
            command_id = integer("command_id", command_id, least=1)
        if time_ns is None:
            time_ns = CURRENT_TIME
        elif type(time_ns) is not int or time_ns < 0:
            time_ns = integer("time_ns", time_ns, least=0)
        try:
            pack(
                self._block, ROW, time_ns, command_id, 0, price_ticks, qty_lots, symbol, participant, NEW, side, time_in_force, flags,
            )  # fmt: skip
        except struct.error:
            self._refuse(
                symbol, participant, price_ticks=price_ticks, qty_lots=qty_lots, command_id=command_id, time_ns=time_ns
            )
        order_id = run(self._address)
        return order_id if order_id > 0 else self._done(order_id or self._go_on(), self._block, ROW)

    def _change(
        self, kind: int, order_id: Integer, qty_lots: Integer, price_ticks: Integer, participant: Integer, command_id: Integer | None, time_ns: Integer | None
    ) -> bool:  # fmt: skip
        if type(order_id) is not int:
            order_id = integer("order_id", order_id)
        if type(qty_lots) is not int:
            qty_lots = integer("qty_lots", qty_lots)
        if type(price_ticks) is not int:
            price_ticks = integer("price_ticks", price_ticks)
        if type(participant) is not int:
            participant = self._participant(participant)
        if command_id is None:
            command_id = NEXT_ID
        elif type(command_id) is not int or command_id < 1:
            command_id = integer("command_id", command_id, least=1)
        if time_ns is None:
            time_ns = CURRENT_TIME
        elif type(time_ns) is not int or time_ns < 0:
            time_ns = integer("time_ns", time_ns, least=0)
        try:
            pack(self._block, ROW, time_ns, command_id, order_id, price_ticks, qty_lots, 0, participant, kind, 0, 0, 0)
        except struct.error:
            self._refuse(
                0, participant, order_id=order_id, price_ticks=price_ticks, qty_lots=qty_lots, command_id=command_id, time_ns=time_ns,
            )  # fmt: skip
        result = run(self._address) or self._go_on()
        return result > 0 or self._was_open(result)

    def _was_open(self, result: int) -> bool:
        """Returns False if the order is not open. Raises Rejected for any other reason."""
        return result != UNKNOWN_ORDER and self._done(result, self._block, ROW) > 0

    def _special(
        self, side: int, qty_lots: Integer, price_ticks: Integer, symbol: int, participant: Integer, time_in_force: int, flags: int, terms: Terms,
        command_id: Integer | None, time_ns: Integer | None,
    ) -> int:  # fmt: skip
        """Sends an order with terms, which are separate commands before it."""
        check_terms(terms)
        sender = self._sender(participant, command_id, time_ns)
        flags = flags if terms.peg is None else flags & ~MARKET  # a peg without a price has no limit, as in the clients
        rows = order(
            terms=terms, flags=flags, side=side, qty_lots=integer("qty_lots", qty_lots), price_ticks=integer("price_ticks", price_ticks),
            symbol=self._symbol(symbol), time_in_force=time_in_force, **sender,
        )  # fmt: skip
        rows = self._accepted(rows)
        return self._done(self._run(rows), rows[-1:].tobytes(), 0)

    def _accepted(self, rows: Rows) -> Rows:
        """The rows of an order with terms; if its first command_id is stale, only that row, for the book to reject: the order would lack a term."""
        first = rows[0]
        return rows[:1] if first["command_id"] <= self._state.last_command_id[first["participant"]] else rows

    def _sender(self, participant: Integer, command_id: Integer | None, time_ns: Integer | None) -> dict[str, int]:
        """The sender's fields of a COMMAND row, with the defaults filled in."""
        participant = self._participant(participant)
        following = int(self._state.last_command_id[participant]) + 1
        return {
            "participant": participant,
            "command_id": integer("command_id", following if command_id is None else command_id, least=1),
            "time_ns": self._entry[TIME_NS] if time_ns is None else integer("time_ns", time_ns, least=0),
        }

    def _run(self, rows: Rows) -> int:
        """Executes rows from outside the entry's own block; see `run`."""
        entry = self._entry
        entry[COMMANDS], entry[STOP] = rows.ctypes.data, len(rows)
        try:
            return run(self._address) or self._go_on(rows)
        finally:
            entry[COMMANDS], entry[STOP] = self._address + ROW, 1

    def _go_on(self, rows: Rows | None = None) -> int:
        """Provides whatever `run` needs and calls it again; returns its final result."""
        entry, result = self._entry, 0
        while result == 0:
            status = entry[STATUS]
            if status == EVENTS_FULL:
                self._spill()
            elif status == GROW:
                self.grow()
                entry[RESUMED] = 1
            elif status == NO_PARTICIPANT:
                self._participant(unpack(self._block, ROW)[6] if rows is None else rows["participant"].max())
            else:
                self._symbol(unpack(self._block, ROW)[5])
            result = run(self._address)
        return result

    def _spill(self) -> None:
        """Moves the events of the current call out of the compiled code's array."""
        entry = self._entry
        if not entry[SPILLED]:
            self._spilled = []
        self._spilled.append(self._bytes[: entry[COUNT]].copy())
        entry[COUNT], entry[SPILLED], entry[RESUMED] = 0, 1, 1

    def _done(self, result: int, row: bytes | bytearray, at: int) -> int:
        """Returns the command_id. Raises Rejected if `run` has rejected the row."""
        if result > 0:
            return result
        _, command_id, _, price_ticks, qty_lots, _, participant, kind, *_ = unpack(row, at)
        reason = Reason(-result)
        match reason:
            case Reason.BAD_QTY:
                got = f"qty_lots {qty_lots}, and qty_lots_max is {self.limits.qty_lots_max}"
            case Reason.BAD_PRICE:
                got = f"price_ticks {price_ticks}, and price_ticks_max is {self.limits.price_ticks_max}"
            case Reason.STALE_COMMAND_ID:
                got = f"{command_id}; leave it out"
            case _:
                got = f"{KINDS[kind]} {command_id} of participant {participant}"
        raise rejected(reason, got)

    def _refuse(self, symbol: Symbol, participant: Integer, **integers: Integer) -> NoReturn:
        """Raises ConfigError for the argument that `pack` did not accept."""
        for name, value in integers.items():
            integer(name, value)
        self._symbol(symbol)
        self._participant(participant)
        raise AssertionError("every field fits")

    def _symbol(self, symbol: Symbol) -> int:
        """The number of a symbol. Raises ConfigError if there is no such symbol."""
        number = self._numbers.get(symbol, -1) if isinstance(symbol, str) else integer("symbol", symbol)
        if not 0 <= number < len(self.names):
            known = ", ".join(self.names[:10]) + (", ..." if len(self.names) > 10 else "")
            raise ConfigError(f"symbol: expected {known} or a number from 0 to {len(self.names) - 1}, got {symbol!r}")
        return number

    def _participant(self, participant: Integer) -> int:
        """Returns the participant's number, checked. Raises ConfigError if there is no such participant."""
        number, stop = integer("participant", participant), self.limits.participants_max
        if not 0 <= number < stop:
            raise ConfigError(
                f"participant: expected a number from 0 to {stop - 1}, got {number}; raise MarketLimits.participants_max for more"
            )
        return number


def _described(commands: object) -> str:
    if not isinstance(commands, np.ndarray):
        return type(commands).__name__
    return f"an array of shape {commands.shape} and type {commands.dtype}"[:160]
