"""Settling of the reference market: what happens by itself behind a command, and before it when time has passed."""

from serl.exchange.records import EventKind, Phase, Queue, Reason, Side
from tests.exchange.reference.book import Book, Order
from tests.exchange.reference.match import SILENT, come_to_market, would_trade
from tests.exchange.reference.state import State, unseen


def expire(state: State) -> None:
    """Cancels what the time of the command has ended."""
    now = state.command.time_ns
    ended = [order for order in state.expiring.values() if order.expire_ns <= now]
    if not ended:
        return
    for order in sorted(ended, key=lambda order: (order.expire_ns, order.order_number)):
        if order.key in state.open:  # not cancelled with the one that it was linked with
            state.cancel(order, Reason.EXPIRED)
    settle(state)


def settle(state: State) -> None:
    """Symbol by symbol, until a pass over all of them finds nothing to do."""
    state.answers = 0
    again = True
    while again:
        again = False
        for book in state.books:
            if book.unsettled:
                again, book.unsettled = True, False
                _settle(state, book)


def _settle(state: State, book: Book) -> None:
    while book.phase == Phase.CONTINUOUS and not book.halted:
        if book.is_plain():
            book.high_ticks = book.low_ticks = book.last_ticks
            break
        if _trigger(state, book):
            continue
        book.high_ticks = book.low_ticks = book.last_ticks
        if not _trail(state, book) and not _move_peg(state, book) and not _meet_condition(state, book):
            break
    book.unsettled = False


def pending(state: State, book: Book) -> Order | None:
    """An order to which something would happen in settling, if there is one."""
    late = [order for order in book.trailing.values() if _stop_behind(book, order) != order.stop_ticks]
    return next(iter([*late, *_misplaced(state, book)]), None) or _due(book) or _first_to_meet(state, book)


def _trail(state: State, book: Book) -> bool:
    """Whether trailing stops were behind the last trade; they follow it."""
    behind = [order for order in book.trailing.values() if _stop_behind(book, order) != order.stop_ticks]
    for order in sorted(behind, key=lambda order: order.order_number):
        if order.key in state.open:  # not cancelled with the one that it was linked with
            state.take_out(order)
            order.stop_ticks = _stop_behind(book, order)
            state.rest(order, Queue.STOP, order.stop_ticks, None)
    return bool(behind)


def _stop_behind(book: Book, order: Order) -> int:
    if not book.last_ticks:
        return order.stop_ticks
    if order.side == Side.BUY:
        return min(order.stop_ticks, book.last_ticks + order.trail_ticks)
    return max(order.stop_ticks, book.last_ticks - order.trail_ticks)


def _trigger(state: State, book: Book) -> bool:
    """Whether a stop was due; the first of them comes to the market."""
    order = _due(book)
    if order is None:
        return False
    state.tell(EventKind.TRIGGERED, order, qty_lots=order.left_lots, flags=unseen(order))
    state.take_out(order)
    order.stop_ticks = order.trail_ticks = 0
    state.end_link(order)
    come_to_market(state, order, *state.destination(order), EventKind.RESTED)
    return True


def _due(book: Book) -> Order | None:
    buys, sells = book.queues[Queue.STOP]
    buy, sell = buys.first(), sells.first()
    if buy is not None and book.last_ticks and buy.stop_ticks <= book.high_ticks:
        return buy
    if sell is not None and book.last_ticks and sell.stop_ticks >= book.low_ticks:
        return sell
    return None


def _move_peg(state: State, book: Book) -> bool:
    """Whether a pegged order did not stand at its price; the oldest of them moves."""
    order = min(_misplaced(state, book), key=lambda order: order.order_number, default=None)
    if order is None:
        return False
    state.take_out(order)
    queue, ticks = state.destination(order)
    if queue == Queue.WAITING:
        state.rest(order, queue, ticks, None)
    else:
        come_to_market(state, order, queue, ticks, SILENT)
    return True


def _misplaced(state: State, book: Book) -> list[Order]:
    return [
        order
        for order in book.pegged.values()
        if state.peg_price(order) != (order.queue_ticks if order.queue == Queue.HIDDEN else 0)
    ]


def _meet_condition(state: State, book: Book) -> bool:
    """Whether an order of CONDITIONAL would trade as an incoming one; the first of them does."""
    order = _first_to_meet(state, book)
    if order is None:
        return False
    limit = order.queue_ticks
    state.take_out(order)
    come_to_market(state, order, Queue.CONDITIONAL, limit, EventKind.RESTED)
    return True


def _first_to_meet(state: State, book: Book) -> Order | None:
    for side in book.queues[Queue.CONDITIONAL]:
        for order in side.orders():
            if would_trade(state, order, order.queue_ticks):
                return order
    return None
