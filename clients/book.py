"""Books that follow the feed: a snapshot, then deltas, and a new snapshot wherever the chain of sequences is broken."""

from typing import Any

Level = tuple[int, int, int]
"""(price_ticks, qty_lots, orders)."""
BUFFERED_MAX = 100_000
"""Messages kept while a snapshot is on its way; then the oldest go, and another snapshot will be needed."""


class _Follower:
    """The rule of docs/protocol.md for feed messages [kind, epoch, previous, sequence, time_ns, items]."""

    def __init__(self) -> None:
        self.needs_snapshot = True
        self.epoch = -1
        #: the last event that the book includes
        self.sequence = -1
        self.time_ns = 0
        self.gaps = 0
        self._waiting: list[list[Any]] = []

    def apply(self, message: list[Any]) -> bool:
        """Takes a feed message; True if the book changed. Where the chain is broken, `needs_snapshot` becomes True."""
        if self.needs_snapshot:
            self._waiting = [*self._waiting[-BUFFERED_MAX:], message]
            return False
        _, epoch, previous, sequence, time_ns, items = message
        if epoch == self.epoch and sequence <= self.sequence:
            return False
        if epoch != self.epoch or previous > self.sequence:
            self.needs_snapshot = True
            self.gaps += 1
            self._waiting = [message]
            return False
        self._change(items)
        self.sequence, self.time_ns = sequence, time_ns
        return True

    def apply_snapshot(self, reply: list[Any]) -> None:
        """Starts again from a snapshot reply [kind, request, epoch, sequence, time_ns, result], then what waited."""
        _, _, self.epoch, self.sequence, self.time_ns, result = reply
        self.needs_snapshot = False
        self._load(result)
        waiting, self._waiting = self._waiting, []
        for message in waiting:
            if message[1] == self.epoch:
                self.apply(message)

    def _change(self, items: list[Any]) -> None:
        raise AssertionError("a book says how its items change it")

    def _load(self, result: Any) -> None:
        raise AssertionError("a book says how its snapshot is read")

    def levels(self, side: int, depth: int = 0) -> list[Level]:
        """Levels of a side (0 bids, 1 asks), best first; all with depth 0."""
        raise AssertionError("a book knows its levels")

    @property
    def bid_ticks(self) -> int:
        """Best bid, 0 if there is none."""
        return next((level[0] for level in self.levels(0, 1)), 0)

    @property
    def ask_ticks(self) -> int:
        """Best ask, 0 if there is none."""
        return next((level[0] for level in self.levels(1, 1)), 0)


class L2Book(_Follower):
    """Price levels, from channel l2."""

    def __init__(self) -> None:
        super().__init__()
        self._sides: tuple[dict[int, tuple[int, int]], dict[int, tuple[int, int]]] = ({}, {})

    def _load(self, result: Any) -> None:
        for side, levels in zip(self._sides, result, strict=True):
            side.clear()
            side.update({price: (qty, orders) for price, qty, orders in levels})

    def _change(self, items: list[Any]) -> None:
        for side, price, qty, orders in items:
            if qty:
                self._sides[side][price] = (qty, orders)
            else:
                self._sides[side].pop(price, None)

    def levels(self, side: int, depth: int = 0) -> list[Level]:
        """Levels of a side (0 bids, 1 asks), best first; all with depth 0."""
        prices = sorted(self._sides[side], reverse=side == 0)
        return [(price, *self._sides[side][price]) for price in (prices[:depth] if depth else prices)]


class L3Book(_Follower):
    """Single orders, from channel l3; each price in time priority."""

    def __init__(self) -> None:
        super().__init__()
        #: order number: [side, price_ticks, qty_lots]
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
        """Levels of a side (0 bids, 1 asks), best first; all with depth 0."""
        totals: dict[int, list[int]] = {}
        for own, price, qty in self.orders.values():
            if own == side:
                total = totals.setdefault(price, [0, 0])
                total[0] += qty
                total[1] += 1
        prices = sorted(totals, reverse=side == 0)
        return [(price, totals[price][0], totals[price][1]) for price in (prices[:depth] if depth else prices)]
