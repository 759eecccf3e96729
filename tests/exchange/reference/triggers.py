"""Settling of the reference market: what happens by itself behind a command, and before it when time has passed."""

from serl.exchange.records import EventKind, Phase, Queue, Reason, Side
from tests.exchange.reference.book import Book, Order
from tests.exchange.reference.funds import new_exceeds_balance
from tests.exchange.reference.match import NO_EVENT, activate, would_trade
from tests.exchange.reference.state import State, hidden_flag


def expire(state: State) -> None:
    """Cancels what the time of the command has ended."""
    now = state.command.time_ns
    ended = [order for order in state.expiring.values() if order.expire_ns <= now]
    if not ended:
        return
    for order in sorted(ended, key=lambda order: (order.expire_ns, order.order_number)):
        if order.key in state.open:  # not cancelled with the one that it was linked with
            state.cancel(order, Reason.EXPIRED)
    run_triggers(state)


def run_triggers(state: State) -> None:
    """Symbol by symbol, until a pass over all of them finds nothing to do."""
    state.event_command_id = 0
    again = True
    while again:
        again = False
        for book in state.books:
            if book.triggers_pending:
                again, book.triggers_pending = True, False
                _run_triggers_of(state, book)


def _run_triggers_of(state: State, book: Book) -> None:
    while book.phase == Phase.CONTINUOUS and not book.halted:
        if book.has_no_triggers():
            book.high_ticks = book.low_ticks = book.last_ticks
            break
        if _activate_child(state, book) or _trigger_stop(state, book):
            continue
        book.high_ticks = book.low_ticks = book.last_ticks
        if not _move_trailing_stops(state, book) and not _move_peg(state, book) and not _activate_min_qty(state, book):
            break
    book.triggers_pending = False


def pending_trigger(state: State, book: Book) -> Order | None:
    """An order to which something would happen in settling, if there is one."""
    late = [order for order in book.trailing.values() if _trailed_stop_ticks(book, order) != order.stop_ticks]
    moved = next(iter([*late, *_off_peg_price(state, book)]), None)
    return moved or book.first_due() or _next_stop(book) or _first_fillable(state, book)


def _move_trailing_stops(state: State, book: Book) -> bool:
    """Whether trailing stops were behind the last trade; they follow it."""
    behind = [order for order in book.trailing.values() if _trailed_stop_ticks(book, order) != order.stop_ticks]
    for order in sorted(behind, key=lambda order: order.order_number):
        if order.key in state.open:  # not cancelled with the one that it was linked with
            state.dequeue(order)
            order.stop_ticks = _trailed_stop_ticks(book, order)
            state.rest(order, Queue.STOP, order.stop_ticks, None)
    return bool(behind)


def _trailed_stop_ticks(book: Book, order: Order) -> int:
    if not book.last_ticks:
        return order.stop_ticks
    if order.side == Side.BUY:
        return min(order.stop_ticks, book.last_ticks + order.trail_ticks)
    return max(order.stop_ticks, book.last_ticks - order.trail_ticks)


def _activate_child(state: State, book: Book) -> bool:
    """Whether an order waited for one that is filled; the first of them comes to the market."""
    order = book.first_due()
    if order is None:
        return False
    state.emit(EventKind.TRIGGERED, order, qty_lots=order.leaves_lots, flags=hidden_flag(order))
    state.dequeue(order)
    order.waits = 0
    if new_exceeds_balance(state, order):
        state.cancel(order, Reason.LIMIT_BALANCE)
    elif order.trigger_ticks:
        state.rest(order, *state.target_queue(order), EventKind.RESTED)
    else:
        activate(state, order, *state.target_queue(order), EventKind.RESTED)
    return True


def _trigger_stop(state: State, book: Book) -> bool:
    """Whether a stop was due; the first of them comes to the market."""
    order = _next_stop(book)
    if order is None:
        return False
    state.emit(EventKind.TRIGGERED, order, qty_lots=order.leaves_lots, flags=hidden_flag(order))
    state.dequeue(order)
    order.stop_ticks = order.touch_ticks = order.trail_ticks = 0
    if not order.updates:
        state.end_link(order)
    activate(state, order, *state.target_queue(order), EventKind.RESTED)
    return True


def _next_stop(book: Book) -> Order | None:
    above, below = (orders.first() for orders in book.queues[Queue.STOP])
    if above is not None and book.last_ticks and above.trigger_ticks <= book.high_ticks:
        return above
    if below is not None and book.last_ticks and below.trigger_ticks >= book.low_ticks:
        return below
    return None


def _move_peg(state: State, book: Book) -> bool:
    """Whether a pegged order did not stand at its price; the oldest of them moves."""
    order = min(_off_peg_price(state, book), key=lambda order: order.order_number, default=None)
    if order is None:
        return False
    state.dequeue(order)
    queue, ticks = state.target_queue(order)
    if queue == Queue.INACTIVE:
        state.rest(order, queue, ticks, None)
    else:
        activate(state, order, queue, ticks, NO_EVENT)
    return True


def _off_peg_price(state: State, book: Book) -> list[Order]:
    return [
        order
        for order in book.pegged.values()
        if state.peg_price(order) != (order.queue_ticks if order.queue == Queue.HIDDEN else 0)
    ]


def _activate_min_qty(state: State, book: Book) -> bool:
    """Whether an order of MIN_QTY would trade as an incoming one; the first of them does."""
    order = _first_fillable(state, book)
    if order is None:
        return False
    limit = order.queue_ticks
    state.dequeue(order)
    activate(state, order, Queue.MIN_QTY, limit, EventKind.RESTED)
    return True


def _first_fillable(state: State, book: Book) -> Order | None:
    for side in book.queues[Queue.MIN_QTY]:
        for order in side.orders():
            if would_trade(state, order, order.queue_ticks):
                return order
    return None
