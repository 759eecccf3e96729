"""Converts feed messages of an exchange to NautilusTrader data."""

from collections.abc import Iterable
from typing import Any

from nautilus_trader.model.data import BookOrder, OrderBookDelta, OrderBookDeltas, QuoteTick, TradeTick
from nautilus_trader.model.enums import AggressorSide, BookAction, OrderSide, RecordFlag
from nautilus_trader.model.identifiers import TradeId

from serl.clients.book import L2Book, L3Book
from serl.exchange.gateway.feed_items import ADD
from serl.gateways.nautilus.instruments import SymbolUnits

SIDES = (OrderSide.BUY, OrderSide.SELL)
AGGRESSORS = (AggressorSide.BUYER, AggressorSide.SELLER)
AUCTION = 2
"""`off_book` of a trade in an auction."""
LAST = RecordFlag.F_LAST.value
SNAPSHOT = RecordFlag.F_SNAPSHOT.value

Change = tuple[BookAction, int, int, int, int]
"""Action, number of the order (0: a level), side, price_ticks, qty_lots afterwards."""


def changes_of(book: L2Book | L3Book, items: Iterable[list[int]]) -> list[Change]:
    """The changes made by a feed message; `book` is the book before it."""
    if isinstance(book, L2Book):
        return [
            (BookAction.UPDATE if lots else BookAction.DELETE, 0, side, ticks, lots)
            for side, ticks, lots, _ in items
            if book.knows(side, ticks)
        ]
    left: dict[int, int] = {}
    changes: list[Change] = []
    for action, number, side, ticks, lots in items:
        if action == ADD:
            left[number] = lots
            changes.append((BookAction.ADD, number, side, ticks, lots))
            continue
        before = left[number] if number in left else book.orders[number][2]
        left[number] = before - lots
        kind = BookAction.UPDATE if left[number] > 0 else BookAction.DELETE
        changes.append((kind, number, side, ticks, max(0, left[number])))
    return changes


def content_of(book: L2Book | L3Book) -> list[Change]:
    """The whole book as additions; at each price in time priority."""
    if isinstance(book, L3Book):
        return [(BookAction.ADD, number, side, ticks, lots) for number, (side, ticks, lots) in book.orders.items()]
    return [
        (BookAction.ADD, 0, side, level.price_ticks, level.qty_lots) for side in range(2) for level in book.levels(side)
    ]


def deltas_of(
    instrument: Any, units: SymbolUnits, changes: list[Change], sequence: int, time_ns: int, init_ns: int, *, snapshot: bool = False
) -> Any:  # fmt: skip
    """Creates `OrderBookDeltas`; a snapshot clears the book first. Only the last delta has the flag F_LAST, which is what the data engine looks for."""
    flags = SNAPSHOT if snapshot else 0
    deltas = []
    if snapshot:
        flag = flags if changes else LAST
        deltas.append(OrderBookDelta(instrument, BookAction.CLEAR, None, flag, sequence, time_ns, init_ns))
    for place, (action, number, side, ticks, lots) in enumerate(changes):
        order = BookOrder(SIDES[side], units.price(ticks), units.quantity(lots), number)
        flag = LAST if place == len(changes) - 1 else flags
        deltas.append(OrderBookDelta(instrument, action, order, flag, sequence, time_ns, init_ns))
    return OrderBookDeltas(instrument, deltas)


def quote_of(instrument: Any, units: SymbolUnits, best: list[int], time_ns: int, init_ns: int) -> Any | None:
    """Creates a `QuoteTick` from [bid_ticks, bid_lots, ask_ticks, ask_lots]; None if a side is empty."""
    bid, bid_lots, ask, ask_lots = best
    if not bid_lots or not ask_lots:
        return None
    return QuoteTick(
        instrument, units.price(bid), units.price(ask), units.quantity(bid_lots), units.quantity(ask_lots), time_ns, init_ns
    )  # fmt: skip


def trade_of(instrument: Any, units: SymbolUnits, item: list[int], time_ns: int, init_ns: int) -> Any:
    """Creates a `TradeTick` from an item of the channel `trade`."""
    match, _, ticks, lots, side, off_book = item
    aggressor = AggressorSide.NO_AGGRESSOR if off_book == AUCTION else AGGRESSORS[side]
    return TradeTick(
        instrument, units.price(ticks), units.quantity(lots), aggressor, TradeId(str(match)), time_ns, init_ns
    )
