"""The reference market: docs/orders.md in plain Python, to be read beside it and to hold the compiled kernel to it.

Dicts and lists, no cleverness: an order is an object, a price level a dict of orders in time priority, a side of a queue
its levels and their sorted prices. Some hundred times slower than `Market`, with the same results to the last bit.
The files beside this one: `state` (what is known, and its changes), `terms` and `checks` (what is
accepted), `match` (incoming orders), `settle`, `auction`, `snapshot`, `validate`.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Self

import numpy as np

from serl.exchange.account import Account
from serl.exchange.errors import ConfigError
from serl.exchange.limits import MarketLimits
from serl.exchange.records import (
    ALL_SYMBOLS,
    EVENT,
    LEVEL,
    NO_TERM,
    CommandFlag,
    CommandKind,
    EventKind,
    Phase,
    Queue,
    Reason,
    Rows,
    Rule,
    Setting,
    Term,
    TimeInForce,
)  # fmt: skip
from serl.exchange.snapshot import Snapshot
from tests.exchange.reference.auction import change_phase, hold_auction, price_of
from tests.exchange.reference.book import ASSETS, FEES, Command, Order
from tests.exchange.reference.checks import check_any, check_change, check_new, check_operation, loses_priority
from tests.exchange.reference.match import activate
from tests.exchange.reference.snapshot import order_rows, restore_state, snapshot, special_rows
from tests.exchange.reference.state import NOT_DISPLAYED, RESTING, State, hidden_flag
from tests.exchange.reference.terms import KNOWN, replace_terms
from tests.exchange.reference.triggers import expire, run_triggers
from tests.exchange.reference.validate import validate

CHANGING = frozenset({CommandKind.CANCEL, CommandKind.REDUCE, CommandKind.REPLACE})
DAY_ORDERS = (TimeInForce.DAY, TimeInForce.AT_OPEN, TimeInForce.AT_CLOSE)
RULE_NAMES = {
    Rule.LOT: "lot", Rule.MATCHING: "matching", Rule.BAND_LOW: "band_low", Rule.BAND_HIGH: "band_high", Rule.BAND_ACTION: "band_action",
}  # fmt: skip
TERMS = int(CommandFlag.TERMS)
DEFAULT_LIMITS = MarketLimits()


class ReferenceMarket(State):
    """The same interface, events and state hash as `Market`; `window_ticks` means nothing here."""

    def __init__(self, symbols: Sequence[str] | int = 1, *, limits: MarketLimits = DEFAULT_LIMITS) -> None:
        super().__init__(symbols, limits)
        self._effects: dict[int, Callable[[Command], None]] = {
            CommandKind.CANCEL: self._cancel,
            CommandKind.REDUCE: self._reduce,
            CommandKind.MASS_CANCEL: self._mass_cancel,
            CommandKind.TERM: self._store_term,
            CommandKind.END_DAY: self._end_day,
            CommandKind.HALT: self._halt,
            CommandKind.RESUME: self._halt,
            CommandKind.PRINT: self._print,
            CommandKind.PHASE: self._phase,
            CommandKind.UNCROSS: self._uncross,
            CommandKind.TIME: lambda c: None,
            CommandKind.ACCOUNT: self._set_account,
            CommandKind.RULE: self._set_rule,
            CommandKind.PURGE: self._purge,
            CommandKind.DEPOSIT: self._deposit,
        }

    def grant_operator(self, participant: int) -> None:
        """Lets a participant halt, resume, print, end the day, and set phases, accounts and rules."""
        self.operators.add(participant)

    def submit(self, commands: Rows) -> Rows:
        """Executes COMMAND rows in order; the EVENT rows that came of them."""
        if len(commands) and int(commands["participant"].max()) >= self.limits.participants_max:
            highest = commands["participant"].max()
            raise ConfigError(f"expected participants up to {self.limits.participants_max - 1}, got {highest}")
        self._events = []
        for row in commands.tolist():
            self._execute(Command(*row))
        return np.array(self._events, EVENT)

    def _execute(self, command: Command) -> None:
        self.command_sequence += 1
        self.command = command
        if self.expiring:
            expire(self)
        self.event_command_id = command.command_id
        reason = self._execute_or_reason(command)
        if reason != Reason.NONE:
            order_id = command.command_id if command.kind == CommandKind.NEW else command.order_id
            self.emit(
                EventKind.REJECTED,
                order_id=order_id,
                price_ticks=command.price_ticks,
                qty_lots=command.qty_lots,
                reason=reason,
            )
        run_triggers(self)

    def _execute_or_reason(self, command: Command) -> Reason:
        """Carries a command out, or says why not."""
        if command.command_id != 0:
            if command.command_id <= self.last_command_id[command.participant]:
                return Reason.STALE_COMMAND_ID
            self.last_command_id[command.participant] = command.command_id
        elif command.kind == CommandKind.NEW:
            return Reason.STALE_COMMAND_ID
        terms: dict[int, int] = {}
        if command.kind in (CommandKind.NEW, CommandKind.REPLACE) and command.flags & TERMS:
            terms = self.terms.pop(command.participant, terms)
        if reason := check_any(self, command):
            return reason
        if command.kind == CommandKind.NEW:
            reason, order = check_new(self, command, terms)
            if order is not None:
                self._new(order)
            return reason
        changes = command.kind in CHANGING
        reason = check_change(self, command, terms) if changes else check_operation(self, command)
        if reason == Reason.NONE and command.kind == CommandKind.REPLACE:
            self._replace(command, terms)
        elif reason == Reason.NONE:
            self._effects[command.kind](command)
        return reason

    # -- orders ---------------------------------------------------------------------------------------------------

    def _new(self, order: Order) -> None:
        queue, ticks = self.target_queue(order)
        self.open[order.key] = order
        if order.link:
            other = self.open[order.linked_key]
            other.link, other.updates = order.order_id, order.updates
        if order.child:
            self.open[order.child_key].parent = order.order_id
        if self._rests_at_once(order):
            self.rest(order, queue, ticks, EventKind.ACCEPTED, RESTING)
        else:
            activate(self, order, queue, ticks, EventKind.ACCEPTED)

    def _rests_at_once(self, order: Order) -> bool:
        """Whether an order rests without a look at the other side."""
        if self.books[order.symbol].phase != Phase.CONTINUOUS or order.trigger_ticks or order.waits:
            return True
        return order.time_in_force == TimeInForce.AT_CLOSE or (order.peg > 0 and not self.peg_price(order))

    def _cancel_resting(self, c: Command, order: Order, reason: int) -> None:
        self.cancel(order, reason, c.command_id if order.participant == c.participant else 0)

    def _cancel(self, c: Command) -> None:
        self._cancel_resting(c, self.open[c.participant, c.order_id], Reason.REQUESTED)

    def _reduce(self, c: Command) -> None:
        order = self.open[c.participant, c.order_id]
        if c.qty_lots >= order.leaves_lots:
            self._cancel_resting(c, order, Reason.REQUESTED)
        else:
            self.reduce_open(order, c.qty_lots, c.command_id)

    def _replace(self, c: Command, terms: dict[int, int]) -> None:
        order = self.open[c.participant, c.order_id]
        filled = order.filled_lots
        if c.qty_lots <= filled:
            self._cancel_resting(c, order, Reason.REPLACED_BELOW_FILLED)
            return
        if not loses_priority(c, order, terms):
            order.expire_ns = terms.get(Term.EXPIRE_NS, order.expire_ns)
            self.reduce_open(order, order.total_lots - c.qty_lots, c.command_id)
            return
        if order.reserve_lots:
            reserve, order.reserve_lots = order.reserve_lots, 0
            self.emit(EventKind.REDUCED, order, qty_lots=reserve, flags=NOT_DISPLAYED)
        queue, was_open = order.queue, order.open_lots
        order.open_lots, order.total_lots = c.qty_lots - filled, c.qty_lots
        self.emit(EventKind.REPLACED, order, qty_lots=was_open, flags=hidden_flag(order))
        self.dequeue(order)
        order.price_ticks = c.price_ticks
        replace_terms(order, terms)
        if queue == Queue.STOP:
            self.rest(order, queue, order.trigger_ticks, EventKind.RESTED)
        elif self.books[order.symbol].phase == Phase.CONTINUOUS:
            activate(self, order, queue, c.price_ticks, EventKind.RESTED)
        else:
            self.rest(order, queue, c.price_ticks, EventKind.RESTED)

    def _store_term(self, c: Command) -> None:
        known = c.flags in KNOWN
        self.terms[c.participant][c.flags if known else NO_TERM] = c.price_ticks if known else 0

    def _cancel_all(self, c: Command, orders: Iterable[Order], reason: int) -> int:
        """How many orders were cancelled for this reason; others went because they were linked with them."""
        count = 0
        for order in list(orders):
            if order.key in self.open:
                own = order.participant == c.participant and reason not in (Reason.KILL, Reason.PURGED)
                self.cancel(order, reason, c.command_id if own else 0)
                count += 1
        return count

    def _mass_cancel(self, c: Command) -> None:
        self._cancel_participant(c.participant, c, c.reason & 0xFF or Reason.MASS_CANCEL)

    def _purge(self, c: Command) -> None:
        self._cancel_participant(c.order_id, c, Reason.PURGED)

    def _cancel_participant(self, participant: int, c: Command, reason: int) -> None:
        sides = ((0, 1), (0,), (1,))[c.flags]
        symbols = range(len(self.books)) if c.symbol == ALL_SYMBOLS else (c.symbol,)
        gone = [o for o in self.resting() if o.participant == participant and o.symbol in symbols and o.side in sides]
        count = self._cancel_all(c, gone, reason)
        self.emit(EventKind.MASS_CANCELLED, qty_lots=count)

    # -- operators ------------------------------------------------------------------------------------------------

    def _end_day(self, c: Command) -> None:
        count = self._cancel_all(c, (o for o in self.resting() if o.time_in_force in DAY_ORDERS), Reason.DAY_END)
        self.emit(EventKind.DAY_ENDED, qty_lots=count)

    def _halt(self, c: Command) -> None:
        book = self.books[c.symbol]
        book.halted = c.kind == CommandKind.HALT
        book.halt_reason = c.flags if book.halted else 0
        book.triggers_pending = True
        self.emit(EventKind.HALTED if book.halted else EventKind.RESUMED, flags=book.halt_reason)

    def _print(self, c: Command) -> None:
        self.match_id += 1
        self.emit(EventKind.PRINT, price_ticks=c.price_ticks, qty_lots=c.qty_lots, match_id=self.match_id)

    def _phase(self, c: Command) -> None:
        change_phase(self, self.books[c.symbol], c.flags)

    def _uncross(self, c: Command) -> None:
        book = self.books[c.symbol]
        price, lots = hold_auction(self, book)
        self.emit(EventKind.PHASED, price_ticks=price, qty_lots=lots, flags=book.phase)

    def _set_account(self, c: Command) -> None:
        self.accounts[c.order_id][c.flags] = c.price_ticks
        count = 0
        if c.flags == Setting.KILLED and c.price_ticks:
            count = self._cancel_all(c, (o for o in self.resting() if o.participant == c.order_id), Reason.KILL)
        for book in self.books:  # self-trade prevention decides what can trade
            book.triggers_pending = True
        self.emit(EventKind.SET, price_ticks=c.price_ticks, qty_lots=count, flags=c.flags)

    def _set_rule(self, c: Command) -> None:
        book = self.books[c.symbol]
        if c.flags == Rule.TICK and not c.price_ticks:
            book.ticks.pop(c.order_id, None)
        elif c.flags == Rule.TICK:
            book.ticks[c.order_id] = c.price_ticks
        elif c.flags in FEES:
            book.fees[Rule(c.flags)] = c.price_ticks
        elif c.flags in ASSETS:
            book.assets[Rule(c.flags)] = c.price_ticks
        else:
            setattr(book, RULE_NAMES[Rule(c.flags)], c.price_ticks)
        book.triggers_pending = True
        self.emit(EventKind.SET, price_ticks=c.price_ticks, flags=c.flags)

    def _deposit(self, c: Command) -> None:
        self.deposits[c.order_id, c.qty_lots] += c.price_ticks
        self.emit(EventKind.SET, price_ticks=c.price_ticks, qty_lots=c.qty_lots)

    # -- views ----------------------------------------------------------------------------------------------------

    def book(self, symbol: int = 0, depth: int = 0) -> tuple[Rows, Rows]:
        """(bids, asks) of the displayed book as LEVEL rows, best first; all of them with depth 0."""
        bids, asks = (np.array(list(side.sums(depth)), LEVEL) for side in self.books[symbol].displayed)
        return bids, asks

    def orders(self, symbol: int | None = None) -> Rows:
        """Displayed orders as ORDER rows by symbol, side (bids first), price from best, time priority."""
        return order_rows(self, symbol)

    def specials(self) -> Rows:
        """SPECIAL rows: by symbol, queue, side, price from best, time priority."""
        return special_rows(self)

    def indicative(self, symbol: int) -> tuple[int, int, int]:
        """(price_ticks, volume_lots, demand - supply there in lots) of an auction now; zeros where nothing would trade."""
        return price_of(self.books[symbol])

    def account(self, participant: int, symbol: int = 0) -> Account:
        """What a participant has made of its trades in a symbol."""
        return self.balances[participant, symbol].account()

    def snapshot(self) -> Snapshot:
        """A copy of everything that the market's future depends on."""
        return snapshot(self)

    @classmethod
    def restore(cls, snapshot: Snapshot, symbols: Sequence[str] | int = 1, *, limits: MarketLimits) -> Self:
        """The market that a snapshot was made of; its state hash is the same. Operators must be granted again."""
        market = cls(symbols, limits=limits)
        restore_state(market, snapshot)
        return market

    def state_hash(self) -> str:
        """sha256 of the snapshot: the same for every implementation that was given the same commands."""
        return self.snapshot().digest()

    def validate(self) -> None:
        """AssertionError, saying what, if any invariant does not hold."""
        validate(self)
