"""What is open by account: lots, orders, and what open orders reserve; docs/orders.md, Assets and balance checks."""

from serl.exchange.compiling import apart, inner, int64
from serl.exchange.kernel import order_index, wide
from serl.exchange.kernel.state import (
    BID,
    OPEN_COUNTED,
    RESERVED_BUYS,
    RESERVED_HIGH,
    RESERVED_LOW,
    RESERVED_SELLS,
    State,
)


@inner
def total_open_lots(state: State, slot: int) -> int:
    """Everything open of an order, its reserve included."""
    order = state.orders[slot]
    return order.open_lots + state.extras[slot].reserve_lots if order.special else order.open_lots


@inner
def order_limit(state: State, slot: int) -> int:
    """Its limit as sent, 0 = none."""
    return state.extras[slot].limit_ticks if state.orders[slot].special else state.orders[slot].price_ticks


@inner
def count_open(state: State, slot: int, lots: int, orders: int) -> None:
    """Keeps the account's open lots and orders, where anybody has a limit on them."""
    if state.counters.counts_open != 0:
        order = state.orders[slot]
        state.open_lots[order.participant, order.symbol, order.side] += lots
        state.open_orders[order.participant] += orders


@inner
def waits(state: State, slot: int) -> bool:
    """Whether an order waits for its parent, or is due because that is filled."""
    return state.orders[slot].special != 0 and state.extras[slot].waits != 0


@inner
def price_to_reserve(state: State, limit: int, trigger: int) -> int:
    """The price at which an order that rests counts: its limit, else its stop or touch price, else the highest."""
    if limit != 0:
        return limit
    return trigger if trigger != 0 else state.counters.price_ticks_max


@inner
def reserved_price(state: State, slot: int) -> int:
    """The same of an order in a queue."""
    trigger = 0
    if state.orders[slot].special:
        trigger = state.extras[slot].stop_ticks | state.extras[slot].touch_ticks  # never both
    return price_to_reserve(state, order_limit(state, slot), trigger)


@inner
def shared_with(
    state: State, participant: int, symbol: int, side: int, link: int, back: int, lots: int, price: int
) -> tuple[int, int]:
    """(lots, price) that an order shares with the one that it names as linked, which rests on its side; zeros if there is none.
    `back`: the order_id that the other one names."""
    slot = order_index.find(state, participant, link) if link != 0 else -1
    if slot < 0 or state.orders[slot].symbol != symbol or state.orders[slot].side != side or waits(state, slot):
        return 0, 0
    if (state.extras[slot].link if state.orders[slot].special else 0) != back:
        return 0, 0
    return min(lots, total_open_lots(state, slot)), min(price, reserved_price(state, slot))


@inner
def shared_lots(state: State, slot: int) -> tuple[int, int]:
    """The same of an order in a queue."""
    order = state.orders[slot]
    link = state.extras[slot].link if order.special and not waits(state, slot) else 0
    lots, price = total_open_lots(state, slot), reserved_price(state, slot)
    return shared_with(
        state, int64(order.participant), int64(order.symbol), int64(order.side), link, order.order_id, lots, price
    )


@inner
def _add_reserve(state: State, slot: int, lots: int, price: int) -> None:
    order = state.orders[slot]
    reserves = state.reserves[order.participant, order.symbol]
    if order.side == BID:
        reserves[RESERVED_HIGH], reserves[RESERVED_LOW] = wide.add(
            reserves[RESERVED_HIGH], reserves[RESERVED_LOW], lots * price
        )
        reserves[RESERVED_BUYS] += lots
    else:
        reserves[RESERVED_SELLS] += lots


@apart
def _count_reserve(state: State, slot: int, sign: int) -> None:
    """Adds what an order in a queue reserves, or takes it off. One that waits for its parent reserves nothing."""
    if waits(state, slot):
        return
    _add_reserve(state, slot, sign * total_open_lots(state, slot), reserved_price(state, slot))
    _count_shared(state, slot, -sign)


@apart
def _count_shared(state: State, slot: int, sign: int) -> None:
    """The same for what it shares."""
    lots, price = shared_lots(state, slot)
    _add_reserve(state, slot, sign * lots, price)


@inner
def reserve(state: State, slot: int) -> None:
    """Counts what an order in a queue reserves, behind a change of it."""
    if state.counters.counts_reserves != 0:
        _count_reserve(state, slot, 1)


@inner
def release(state: State, slot: int) -> None:
    """Takes back what `reserve` counted, ahead of a change."""
    if state.counters.counts_reserves != 0:
        _count_reserve(state, slot, -1)


@inner
def unshare(state: State, slot: int) -> None:
    """Counts in full what an order in a queue shares, ahead of the end of its link."""
    if state.counters.counts_reserves != 0:
        _count_shared(state, slot, 1)


@inner
def start_counting_reserves(state: State) -> None:
    """From now on what open orders reserve is counted by account. O(orders), once."""
    if state.counters.counts_reserves != 0:
        return
    state.counters.counts_reserves = 1
    for slot in range(state.orders.size):
        order = state.orders[slot]
        if order.open_lots > 0 and not waits(state, slot):
            _add_reserve(state, slot, total_open_lots(state, slot), reserved_price(state, slot))
            lots, price = shared_lots(state, slot)
            if lots != 0 and order.order_id > state.extras[slot].link:  # once for both
                _add_reserve(state, slot, -lots, price)
    for symbol in range(state.halted.size):
        state.needs_full_book[symbol] |= OPEN_COUNTED
