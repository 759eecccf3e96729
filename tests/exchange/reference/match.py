"""Incoming orders of the reference market: whom they meet, what they trade, and where the rest goes."""

from collections.abc import Iterator

from serl.exchange.records import (
    CommandFlag,
    EventKind,
    Phase,
    Queue,
    Reason,
    Rule,
    SelfTrade,
    Setting,
    Side,
    TimeInForce,
)
from tests.exchange.reference.book import MARKET, TO_LIMIT, Book, Order, QueueSide
from tests.exchange.reference.funds import affordable_ticks
from tests.exchange.reference.state import MAKER, NOT_DISPLAYED, RESTING, State, hidden_flag

POST_ONLY, REDUCE_ONLY = int(CommandFlag.POST_ONLY), int(CommandFlag.REDUCE_ONLY)
NO_EVENT = 0
"""Instead of the event of entry: none, and none either where the order does not trade."""
CANCELS_INCOMING = (SelfTrade.NEWEST, SelfTrade.BOTH, SelfTrade.DECREMENT)


# -- whom it meets ------------------------------------------------------------------------------------------------


def counterparty(book: Book, order: Order, limit_ticks: int) -> Order | None:
    """The resting order that an incoming one meets next. Outside a band of action 1 it is the one that interrupts trading."""
    displayed, hidden, min_qty = queues = book.trading(1 - order.side)
    if not hidden.ranks and not min_qty.ranks and not book.has_band():
        return displayed.first() if displayed.crosses(limit_ticks) else None
    for price in prices(queues, limit_ticks):
        if book.skips(price):
            continue
        for queue in (displayed, hidden):
            if price in queue.levels:
                return next(iter(queue.levels[price].values()))
        for other in min_qty.at(price):
            if order.open_lots >= other.minimum_lots:
                return other
    return None


def prices(queues: list[QueueSide], limit_ticks: int) -> Iterator[int]:
    """Prices within a limit at which orders of any of the queues stand, best first."""
    sign = queues[0].sign
    yield from sorted(
        {price for queue in queues for price in queue.prices(limit_ticks)}, key=lambda price: sign * price
    )


def would_trade(state: State, order: Order, limit_ticks: int) -> bool:
    """The section Books of a symbol: there is a counterparty, and a minimum can be met."""
    book = state.books[order.symbol]
    if order.minimum_lots:
        return tradable_lots(state, order, limit_ticks) >= order.minimum_lots
    return counterparty(book, order, limit_ticks) is not None


def tradable_lots(state: State, order: Order, limit_ticks: int) -> int:
    """How many lots an incoming order can surely trade, counted until its minimum is there."""
    book, mode, found = state.books[order.symbol], state.self_trade(order), 0
    queues = book.trading(1 - order.side)
    for price in prices(queues, limit_ticks):
        if book.skips(price):
            continue
        if book.is_outside(price) or (
            book.matching and mode in CANCELS_INCOMING and _has_own(order, queues[0].at(price))
        ):
            return found
        for queue in queues:
            reserves = 0
            for other in queue.at(price):
                if queue is queues[2] and order.open_lots - found < other.minimum_lots:
                    continue  # it is never met
                own = other.participant == order.participant
                if found >= order.minimum_lots or other.key == order.linked_key or (own and mode in CANCELS_INCOMING):
                    return found
                if other.flags & REDUCE_ONLY or _has_linked_here(state, other):
                    return found
                if not (own and mode == SelfTrade.OLDEST):
                    found += other.open_lots
                    reserves += other.reserve_lots
            found += reserves
    return found


def _has_linked_here(state: State, order: Order) -> bool:
    """Whether the linked order, which goes when this one trades, is one that could trade as well."""
    other = state.open[order.linked_key] if order.link else None
    return (
        other is not None
        and (other.symbol, other.side) == (order.symbol, order.side)
        and other.queue in (Queue.DISPLAYED, Queue.HIDDEN, Queue.MIN_QTY)
    )


def _has_own(order: Order, others: list[Order]) -> bool:
    return any(other.participant == order.participant for other in others)


# -- what it trades -----------------------------------------------------------------------------------------------


def trade(state: State, order: Order, limit_ticks: int) -> None:
    """Until nothing is left of an incoming order, nobody is there within its limit, or the band interrupts trading."""
    book, to_limit = state.books[order.symbol], order.flags & TO_LIMIT
    while order.open_lots:
        other = counterparty(book, order, limit_ticks)
        if other is None:
            return
        if book.is_outside(other.queue_ticks):
            _interrupt(state, order)
            return
        if book.matching and other.queue == Queue.DISPLAYED:
            _allocate_pro_rata(state, order, book.displayed[other.side].at(other.queue_ticks))
        else:
            _meet_counterparty(state, order, other, other.open_lots)
        if to_limit and not order.flags & TO_LIMIT:
            limit_ticks = order.price_ticks


def _allocate_pro_rata(state: State, order: Order, others: list[Order]) -> None:
    """A round of pro-rata at one price; ends early where an order is cancelled, as shares are others then."""
    displayed = sum(other.open_lots for other in others)
    shares = [min(other.open_lots, order.open_lots * other.open_lots // displayed) for other in others]
    spare = min(order.open_lots, displayed) - sum(shares)
    for place, other in enumerate(others):
        more = min(spare, other.open_lots - shares[place])
        shares[place], spare = shares[place] + more, spare - more
    here = (order.symbol, int(Queue.DISPLAYED), 1 - order.side, others[0].queue_ticks)
    state.cancelled_at.discard(here)
    for other, lots in zip(others, shares, strict=True):
        if lots and order.open_lots:
            _meet_counterparty(state, order, other, lots)
        if here in state.cancelled_at:
            return


def _meet_counterparty(state: State, order: Order, other: Order, lots: int) -> None:
    mode = state.self_trade(order)
    if other.participant == order.participant and mode != SelfTrade.NONE:
        _prevent_self_trade(state, order, other, mode)
    elif other.flags & REDUCE_ONLY and not state.reduces(other):
        state.cancel(other, Reason.NOT_REDUCING)
    else:
        _match(state, order, other, min(lots, order.open_lots))


def _prevent_self_trade(state: State, order: Order, other: Order, mode: int) -> None:
    """Self-trade prevention: the resting order first, then the incoming one if it is open still."""
    lots = min(order.open_lots, other.leaves_lots)
    if mode in (SelfTrade.OLDEST, SelfTrade.BOTH) or (mode == SelfTrade.DECREMENT and lots == other.leaves_lots):
        state.cancel(other, Reason.SELF_TRADE)
    elif mode == SelfTrade.DECREMENT:
        state.reduce_open(other, lots, 0, Reason.SELF_TRADE)
    if not order.open_lots or mode == SelfTrade.OLDEST:
        return
    if mode == SelfTrade.DECREMENT and lots < order.open_lots:
        order.reduce_open(lots)
        order.total_lots -= lots
        state.emit(EventKind.REDUCED, order, qty_lots=lots, reason=Reason.SELF_TRADE, flags=NOT_DISPLAYED)
    else:
        state.cancel(order, Reason.SELF_TRADE, state.event_command_id)


def _match(state: State, order: Order, other: Order, lots: int) -> None:
    price = other.queue_ticks
    fees = {other: Rule.MAKER_MICROTICKS, order: Rule.TAKER_MICROTICKS}
    exchange_lots(state, state.books[order.symbol], fees, lots, price)
    fill = {"price_ticks": price, "qty_lots": lots, "match_id": state.match_id}
    state.emit(EventKind.FILL, other, command_id=0, flags=MAKER | hidden_flag(other), **fill)
    state.emit(EventKind.FILL, order, **fill)
    if order.flags & TO_LIMIT:
        order.price_ticks = price
        order.flags &= ~(MARKET | TO_LIMIT)
    replenish_or_close(state, other)
    if not order.open_lots:
        state.finish(order)
    if other.link or order.link:
        if other.link and other.linked_key == order.key:
            end_link_between(state, order, other)
        else:
            state.follow_fill(other, lots)
            state.follow_fill(order, lots)


def exchange_lots(state: State, book: Book, fees: dict[Order, Rule], lots: int, price_ticks: int) -> None:
    """The new match between two orders, each with its fee: their open lots and balances, and the symbol's last trade."""
    state.match_id += 1
    for order in sorted(fees, key=lambda order: order.side):
        order.open_lots -= lots
        if order.min_lots > order.open_lots:
            order.min_lots = order.open_lots
        balances = state.balances[order.participant, order.symbol]
        balances.trade(lots if order.side == Side.BUY else -lots, price_ticks)
        balances.fees_microticks += state.fee_microticks(order, fees[order], lots, price_ticks)
        state.has_wide_balances = state.has_wide_balances or balances.is_wide()
    book.high_ticks = max(book.high_ticks, price_ticks)
    book.low_ticks = min(book.low_ticks or price_ticks, price_ticks)
    book.last_ticks = price_ticks
    book.triggers_pending = True


def replenish_or_close(state: State, order: Order) -> None:
    """Behind a fill of a resting order: out if nothing is left, the next part of an iceberg if its part is gone."""
    if order.open_lots:
        return
    if not order.reserve_lots:
        state.finish(order)
        return
    queue, price = order.queue, order.queue_ticks
    state.dequeue(order)
    state.place(order, queue, price)
    state.emit(EventKind.RESTED, order, qty_lots=order.open_lots, command_id=0)


def end_link_between(state: State, leaving: Order, staying: Order) -> None:
    """Two linked orders have traded with each other: the link ends, the rest of one is cancelled."""
    leaving.unlink(staying)
    if leaving.leaves_lots:
        state.cancel(leaving, Reason.LINKED)


# -- where it goes ------------------------------------------------------------------------------------------------


def activate(state: State, order: Order, queue: int, limit_ticks: int, entry: int) -> None:
    """In CONTINUOUS: trades and rests, or is cancelled. `entry`: ACCEPTED, RESTED behind another event of entry, or NO_EVENT."""
    if order.flags & MARKET:
        limit_ticks = state.limit_of(order)
        if order.side == Side.BUY and state.accounts[order.participant][Setting.BALANCE_CHECKS]:
            limit_ticks = min(limit_ticks, affordable_ticks(state, order))
    to_limit = order.flags & TO_LIMIT
    trades = would_trade(state, order, limit_ticks)
    if entry == EventKind.ACCEPTED:
        if not trades and order.may_rest() and not _is_blocked_by_band(state, order, limit_ticks):
            state.rest(order, queue, limit_ticks, EventKind.ACCEPTED, RESTING)
            return
        state.emit(EventKind.ACCEPTED, order, qty_lots=order.open_lots)
    if trades:
        if order.flags & POST_ONLY:  # a NEW or REPLACE was rejected before
            state.cancel(order, Reason.WOULD_CROSS, state.event_command_id)
            return
        if order.flags & REDUCE_ONLY and not state.reduces(order):
            state.cancel(order, Reason.NOT_REDUCING, state.event_command_id)
            return
        trade(state, order, limit_ticks)
    if not order.open_lots:
        return
    if to_limit:
        queue, limit_ticks = state.target_queue(order)
    if order.time_in_force == TimeInForce.FOK:
        state.cancel(order, Reason.FOK_UNFILLABLE, state.event_command_id)
    elif order.flags & MARKET:
        state.cancel(order, Reason.MARKET_REMAINDER, state.event_command_id)
    elif order.time_in_force == TimeInForce.IOC:
        state.cancel(order, Reason.IOC_REMAINDER, state.event_command_id)
    elif _is_blocked_by_band(state, order, limit_ticks):
        state.cancel(order, Reason.OUTSIDE_BAND, state.event_command_id)
    else:
        moves = order.peg and state.books[order.symbol].phase != Phase.CONTINUOUS  # the band has ended it
        if moves:
            queue, limit_ticks = state.target_queue(order)
        kind = EventKind.RESTED if trades or entry != NO_EVENT else None
        state.rest(order, queue, limit_ticks, kind, needs_room=not moves)


def _is_blocked_by_band(state: State, order: Order, limit_ticks: int) -> bool:
    """Whether an order must not rest, because it crosses one that stands outside a band of action 0."""
    book = state.books[order.symbol]
    if not book.has_band():
        return False
    return any(book.skips(price) for price in prices(book.trading(1 - order.side)[:2], limit_ticks))


def _interrupt(state: State, order: Order) -> None:
    """An incoming order would trade outside the band of a symbol."""
    book = state.books[order.symbol]
    leave_continuous(state, book, Phase.VOLATILITY)
    about = Order(0, 0, 0, 0, 0, order.symbol, order.participant, order.side, 0, 0)
    state.emit(EventKind.PHASED, about, command_id=0, flags=book.phase)


def leave_continuous(state: State, book: Book, phase: int) -> None:
    """The phase, and pegged orders wait where they stood for trading."""
    book.phase = phase
    for order in sorted(book.pegged.values(), key=lambda order: order.order_number):
        if order.queue == Queue.HIDDEN:
            state.dequeue(order)
            state.place(order, *state.target_queue(order))
