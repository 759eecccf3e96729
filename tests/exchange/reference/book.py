"""Orders, queues and books as the reference market holds them: objects, dicts and sorted lists."""

import dataclasses
from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import NamedTuple

from serl.exchange.records import ACCOUNT_SELF_TRADE, COLLECTING, CommandFlag, Phase, Queue, Rule, Side, TimeInForce

MARKET, ALL_OR_NONE, TO_LIMIT = int(CommandFlag.MARKET), int(CommandFlag.ALL_OR_NONE), int(CommandFlag.TO_LIMIT)
WAITING, DUE = 1, 2
"""Order.waits: for its parent; that is filled."""
IN_NO_QUEUE = -1
"""Order.queue of an order that stands in none: it trades, or moves."""
TRADING_QUEUES = (int(Queue.DISPLAYED), int(Queue.HIDDEN), int(Queue.MIN_QTY))
FEES = tuple(rule for rule in Rule if Rule.MAKER_MICROTICKS <= rule <= Rule.AUCTION_PPM)
ASSETS = tuple(rule for rule in Rule if rule >= Rule.BASE_ASSET)
Key = tuple[int, int]
"""(participant, order_id)."""


class Command(NamedTuple):
    """A COMMAND row with its fields by name, in the order of the record."""

    time_ns: int
    sequence: int
    command_id: int
    order_id: int
    price_ticks: int
    qty_lots: int
    symbol: int
    participant: int
    kind: int
    side: int
    time_in_force: int
    flags: int
    check: int
    reason: int


@dataclasses.dataclass(slots=True, eq=False)
class Order:
    """An open order. The first ten fields are those of ORDER, the others those of SPECIAL."""

    order_number: int  # 0 where it is in no queue
    order_id: int
    price_ticks: int
    open_lots: int  # an iceberg in DISPLAYED: its displayed part
    total_lots: int
    symbol: int
    participant: int
    side: int
    time_in_force: int
    flags: int
    queue: int = IN_NO_QUEUE
    queue_ticks: int = 0
    reserve_lots: int = 0
    display_lots: int = 0
    min_lots: int = 0
    stop_ticks: int = 0
    trail_ticks: int = 0
    offset_ticks: int = 0
    expire_ns: int = 0
    link: int = 0
    peg: int = 0
    self_trade: int = ACCOUNT_SELF_TRADE
    touch_ticks: int = 0
    updates: int = 0  # 1: fills are taken off the linked order; 0: they cancel it
    waits: int = 0  # WAITING, DUE or 0
    child: int = 0
    parent: int = 0

    @property
    def key(self) -> Key:
        """What CANCEL, REDUCE and REPLACE name it by."""
        return self.participant, self.order_id

    @property
    def trigger_ticks(self) -> int:
        """Where it is triggered; 0: it waits for no price."""
        return self.stop_ticks or self.touch_ticks

    @property
    def is_triggered_above(self) -> bool:
        """Whether it waits for a trade at its trigger or above it, not below it."""
        return bool(self.stop_ticks) == (self.side == Side.BUY)

    @property
    def place(self) -> int:
        """Where it stands among the two sides of its queue: in STOP first those that are triggered above."""
        return int(not self.is_triggered_above) if self.queue == Queue.STOP else self.side

    @property
    def leaves_lots(self) -> int:
        """Open, with the reserve."""
        return self.open_lots + self.reserve_lots

    @property
    def filled_lots(self) -> int:
        """Traded so far."""
        return self.total_lots - self.open_lots - self.reserve_lots

    @property
    def minimum_lots(self) -> int:
        """What must trade at once if it trades; 0 if there is no such thing."""
        if self.flags & ALL_OR_NONE or self.time_in_force == TimeInForce.FOK:
            return self.open_lots
        return self.min_lots

    @property
    def linked_key(self) -> Key:
        """The key of the order that it is linked with."""
        return self.participant, self.link

    def unlink(self, other: "Order") -> None:
        """Ends the link between two orders."""
        self.link = other.link = self.updates = other.updates = 0

    @property
    def child_key(self) -> Key:
        """The key of the order that waits for this one."""
        return self.participant, self.child

    def may_rest(self) -> bool:
        """Whether it may rest in CONTINUOUS."""
        return not self.flags & MARKET and self.time_in_force not in (TimeInForce.IOC, TimeInForce.FOK)

    def reduce_open(self, qty_lots: int) -> None:
        """Makes the open quantity smaller; a minimum is never above it."""
        self.open_lots -= qty_lots
        if self.min_lots > self.open_lots:
            self.min_lots = self.open_lots


class QueueSide:
    """The buys or the sells of a queue; of STOP those that are triggered above, or below."""

    def __init__(self, side: int, queue: int = Queue.DISPLAYED) -> None:
        self.sign = -1 if side == Side.BUY else 1
        if queue == Queue.STOP:  # the lowest of those above comes first there
            self.sign = -self.sign
        self.levels: dict[int, dict[int, Order]] = {}  # price -> order_number -> order, in time priority
        self.ranks: list[int] = []  # sign * price of every level, sorted: the best price comes first

    def add(self, order: Order) -> None:
        """Puts an order behind the last one of its price."""
        price = order.queue_ticks
        if price not in self.levels:
            self.levels[price] = {}
            insort(self.ranks, self.sign * price)
        self.levels[price][order.order_number] = order

    def remove(self, order: Order) -> None:
        """Takes an order out, and its level if it was the last one there."""
        price = order.queue_ticks
        level = self.levels[price]
        del level[order.order_number]
        if not level:
            del self.levels[price]
            del self.ranks[bisect_left(self.ranks, self.sign * price)]

    def crosses(self, limit_ticks: int) -> bool:
        """Whether an order of the other side with this limit meets one here."""
        return bool(self.ranks) and self.ranks[0] <= self.sign * limit_ticks

    def prices(self, limit_ticks: int) -> Iterator[int]:
        """Prices within the limit of an order of the other side, best first."""
        for rank in self.ranks:
            if rank > self.sign * limit_ticks:
                return
            yield self.sign * rank

    def at(self, price_ticks: int) -> list[Order]:
        """The orders of a price, the oldest first."""
        return list(self.levels.get(price_ticks, {}).values())

    def first(self) -> Order | None:
        """The oldest order of the best price."""
        return next(self.orders(), None)

    def orders(self) -> Iterator[Order]:
        """Best price first, then time priority."""
        for rank in self.ranks:
            yield from self.levels[self.sign * rank].values()

    def sums(self, depth: int = 0) -> Iterator[tuple[int, int, int]]:
        """(price, open lots, orders) of the best `depth` levels, of all with 0."""
        for rank in self.ranks[: depth or None]:
            level = self.levels[self.sign * rank].values()
            yield self.sign * rank, sum(order.open_lots for order in level), len(level)


class Book:
    """A symbol: its queues, its phase and its rules."""

    def __init__(self) -> None:
        self.queues = [(QueueSide(Side.BUY, queue), QueueSide(Side.SELL, queue)) for queue in Queue]
        self.displayed = self.queues[Queue.DISPLAYED]
        self.pegged: dict[Key, Order] = {}  # those orders of HIDDEN and INACTIVE
        self.trailing: dict[Key, Order] = {}  # those orders of STOP
        self.waiting: dict[Key, Order] = {}  # for their parents, in INACTIVE
        self.phase = int(Phase.CONTINUOUS)
        self.halted = False
        self.triggers_pending = False  # something has changed
        self.last_ticks = self.high_ticks = self.low_ticks = 0
        self.lot, self.matching = 1, 0
        self.band_low = self.band_high = self.band_action = 0
        self.ticks: dict[int, int] = {}  # from which price -> multiple
        self.fees = dict.fromkeys(FEES, 0)  # by Rule
        self.assets = dict.fromkeys(ASSETS, 0)  # by Rule
        self.halt_reason = 0

    def trading(self, side: int) -> list[QueueSide]:
        """The queues of a side whose orders trade, in their order at one price."""
        return [self.queues[queue][side] for queue in TRADING_QUEUES]

    def orders(self) -> Iterator[Order]:
        """By queue, side (bids first), price from best, time."""
        for sides in self.queues:
            for side in sides:
                yield from side.orders()

    def has_no_triggers(self) -> bool:
        """Whether no order here does anything by itself."""
        return not (self.pegged or self.level_count(Queue.STOP) or self.level_count(Queue.MIN_QTY) or self.first_due())

    def first_due(self) -> Order | None:
        """The oldest order whose parent is filled."""
        due = [order for order in self.waiting.values() if order.waits == DUE]
        return min(due, key=lambda order: order.order_number, default=None)

    def level_count(self, queue: int) -> int:
        """Price levels of a queue, both sides."""
        buys, sells = self.queues[queue]
        return len(buys.ranks) + len(sells.ranks)

    def ends_collecting(self, phase: int) -> bool:
        """Whether an auction is held before this phase begins."""
        return self.phase in COLLECTING and phase not in COLLECTING

    def is_outside(self, price_ticks: int) -> bool:
        """Whether a price is below or above the band."""
        return price_ticks < self.band_low or 0 < self.band_high < price_ticks

    def has_band(self) -> bool:
        """Whether there are prices outside the band."""
        return bool(self.band_low or self.band_high)

    def skips(self, price_ticks: int) -> bool:
        """Whether orders at a price cannot trade now, and incoming ones go on behind them."""
        return not self.band_action and self.is_outside(price_ticks)

    def is_on_tick(self, price_ticks: int) -> bool:
        """Whether a price is one of the grid."""
        start = max((start for start in self.ticks if start <= price_ticks), default=None)
        return start is None or price_ticks % self.ticks[start] == 0
