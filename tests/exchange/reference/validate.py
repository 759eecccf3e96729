"""What must hold of a reference market between two commands."""

from serl.exchange.records import ACCOUNT_COLUMNS, Phase, Queue, Side, TimeInForce
from tests.exchange.reference.book import ALL_OR_NONE, MARKET, WAITING, Book, Order, QueueSide
from tests.exchange.reference.state import HIDDEN, State
from tests.exchange.reference.triggers import pending_trigger


def validate(state: State) -> None:
    """AssertionError, saying what, if any invariant does not hold."""
    for symbol, book in enumerate(state.books):
        for queue, sides in enumerate(book.queues):
            for side, orders in enumerate(sides):
                _validate_side(orders)
                for order in orders.orders():
                    where = order.symbol, order.queue, order.place
                    assert where == (symbol, queue, side), f"{order}: stands in {symbol, queue, side}"
                    _validate_order(state, book, order)
        _validate_book(state, symbol, book)
    resting = {order.key: order for order in state.resting()}
    assert resting == state.open, "the orders in the books are not those that can be cancelled"
    assert state.expiring == {key: order for key, order in resting.items() if order.expire_ns}, "other orders expire"
    assert all(len(account) == ACCOUNT_COLUMNS for account in state.accounts), "an account has one column a setting"
    numbers = [order.order_number for order in resting.values()]
    assert len(set(numbers)) == len(numbers), "two orders have one order_number"
    assert max(numbers, default=0) <= state.order_number, "an order_number was not given out yet"
    for symbol in range(len(state.books)):
        kept = [balances for account, balances in state.balances.items() if account[1] == symbol]
        for name in ("position_lots", "cash_ticks"):
            total = sum(getattr(balances, name) for balances in kept)
            assert total == 0, f"{name} of symbol {symbol} must sum to zero over participants, got {total}"


def _validate_side(side: QueueSide) -> None:
    expected = sorted(side.sign * price for price in side.levels)
    assert side.ranks == expected, f"{side.ranks} are not the levels {expected}"
    for price, level in side.levels.items():
        assert level, f"price {price}: an empty level"
        assert list(level) == sorted(level), f"price {price}: not in time priority"
        for number, order in level.items():
            assert (order.queue_ticks, order.order_number) == (price, number), f"{order}: stands at {price} as {number}"


def _validate_order(state: State, book: Book, order: Order) -> None:
    assert order.open_lots > 0 and order.leaves_lots <= order.total_lots, f"{order}: open must be in 1..total"
    assert 0 <= order.min_lots <= order.open_lots, f"{order}: a minimum above what is open"
    assert not order.min_lots or not order.flags & ALL_OR_NONE, f"{order}: two minimums"
    assert not order.reserve_lots or (order.queue == Queue.DISPLAYED and order.open_lots <= order.display_lots), (
        f"{order}: a reserve without a display"
    )
    assert order.queue == Queue.STOP or order.waits or not (order.trigger_ticks or order.trail_ticks), (
        f"{order}: a trigger elsewhere"
    )
    _validate_family(state, order)
    assert not order.touch_ticks or not (order.stop_ticks or order.trail_ticks), f"{order}: two triggers"
    _validate_place(state, book, order)
    if order.link:
        other = state.open.get(order.linked_key)
        assert other is not None and other.link == order.order_id, f"{order}: its link is not mutual"
        assert other.updates == order.updates, f"{order}: its link is of two kinds"
    assert (order.time_in_force == TimeInForce.GTT) == bool(order.expire_ns), f"{order}: GTT and a time go together"
    if order.queue != Queue.STOP and not order.waits:
        assert order.time_in_force not in (TimeInForce.IOC, TimeInForce.FOK), f"{order}: must not rest"


def _validate_place(state: State, book: Book, order: Order) -> None:
    """Each queue holds its kinds of orders only, at their prices."""
    own_price = order.price_ticks or state.worst_price(order.side)
    min_qty = bool(order.min_lots or order.flags & ALL_OR_NONE)
    hidden = bool(order.flags & HIDDEN or order.peg or order.flags & MARKET)
    price, fits = own_price, False
    if order.queue == Queue.DISPLAYED:
        fits = not min_qty and not hidden
    elif order.queue == Queue.HIDDEN:
        fits, price = hidden and not min_qty, order.queue_ticks if order.peg else own_price
        assert not order.flags & MARKET or book.phase != Phase.CONTINUOUS, f"{order}: a market order in CONTINUOUS"
    elif order.queue == Queue.MIN_QTY:
        fits = min_qty
    elif order.queue == Queue.STOP:
        fits, price = bool(order.trigger_ticks), order.trigger_ticks
    elif order.queue == Queue.INACTIVE:
        fits = bool(order.peg or order.waits) or order.time_in_force == TimeInForce.AT_CLOSE
    assert fits, f"{order}: is not an order of {Queue(order.queue).name}"
    assert order.queue_ticks == price, f"{order}: must stand at {price}"


def _validate_family(state: State, order: Order) -> None:
    """Parents and children name each other."""
    assert not order.waits or order.queue == Queue.INACTIVE, f"{order}: waits elsewhere"
    if order.child:
        child = state.open[order.child_key]
        assert child.waits == WAITING and child.parent == order.order_id, f"{order}: its child is another's"
    if order.parent:
        assert order.waits == WAITING, f"{order}: is due, but has a parent"
        assert state.open[order.participant, order.parent].child == order.order_id, (
            f"{order}: is not its parent's child"
        )


def _validate_book(state: State, symbol: int, book: Book) -> None:
    for queue in set(Queue) - {Queue.INACTIVE}:  # pegged orders go there whatever there is
        assert book.level_count(queue) <= state.limits.levels_max, (
            f"symbol {symbol}: more levels in {queue.name} than levels_max"
        )
    pegged = {order.key for order in book.orders() if order.peg}
    assert book.pegged.keys() == pegged, f"symbol {symbol}: other orders are pegged"
    waiting = {order.key for order in book.orders() if order.waits}
    assert book.waiting.keys() == waiting, f"symbol {symbol}: other orders wait"
    trailing = {order.key for order in book.orders() if order.trail_ticks}
    assert book.trailing.keys() == trailing, f"symbol {symbol}: other stops trail"
    if book.phase == Phase.CONTINUOUS:
        for bids in book.trading(Side.BUY)[:2]:
            for asks in book.trading(Side.SELL)[:2]:
                crossed = bool(bids.ranks) and asks.crosses(-bids.ranks[0])
                assert not crossed, f"symbol {symbol}: the book is crossed"
        if not book.halted:
            pending = pending_trigger(state, book)
            assert pending is None, f"symbol {symbol}: {pending} should have happened"
