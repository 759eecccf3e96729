"""What the reference market knows, and the changes of it that are made in many places: rest, take out, cancel, tell."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from serl.exchange.limits import MarketLimits
from serl.exchange.records import (
    ACCOUNT_SELF_TRADE,
    CommandFlag,
    EventFlag,
    EventKind,
    Peg,
    Phase,
    Queue,
    Reason,
    Rule,
    Setting,
    Side,
    TimeInForce,
)  # fmt: skip
from tests.exchange.reference.account import Balances
from tests.exchange.reference.book import DUE, FEES, IN_NO_QUEUE, MARKET, TO_LIMIT, Book, Command, Key, Order

HIDDEN = int(CommandFlag.HIDDEN)
RESTING, MAKER, NOT_DISPLAYED, AUCTION = (
    int(flag) for flag in (EventFlag.RESTING, EventFlag.MAKER, EventFlag.HIDDEN, EventFlag.AUCTION)
)
"""Of events; NOT_DISPLAYED: about an order in a queue that is not displayed."""
NO_COMMAND = Command(*[0] * len(Command._fields))


class State:
    """Books, accounts and counters. `command` is the one that is executed now, `answers` the command_id of incoming orders' events."""

    def __init__(self, symbols: Sequence[str] | int, limits: MarketLimits) -> None:
        self.names = [str(number) for number in range(symbols)] if isinstance(symbols, int) else list(symbols)
        self.limits = limits
        self.books = [Book() for _ in self.names]
        self.open: dict[Key, Order] = {}
        self.expiring: dict[Key, Order] = {}  # those with a time to go
        self.operators: set[int] = set()
        self.last_command_id = [0] * limits.participants_max
        self.report = [0] * limits.participants_max
        self.accounts = [[0] * len(Setting) for _ in range(limits.participants_max)]
        self.terms: defaultdict[int, dict[int, int]] = defaultdict(dict)  # participant -> term -> value: not used yet
        self.balances: defaultdict[tuple[int, int], Balances] = defaultdict(Balances)  # (participant, symbol)
        self.deposits: defaultdict[tuple[int, int], int] = defaultdict(int)  # (participant, asset) -> units
        self.has_wide_balances = False  # whether cash or cost of any account was ever beyond 64 bits
        self.event_sequence = self.match_id = self.order_number = self.command_sequence = 0
        self.command, self.event_command_id = NO_COMMAND, 0
        self.cancelled_at: set[tuple[int, int, int, int]] = (
            set()
        )  # (symbol, queue, side, price) where orders were taken out, or lots for another reason than a trade
        self._events: list[tuple[int, ...]] = []

    # -- questions ------------------------------------------------------------------------------------------------

    def worst_price(self, side: int) -> int:
        """The limit of an order without one."""
        return self.limits.price_ticks_max if side == Side.BUY else 1

    def collar_limit(self, order: Order) -> int:
        """The limit that the collar of its account sets for an order without one now; 0: none, or no trade so far."""
        collar, last = self.accounts[order.participant][Setting.COLLAR_TICKS], self.books[order.symbol].last_ticks
        if not collar or not last:
            return 0
        return min(last + collar, self.limits.price_ticks_max) if order.side == Side.BUY else max(last - collar, 1)

    def limit_of(self, order: Order) -> int:
        """How far an order may trade now."""
        return order.price_ticks or self.collar_limit(order) or self.worst_price(order.side)

    def target_queue(self, order: Order) -> tuple[int, int]:
        """(queue, price there) of an order that comes to the market now."""
        book, ticks = self.books[order.symbol], order.price_ticks or self.worst_price(order.side)
        if order.waits:
            return Queue.INACTIVE, ticks
        if order.trigger_ticks:
            return Queue.STOP, order.trigger_ticks
        if order.peg:
            pegged = self.peg_price(order)
            return (Queue.HIDDEN, pegged) if pegged else (Queue.INACTIVE, ticks)
        if order.time_in_force == TimeInForce.AT_CLOSE and book.phase != Phase.CLOSING:
            return Queue.INACTIVE, ticks
        if order.minimum_lots:
            return Queue.MIN_QTY, ticks
        hidden = order.flags & HIDDEN or (order.flags & MARKET and not order.flags & TO_LIMIT)
        return (Queue.HIDDEN if hidden else Queue.DISPLAYED), ticks

    def peg_price(self, order: Order) -> int:
        """Where a pegged order belongs; 0: nowhere, without the displayed prices that it needs or outside CONTINUOUS."""
        book = self.books[order.symbol]
        bids, asks = (side.ranks for side in book.displayed)
        bid, ask = -bids[0] if bids else 0, asks[0] if asks else 0
        buys = order.side == Side.BUY
        if order.peg == Peg.PRIMARY:
            price = bid if buys else ask
        else:
            price = (bid + ask + (not buys)) // 2 if bid and ask else 0
        if not price or book.phase != Phase.CONTINUOUS:
            return 0
        limit = self.limit_of(order)
        price = price - order.offset_ticks if buys else price + order.offset_ticks
        price = min(max(price, 1), self.limits.price_ticks_max)
        return min(price, limit) if buys else max(price, limit)

    def self_trade(self, order: Order) -> int:
        """What an order does when it meets one of its participant."""
        if order.self_trade != ACCOUNT_SELF_TRADE:
            return order.self_trade
        return self.accounts[order.participant][Setting.SELF_TRADE]

    def fee_microticks(self, order: Order, per_lot: Rule, lots: int, price_ticks: int) -> int:
        """Of a fill, by the fees of the account if it has its own, else of the symbol: the one for a lot and the one behind it, for the
        notional. In microticks x lots."""
        account, fees = self.accounts[order.participant], self.books[order.symbol].fees
        if account[Setting.OWN_FEES]:
            fees = {fee: account[Setting[fee.name]] for fee in FEES}
        return lots * fees[per_lot] + lots * price_ticks * fees[Rule(per_lot + 1)]

    def reduces(self, order: Order) -> bool:
        """Whether what is open of an order brings the position nearer to 0."""
        position = self.balances[order.participant, order.symbol].position_lots
        return order.leaves_lots <= (-position if order.side == Side.BUY else position)

    def is_full(self, symbol: int, queue: int) -> bool:
        """Whether a queue has as many price levels as it may."""
        return self.books[symbol].level_count(queue) >= self.limits.levels_max

    def resting(self) -> Iterator[Order]:
        """By symbol, queue, side (bids first), price from best, time."""
        for book in self.books:
            yield from book.orders()

    # -- changes --------------------------------------------------------------------------------------------------

    def place(self, order: Order, queue: int, queue_ticks: int) -> None:
        """Puts an order behind the others of its price; an iceberg shows its part in DISPLAYED."""
        self.order_number += 1
        order.order_number, order.queue, order.queue_ticks = self.order_number, queue, queue_ticks
        if order.display_lots and queue == Queue.DISPLAYED:
            leaves = order.leaves_lots
            order.open_lots = min(order.display_lots, leaves)
            order.reserve_lots = leaves - order.open_lots
        self.enqueue(order)

    def enqueue(self, order: Order) -> None:
        """Where its fields say that it stands."""
        book = self.books[order.symbol]
        book.queues[order.queue][order.place].add(order)
        self.open[order.key] = order
        if order.peg:
            book.pegged[order.key] = order
        if order.waits:
            book.waiting[order.key] = order
        elif order.trail_ticks:
            book.trailing[order.key] = order
        if order.expire_ns:
            self.expiring[order.key] = order
        book.triggers_pending = True

    def dequeue(self, order: Order) -> None:
        """Out of its queue; it is open still."""
        book = self.books[order.symbol]
        book.queues[order.queue][order.place].remove(order)
        book.pegged.pop(order.key, None)
        book.trailing.pop(order.key, None)
        book.waiting.pop(order.key, None)
        order.queue, order.order_number = IN_NO_QUEUE, 0
        book.triggers_pending = True

    def close(self, order: Order) -> None:
        """It is not open any more."""
        if order.queue != IN_NO_QUEUE:
            self.dequeue(order)
        del self.open[order.key]
        self.expiring.pop(order.key, None)

    def finish(self, order: Order) -> None:
        """It is filled: closes it, and what waits for it is due."""
        self.close(order)
        if not order.child:
            return
        child = self.open[order.child_key]
        order.child = child.parent = 0
        for each in (child, self.open.get(child.linked_key)):
            if each is not None and each.waits:
                each.waits = DUE
                self.books[each.symbol].triggers_pending = True

    def _cancel_child(self, order: Order) -> None:
        """Of an order that is cancelled: what waits for it is cancelled too. And nothing waits for it any more, if it is a child."""
        if order.parent:
            self.open[order.participant, order.parent].child = 0
        if order.child:
            child = self.open[order.child_key]
            order.child = child.parent = 0
            self.cancel(child, Reason.LINKED)

    def rest(
        self,
        order: Order,
        queue: int,
        queue_ticks: int,
        kind: int | None,
        flags: int = 0,
        command_id: int | None = None,
        needs_room: bool = True,
    ) -> None:
        """Places an order and tells so with an event of the kind; without room the order is cancelled."""
        if needs_room and self.is_full(order.symbol, queue):
            self.cancel(order, Reason.NO_ROOM, self.event_command_id if command_id is None else command_id)
            return
        self.place(order, queue, queue_ticks)
        if kind is not None:
            self.emit(kind, order, qty_lots=order.open_lots, flags=flags | hidden_flag(order), command_id=command_id)

    def cancel(self, order: Order, reason: int, command_id: int = 0) -> None:
        """Cancels what is open, of an order in a queue or on its way, and then the one that it is linked with."""
        queue, number, was_open = order.queue, order.order_number, order.open_lots
        flags = hidden_flag(order) | (0 if queue == IN_NO_QUEUE else RESTING)
        if order.reserve_lots:
            reserve, order.reserve_lots = order.reserve_lots, 0
            self.emit(
                EventKind.REDUCED, order, qty_lots=reserve, reason=reason, flags=NOT_DISPLAYED, command_id=command_id
            )
        self.cancelled_at.add((order.symbol, queue, order.side, order.queue_ticks))
        self.close(order)
        order.open_lots = 0
        self.emit(
            EventKind.CANCELLED,
            order,
            qty_lots=was_open,
            reason=reason,
            flags=flags,
            command_id=command_id,
            order_number=number,
        )
        self._cancel_child(order)
        self.end_link(order)

    def end_link(self, order: Order) -> None:
        """Of an order that traded, was triggered or is gone: the other one is cancelled."""
        if order.link:
            other = self.open[order.linked_key]
            order.unlink(other)
            self.cancel(other, Reason.LINKED)

    def follow_fill(self, order: Order, lots: int) -> None:
        """Of an order that traded `lots`: the linked one is cancelled, or loses as many."""
        if not order.link or not order.updates:
            self.end_link(order)
            return
        other = self.open[order.linked_key]
        if lots >= other.leaves_lots:
            self.end_link(order)
            return
        if lots > other.reserve_lots:
            self.cancelled_at.add((other.symbol, other.queue, other.side, other.queue_ticks))
        if not order.leaves_lots:
            order.unlink(other)
        other.total_lots += lots  # they stay in it, as filled ones do
        self.reduce_open(other, lots, 0, Reason.LINKED)

    def reduce_open(self, order: Order, qty_lots: int, command_id: int, reason: int = 0) -> None:
        """Makes a resting order smaller, its reserve first."""
        hidden = min(qty_lots, order.reserve_lots)
        order.total_lots -= qty_lots
        order.reserve_lots -= hidden
        if hidden:
            self.emit(
                EventKind.REDUCED, order, qty_lots=hidden, reason=reason, flags=NOT_DISPLAYED, command_id=command_id
            )
        if not hidden or qty_lots > hidden:
            order.reduce_open(qty_lots - hidden)
            self.emit(
                EventKind.REDUCED,
                order,
                qty_lots=qty_lots - hidden,
                reason=reason,
                flags=hidden_flag(order),
                command_id=command_id,
            )
        self.books[order.symbol].triggers_pending = True

    def emit(
        self, kind: int, order: Order | None = None, *, qty_lots: int = 0, price_ticks: int | None = None,
        order_id: int | None = None, order_number: int | None = None, command_id: int | None = None,
        match_id: int = 0, reason: int = 0, flags: int = 0,
    ) -> None:  # fmt: skip
        """Appends an event about an order as it is now, or about the command where there is none."""
        c = self.command
        about = order or Order(0, c.order_id, 0, 0, 0, c.symbol, c.participant, c.side, 0, 0)
        self.event_sequence += 1
        self.report[about.participant] += 1
        self._events.append((
            c.time_ns,
            self.event_sequence,
            self.command_sequence,
            self.report[about.participant],
            self.event_command_id if command_id is None else command_id,
            about.order_id if order_id is None else order_id,
            about.order_number if order_number is None else order_number,
            about.price_ticks if price_ticks is None else price_ticks,
            qty_lots,
            about.open_lots + about.reserve_lots,
            match_id,
            about.symbol,
            about.participant,
            kind,
            about.side,
            reason,
            flags,
        ))  # fmt: skip


def hidden_flag(order: Order) -> int:
    """The flag of events about an order in a queue that is not displayed."""
    return NOT_DISPLAYED if order.queue > 0 else 0
