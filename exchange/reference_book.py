"""Orders and sides of a book as the reference market holds them: objects, dicts and sorted lists."""

import dataclasses
from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import NamedTuple

from serl.exchange.records import Side


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
    """An order in the book, or on its way there. Filled is total_lots - open_lots."""

    order_number: int  # 0 while it has never rested
    order_id: int
    price_ticks: int
    open_lots: int
    total_lots: int
    symbol: int
    participant: int
    side: int
    time_in_force: int
    flags: int


class BookSide:
    """The bids or the asks of a symbol."""

    def __init__(self, side: int) -> None:
        self.sign = -1 if side == Side.BUY else 1
        self.levels: dict[int, dict[int, Order]] = {}  # price -> order_number -> order, in time priority
        self.ranks: list[int] = []  # sign * price of every level, sorted: the best price comes first

    def add(self, order: Order) -> None:
        """Puts an order behind the last one of its price."""
        if order.price_ticks not in self.levels:
            self.levels[order.price_ticks] = {}
            insort(self.ranks, self.sign * order.price_ticks)
        self.levels[order.price_ticks][order.order_number] = order

    def remove(self, order: Order) -> None:
        """Takes an order out, and its level if it was the last one there."""
        level = self.levels[order.price_ticks]
        del level[order.order_number]
        if not level:
            del self.levels[order.price_ticks]
            del self.ranks[bisect_left(self.ranks, self.sign * order.price_ticks)]

    def crosses(self, limit_ticks: int) -> bool:
        """Whether an order of the other side with this limit trades here."""
        return bool(self.ranks) and self.ranks[0] <= self.sign * limit_ticks

    def can_fill(self, limit_ticks: int, qty_lots: int) -> bool:
        """Whether all of qty_lots can be traded within the limit."""
        found = 0
        for order in self.orders():
            if found >= qty_lots or self.sign * order.price_ticks > self.sign * limit_ticks:
                break
            found += order.open_lots
        return found >= qty_lots

    def orders(self) -> Iterator[Order]:
        """Best price first, then time priority."""
        for rank in self.ranks:
            yield from self.levels[self.sign * rank].values()

    def sums(self, depth: int = 0) -> Iterator[tuple[int, int, int]]:
        """(price, open lots, orders) of the best `depth` levels, of all with 0."""
        for rank in self.ranks[: depth or None]:
            level = self.levels[self.sign * rank].values()
            yield self.sign * rank, sum(order.open_lots for order in level), len(level)

    def validate(self) -> None:
        """AssertionError if levels, ranks and time priority do not belong together."""
        expected = sorted(self.sign * price for price in self.levels)
        assert self.ranks == expected, f"{self.ranks} are not the levels {expected}"
        for price, level in self.levels.items():
            assert level, f"price {price}: an empty level"
            assert list(level) == sorted(level), f"price {price}: not in time priority"
