"""Order books built from the feed: a snapshot, then deltas, and a new snapshot after each gap in the sequence numbers."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

BUFFERED_MAX = 100_000
"""Messages buffered until a snapshot arrives; beyond that the oldest are dropped, and the book needs another snapshot."""


class Level(NamedTuple):
    """A price level: its price, the displayed quantity and the number of orders there."""

    price_ticks: int
    qty_lots: int
    orders: int


class _FeedBook(ABC):
    """Applies feed messages [kind, epoch, previous, sequence, time_ns, items] by the rule of docs/protocol.md."""

    def __init__(self) -> None:
        self.needs_snapshot = True
        self.epoch = -1
        #: number of the last event that the book includes
        self.sequence = -1
        self.time_ns = 0
        self.gaps = 0
        self._buffered: deque[list[Any]] = deque(maxlen=BUFFERED_MAX)
        self._buffered_before = 0  # how many of them had arrived before the next snapshot was requested

    def apply(self, message: list[Any]) -> bool:
        """Applies a feed message; True if the book changed. A gap sets `needs_snapshot`."""
        if self.needs_snapshot:
            self._buffered.append(message)
            return False
        _, epoch, previous, sequence, time_ns, items = message
        if epoch == self.epoch and sequence <= self.sequence:
            return False
        if epoch != self.epoch or previous > self.sequence:
            self.needs_snapshot = True
            self.gaps += 1
            self._buffered.append(message)
            return False
        self._change(items)
        self.sequence, self.time_ns = sequence, time_ns
        return True

    def note_epoch(self, epoch: int) -> None:
        """Notes the epoch of a TIME message: after a restart of the exchange a book may be wrong although its topic has had no message since."""
        if epoch != self.epoch:
            self.distrust()

    def distrust(self) -> None:
        """Marks the book as needing a snapshot: the exchange may have been restarted, perhaps without its journal and so in the same epoch."""
        if not self.needs_snapshot:
            self.needs_snapshot = True
            self.gaps += 1
            self._buffered.clear()

    def apply_snapshot(self, reply: list[Any]) -> None:
        """Loads a snapshot reply [kind, request, epoch, sequence, time_ns, result], then applies the messages buffered since it was requested.

        Earlier ones are in the snapshot, or of an exchange that has been restarted without its journal, in the same epoch, and would be a gap
        behind every snapshot.
        """
        _, _, self.epoch, self.sequence, self.time_ns, result = reply
        self.needs_snapshot = False
        self._load(result)
        buffered = list(self._buffered)[self._buffered_before :]
        self._buffered.clear()
        for message in buffered:
            if message[1] == self.epoch:
                self.apply(message)
        self._buffered_before = len(self._buffered)

    @abstractmethod
    def _change(self, items: list[Any]) -> None:
        """Applies the items of a message."""

    @abstractmethod
    def _load(self, result: Any) -> None:
        """Replaces the book with a snapshot."""

    @abstractmethod
    def levels(self, side: int, depth: int = 0) -> list[Level]:
        """The best `depth` levels of a side (0 bids, 1 asks), best first; depth 0 means all."""

    @property
    def bid_ticks(self) -> int:
        """Best bid price, 0 without bids."""
        return next((level[0] for level in self.levels(0, 1)), 0)

    @property
    def ask_ticks(self) -> int:
        """Best ask price, 0 without asks."""
        return next((level[0] for level in self.levels(1, 1)), 0)


def depth_max(limits: Mapping[str, Any]) -> int:
    """Maximum number of levels per side in a snapshot, from the limits of an exchange; 0: no limit. Older exchanges do not name it."""
    return int(limits.get("depth_max", 0))


class L2Book(_FeedBook):
    """A book of price levels, from channel l2. On a side with more than `depth_max` levels it keeps the best ones, at least half of `depth_max`.

    Attributes:
        depth_max: maximum number of levels per side in a snapshot of the exchange; 0: no limit. A restarted exchange may have another limit.
    """

    def __init__(self, depth_max: int = 0) -> None:
        super().__init__()
        self.depth_max = depth_max
        self._sides: tuple[dict[int, tuple[int, int]], dict[int, tuple[int, int]]] = ({}, {})
        #: by side: the last price up to which it is complete, if the snapshot may have left out levels
        self._last_ticks: list[int | None] = [None, None]

    def _load(self, result: Any) -> None:
        for number, (side, levels) in enumerate(zip(self._sides, result, strict=True)):
            side.clear()
            side.update({price: (qty, orders) for price, qty, orders in levels})
            self._last_ticks[number] = levels[-1][0] if levels and len(levels) == self.depth_max else None

    def _change(self, items: list[Any]) -> None:
        for side, price, qty, orders in items:
            if not self.knows(side, price):
                continue
            if qty:
                self._sides[side][price] = (qty, orders)
            else:
                self._sides[side].pop(price, None)
            self.needs_snapshot |= self._last_ticks[side] is not None and 2 * len(self._sides[side]) < self.depth_max

    def knows(self, side: int, price_ticks: int) -> bool:
        """Whether a price is in the complete part of the book, before the levels that the snapshot may have left out."""
        last = self._last_ticks[side]
        return last is None or (price_ticks >= last if side == 0 else price_ticks <= last)

    def levels(self, side: int, depth: int = 0) -> list[Level]:
        """The best `depth` levels of a side (0 bids, 1 asks), best first; depth 0 means all."""
        prices = sorted(self._sides[side], reverse=side == 0)
        return [Level(price, *self._sides[side][price]) for price in (prices[:depth] if depth else prices)]


class L3Book(_FeedBook):
    """A book of single orders, from channel l3."""

    def __init__(self) -> None:
        super().__init__()
        #: [side, price_ticks, qty_lots] by order number; at each price in time priority
        self.orders: dict[int, list[int]] = {}

    def _load(self, result: Any) -> None:
        self.orders = {number: [side, price, qty] for number, side, price, qty in result}

    def _change(self, items: list[Any]) -> None:
        for action, number, side, price, qty in items:
            if action == 1:
                self.orders[number] = [side, price, qty]
                continue
            order = self.orders[number]
            order[2] -= qty
            if order[2] <= 0:
                del self.orders[number]

    def levels(self, side: int, depth: int = 0) -> list[Level]:
        """The best `depth` levels of a side (0 bids, 1 asks), best first; depth 0 means all."""
        totals: dict[int, list[int]] = {}
        for order_side, price, qty in self.orders.values():
            if order_side == side:
                total = totals.setdefault(price, [0, 0])
                total[0] += qty
                total[1] += 1
        prices = sorted(totals, reverse=side == 0)
        return [Level(price, *totals[price]) for price in (prices[:depth] if depth else prices)]
