"""Phases and auctions of the reference market."""

from serl.exchange.records import CommandFlag, EventKind, Phase, Queue, Reason, Rule, Side, TimeInForce
from tests.exchange.reference.book import MARKET, Book, Order
from tests.exchange.reference.match import end_link_between, exchange_lots, leave_continuous, replenish_or_close
from tests.exchange.reference.state import AUCTION, MAKER, State, hidden_flag

REDUCE_ONLY = int(CommandFlag.REDUCE_ONLY)
AUCTION_QUEUES = (int(Queue.DISPLAYED), int(Queue.HIDDEN))


def change_phase(state: State, book: Book, phase: int) -> None:
    """PHASE: an auction where one phase of collecting ends, then what moves into or out of INACTIVE."""
    price, lots = (0, 0)
    if book.ends_collecting(phase):
        price, lots = hold_auction(state, book)
    if book.phase == Phase.CONTINUOUS and phase != Phase.CONTINUOUS:
        leave_continuous(state, book, phase)
    book.phase = phase
    if phase == Phase.CLOSING:
        _activate_closing_orders(state, book)
    book.triggers_pending = True
    state.emit(EventKind.PHASED, price_ticks=price, qty_lots=lots, flags=phase)


def _activate_closing_orders(state: State, book: Book) -> None:
    """AT_CLOSE orders come to the auction that they have waited for."""
    waiting = [order for side in book.queues[Queue.INACTIVE] for order in side.orders()]
    for order in sorted(waiting, key=lambda order: order.order_number):
        if order.time_in_force == TimeInForce.AT_CLOSE and order.key in state.open:  # not cancelled with the one before
            state.dequeue(order)
            state.rest(order, *state.target_queue(order), EventKind.RESTED, command_id=0)


def hold_auction(state: State, book: Book) -> tuple[int, int]:
    """(price_ticks, lots): trades what it can at one price, then cancels what was for this auction only.

    Orders that are cancelled when they meet may leave others crossed: then it is held again, at another price.
    """
    first_price, lots = price_of(book)[0], 0
    while price := price_of(book)[0]:
        lots += _trade_at(state, book, price)
    _cancel_remainders(state, book)
    return first_price, lots


def price_of(book: Book) -> tuple[int, int, int]:
    """(price_ticks, volume_lots, demand - supply there) of an auction now; zeros where nothing would trade."""
    buys, demand = _lots_by_limit(book, Side.BUY)
    sells, supply = _lots_by_limit(book, Side.SELL)
    demand += sum(buys.values())
    found = []
    candidates = {*buys, *sells, book.last_ticks} - {0}  # 0: no trade so far
    for price in sorted(candidates):
        supply += sells.get(price, 0)
        found.append((price, min(demand, supply), demand - supply))
        demand -= buys.get(price, 0)
    volume = max((lots for _, lots, _ in found), default=0)
    if not volume:
        return 0, 0, 0
    smallest = min(abs(imbalance) for _, lots, imbalance in found if lots == volume)
    best = [(price, imbalance) for price, lots, imbalance in found if lots == volume and abs(imbalance) == smallest]
    centre = book.last_ticks or (best[0][0] + best[-1][0]) // 2
    price, imbalance = min(best, key=lambda each: (abs(each[0] - centre), each[0]))
    return price, volume, imbalance


def _lots_by_limit(book: Book, side: int) -> tuple[dict[int, int], int]:
    """(open lots by limit price, open lots without one), reserves included."""
    by_price: dict[int, int] = {}
    unlimited = 0
    for queue in AUCTION_QUEUES:
        for order in book.queues[queue][side].orders():
            if order.price_ticks:
                by_price[order.price_ticks] = by_price.get(order.price_ticks, 0) + order.leaves_lots
            else:
                unlimited += order.leaves_lots
    return by_price, unlimited


def _trade_at(state: State, book: Book, price_ticks: int) -> int:
    """Lots that trade at a price, pair by pair."""
    lots = 0
    while True:
        buy, sell = _first(state, book, Side.BUY), _first(state, book, Side.SELL)
        if buy is None or sell is None or buy.queue_ticks < price_ticks or sell.queue_ticks > price_ticks:
            return lots
        if sell.flags & REDUCE_ONLY and not state.reduces(sell):
            state.cancel(sell, Reason.NOT_REDUCING)
        elif buy.flags & REDUCE_ONLY and not state.reduces(buy):
            state.cancel(buy, Reason.NOT_REDUCING)
        else:
            lots += _match(state, buy, sell, price_ticks)


def _first(state: State, book: Book, side: int) -> Order | None:
    """Market orders, then by price, DISPLAYED before HIDDEN, the oldest."""
    for order in book.queues[Queue.HIDDEN][side].at(state.worst_price(side)):
        if order.flags & MARKET:
            return order
    displayed, hidden = (book.queues[queue][side].first() for queue in AUCTION_QUEUES)
    if displayed is None or hidden is None:
        return displayed or hidden
    sign = -1 if side == Side.BUY else 1
    if sign * hidden.queue_ticks < sign * displayed.queue_ticks:
        return hidden
    return displayed


def _match(state: State, buy: Order, sell: Order, price_ticks: int) -> int:
    lots = min(buy.open_lots, sell.open_lots)
    fees = dict.fromkeys((sell, buy), Rule.AUCTION_MICROTICKS)
    exchange_lots(state, state.books[sell.symbol], fees, lots, price_ticks)
    for order, flags in ((sell, MAKER | AUCTION), (buy, AUCTION)):
        state.emit(
            EventKind.FILL, order, price_ticks=price_ticks, qty_lots=lots, match_id=state.match_id,
            flags=flags | hidden_flag(order), command_id=0,
        )  # fmt: skip
    replenish_or_close(state, sell)
    replenish_or_close(state, buy)
    if sell.link and sell.linked_key == buy.key:
        end_link_between(state, buy, sell)
    else:
        state.follow_fill(sell, lots)
        state.follow_fill(buy, lots)
    return lots


def _cancel_remainders(state: State, book: Book) -> None:
    """By queue, side (bids first), price from best, time."""
    ended = {TimeInForce.AT_OPEN, TimeInForce.AT_CLOSE} if book.phase == Phase.CLOSING else {TimeInForce.AT_OPEN}
    remainders = [order for queue in AUCTION_QUEUES for side in book.queues[queue] for order in side.orders()]
    for order in remainders:
        if order.key in state.open:  # not cancelled with the one that it was linked with
            if order.flags & MARKET:
                state.cancel(order, Reason.MARKET_REMAINDER)
            elif order.time_in_force in ended:
                state.cancel(order, Reason.AUCTION_REMAINDER)
