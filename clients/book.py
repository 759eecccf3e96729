"""Order books built from the feed."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

from serl.clients.feed_state import FeedState


class Level(NamedTuple):
    """A price level: its price, the displayed quantity and the number of orders there."""

    price_ticks: int
    qty_lots: int
    orders: int


class _FeedBook(FeedState):
    """Levels of both sides."""

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
