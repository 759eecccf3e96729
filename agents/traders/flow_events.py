"""How kinds/neural_flow.py observes the live book, and which order it sends for a token. All functions read and write the trader's memory."""

import math
from typing import Any

from serl.agents.traders.flow_features import AGE_MAX_LOG_S, BOOK, INPUTS, STATE, add_event, put_level
from serl.agents.traders.flow_network import AGES, LOGITS_AT, SCRATCH, SIZES, STARTS, WAITS, draw_class, forbid
from serl.agents.traders.flow_opening import AGE_NS, LOTS, PRICE_TICKS, SIDE, STEP_NS
from serl.agents.traders.flow_tables import draw_lots, quantile
from serl.agents.traders.flow_tokens import (
    CANCEL_AT,
    GAP,
    INSIDE,
    JOIN,
    LEVELS,
    LOCAL,
    TOKENS,
    TRADE_LESS,
    TRADE_THROUGH,
    TRADE_TOUCH,
    inside_ticks,
)
from serl.agents.traders.random import uniform
from serl.agents.traders.trader_api import (
    BUY,
    CANCEL,
    IOC,
    SELL,
    cancel,
    flow_field,
    flow_rows,
    limit,
    market_order,
    own_price,
    own_side,
    own_since,
    post,
    recall,
    remember,
    sleep,
    take,
    value_at,
)
from serl.exchange.compiling import inlined

RESERVE = 6
"""Number of orders kept behind the visible levels of a side."""
FAR = 3.0
"""Orders farther behind the touch than this many times the visible range are cancelled."""
SWEEP_MAX = 16

STATE_AT = 1
"""First slot of the state in the trader's memory; slot 0 says whether the state has started."""
BOOK_AT = STATE_AT + STATE
_DEEP = BOOK_AT + BOOK  # per side: own orders behind the visible levels, price of the farthest
INPUTS_AT = _DEEP + 4
SCRATCH_AT = INPUTS_AT + INPUTS
_SENT_FROM = SCRATCH_AT + SCRATCH  # time of the first order of an opening
_HEARD_AT = _SENT_FROM + 1  # public orders and trades seen so far
_SENT_COUNT = _HEARD_AT + 1
_SENT_AT = _SENT_COUNT + 1  # of each of the last orders: 1 + its kind, 0 once it was seen; its price
SENT_MAX = 32
MEMORY = _SENT_AT + 2 * SENT_MAX
_AGE_EDGES, _LOW, _HIGH = STARTS["age_log_s"], STARTS["size_low_lots"], STARTS["size_high_lots"]
_GAPS, _DEEP_LOTS = STARTS["deep_gap_ticks"], STARTS["deep_lots"]
_SPREAD, _VISIBLE = STARTS["opening_spread_ticks"], STARTS["visible_levels"]


@inlined
def address(market: Any, slot: int) -> int:
    """The address of a slot of the trader's memory."""
    return int(market.memory_address + 8 * slot)


@inlined
def _side_price(market: Any, side: int, level: int) -> int:
    return int(market.bid_price[level] if side == BUY else market.ask_price[level])


@inlined
def _levels(market: Any, numbers: Any, side: int) -> int:
    """Number of visible levels of a side."""
    return min(int(market.bid_levels if side == BUY else market.ask_levels), int(numbers[_VISIBLE]))


@inlined
def _orders_slot(side: int, level: int) -> int:
    """Slot of the number of own orders at a level; the age of the youngest is LEVELS slots further."""
    return BOOK_AT + (4 * side + 2) * LEVELS + level


@inlined
def _age_log_s(profile: Any, market: Any, index: int) -> float:
    """ln of an own order's age, in the flow's time."""
    sent_ns = own_since(market, index)
    age_ns = profile.pace * (market.time_ns - sent_ns)
    number = int((sent_ns - recall(market, _SENT_FROM)) / STEP_NS)
    if number < profile.orders_open:
        age_ns += profile.orders[number, AGE_NS]
    return math.log(1e-9 * max(1.0, age_ns))


@inlined
def send_opening(profile: Any, market: Any, requests: Any) -> bool:
    """Sends the next order of an opening; returns False if none is left."""
    if recall(market, _SENT_FROM) == 0.0:
        remember(market, _SENT_FROM, 1.0 * market.time_ns)
    number = int((market.time_ns - recall(market, _SENT_FROM)) / STEP_NS)
    if number >= profile.orders_open:
        return False
    order = profile.orders[number]
    limit(requests, int(order[SIDE]), int(order[PRICE_TICKS]), int(order[LOTS]))
    sleep(requests, market, 1.0 * STEP_NS)
    return True


@inlined
def note_sent(market: Any, requests: Any) -> None:
    """Records kind and price (none for market orders) of the orders of this wake-up, to distinguish them from those of others."""
    for index in range(requests.count):
        request = requests.rows[index]
        if request[0] != CANCEL:
            slot = _SENT_AT + 2 * (int(recall(market, _SENT_COUNT)) % SENT_MAX)
            takes = request[4] == IOC
            remember(market, slot, 1.0 + request[1] + (2 if takes else 0))
            remember(market, slot + 1, 0.0 if takes else 1.0 * request[2])
            remember(market, _SENT_COUNT, recall(market, _SENT_COUNT) + 1.0)


@inlined
def skip_heard(market: Any, requests: Any) -> None:
    """Ends a wake-up in which the events of others are ignored."""
    remember(market, _HEARD_AT, 1.0 * market.flow_count)
    note_sent(market, requests)


@inlined
def _is_own(market: Any, kind: int, price: int) -> bool:
    """Whether a public order or trade is one that this trader sent; each counts once."""
    for number in range(SENT_MAX):
        slot = _SENT_AT + 2 * number
        if recall(market, slot) == 1.0 + kind and (kind >= 2 or recall(market, slot + 1) == price):
            remember(market, slot, 0.0)
            return True
    return False


@inlined
def hear_others(market: Any, mid: float) -> None:
    """Adds what others did since the last wake-up to the averages, like the messages of a day: their trades and displayed orders. The fills of one
    order are one trade; orders are classified by the book at that wake-up."""
    state, before_ns, before = address(market, STATE_AT), -1, -1
    count = min(int(market.flow_count - recall(market, _HEARD_AT)), flow_rows(market))
    remember(market, _HEARD_AT, 1.0 * market.flow_count)
    for back in range(count - 1, -1, -1):
        time_ns, kind, price = flow_field(market, back, 0), flow_field(market, back, 1), flow_field(market, back, 2)
        continues = time_ns == before_ns and kind == before and kind >= 2
        before_ns, before = time_ns, kind
        if continues or _is_own(market, kind, price):
            continue
        side = kind & 1
        better = (price - int(recall(market, BOOK_AT + 4 * LEVELS * side))) * (1 if side == BUY else -1)
        local = TRADE_TOUCH if kind >= 2 else INSIDE if better > 0 else JOIN if better == 0 else JOIN + 1
        add_event(state, side * LOCAL + local, mid)


@inlined
def lean(market: Any, strength: float) -> None:
    """Makes events that move the price up (market orders and limit orders inside the spread) more probable by `strength` nats, and those that
    move it down less probable. A negative strength does the reverse."""
    for side in range(2):
        more = strength if side == BUY else -strength
        for local in range(LOCAL):
            if local < JOIN or local >= TRADE_LESS:
                slot = SCRATCH_AT + LOGITS_AT + side * LOCAL + local
                remember(market, slot, recall(market, slot) + more)


@inlined
def survey(profile: Any, market: Any) -> None:
    """Writes the visible book, the number of own orders at each level, and the own orders behind the visible levels. O(own orders)."""
    numbers = profile.numbers
    book = address(market, BOOK_AT)
    for side in range(2):
        shown = _levels(market, numbers, side)
        for level in range(LEVELS):
            price = _side_price(market, side, level) if level < shown else 0
            lots = (market.bid_qty[level] if side == BUY else market.ask_qty[level]) if level < shown else 0
            put_level(book, side, level, price, lots, 0, AGE_MAX_LOG_S)
        remember(market, _DEEP + 2 * side, 0.0)
        remember(market, _DEEP + 2 * side + 1, 1.0 * _side_price(market, side, shown - 1) if shown > 0 else 0.0)
    for index in range(market.orders_open):
        price, side = own_price(market, index), own_side(market, index)
        shown = _levels(market, numbers, side)
        if price == 0 or shown == 0:
            continue
        sign = 1 if side == BUY else -1
        if sign * (_side_price(market, side, shown - 1) - price) > 0:
            remember(market, _DEEP + 2 * side, recall(market, _DEEP + 2 * side) + 1.0)
            farthest = recall(market, _DEEP + 2 * side + 1)
            remember(
                market, _DEEP + 2 * side + 1, min(farthest, 1.0 * price) if side == BUY else max(farthest, 1.0 * price)
            )
            continue
        for level in range(shown):
            if _side_price(market, side, level) == price:
                slot = _orders_slot(side, level)
                remember(market, slot, recall(market, slot) + 1.0)
                remember(market, slot + LEVELS, min(recall(market, slot + LEVELS), _age_log_s(profile, market, index)))
                break


@inlined
def refill(agent: Any, numbers: Any, market: Any, requests: Any, side: int) -> None:
    """Adds an order behind the farthest own order of a side if there are too few."""
    short = _levels(market, numbers, side) < int(numbers[_VISIBLE])
    if recall(market, _DEEP + 2 * side) < RESERVE or short:
        gap = max(1, int(quantile(numbers[_GAPS:], 0, uniform(agent)) + 0.5))
        lots = draw_lots(agent, numbers[_DEEP_LOTS:], 0)
        price = int(recall(market, _DEEP + 2 * side + 1))
        post(requests, side, price - gap if side == BUY else price + gap, lots)


@inlined
def _open_side(agent: Any, numbers: Any, market: Any, requests: Any, side: int, price: int) -> None:
    """Fills an empty side from a price on."""
    for _ in range(int(numbers[_VISIBLE]) + RESERVE):
        limit(requests, side, price, draw_lots(agent, numbers[_DEEP_LOTS:], 0))
        gap = max(1, int(quantile(numbers[_GAPS:], 0, uniform(agent)) + 0.5))
        price = price - gap if side == BUY else price + gap


@inlined
def open_book(agent: Any, numbers: Any, market: Any, requests: Any) -> None:
    """Fills empty sides around the last price, or the value."""
    middle = int(market.last_ticks if market.last_ticks > 0 else value_at(market, market.time_ns))
    spread = max(1, int(numbers[_SPREAD]))
    ask = market.ask_ticks if market.ask_ticks > 0 else middle + spread // 2
    bid = market.bid_ticks if market.bid_ticks > 0 else middle - spread // 2
    if market.bid_ticks == 0:
        _open_side(agent, numbers, market, requests, BUY, ask - spread)
    if market.ask_ticks == 0:
        _open_side(agent, numbers, market, requests, SELL, bid + spread)


@inlined
def forbid_impossible(market: Any, numbers: Any) -> None:
    """Forbids tokens that the book does not allow."""
    scratch, spread = address(market, SCRATCH_AT), market.ask_ticks - market.bid_ticks
    for side in range(2):
        base, shown = side * LOCAL, _levels(market, numbers, side)
        if spread <= 1:
            forbid(scratch, base)
        if spread <= 2:
            for local in range(1, JOIN):
                forbid(scratch, base + local)
        for level in range(LEVELS):
            if level >= shown:
                forbid(scratch, base + JOIN + level)
            if level < LEVELS - 1 and (
                level + 1 >= shown or abs(_side_price(market, side, level + 1) - _side_price(market, side, level)) <= 1
            ):
                forbid(scratch, base + GAP + level)
            if recall(market, _orders_slot(side, level)) == 0.0:
                forbid(scratch, base + CANCEL_AT + level)
        if (market.ask_lots if side == BUY else market.bid_lots) <= 1:
            forbid(scratch, base + TRADE_LESS)


@inlined
def _cancel_of_age(profile: Any, market: Any, requests: Any, side: int, price: int, age_log_s: float) -> None:
    """Cancels the own order at a price whose ln age is nearest to `age_log_s`."""
    chosen, nearest = -1, 1e300
    for index in range(market.orders_open):
        if own_price(market, index) == price and own_side(market, index) == side:
            distance = abs(_age_log_s(profile, market, index) - age_log_s)
            if distance < nearest:
                chosen, nearest = index, distance
    if chosen >= 0:
        cancel(requests, market, chosen)


@inlined
def cancel_far(market: Any, numbers: Any, requests: Any) -> None:
    """Cancels orders that the market has left behind."""
    for index in range(min(market.orders_open, SWEEP_MAX)):
        price, side = own_price(market, index), own_side(market, index)
        last = _levels(market, numbers, side) - 1
        if price == 0 or last < 1:
            continue
        touch = _side_price(market, side, 0)
        if abs(price - touch) > FAR * abs(_side_price(market, side, last) - touch) + RESERVE:
            cancel(requests, market, index)


@inlined
def between(numbers: Any, at: int, draw: float) -> float:
    """A number between two consecutive edges."""
    return float(numbers[at] + (numbers[at + 1] - numbers[at]) * draw)


@inlined
def _draw_size(agent: Any, numbers: Any, scratch: int) -> int:
    """Draws a size in lots; logarithms are uniform within a class."""
    found = draw_class(scratch, TOKENS + WAITS, SIZES, uniform(agent))
    low, high = numbers[_LOW + found], numbers[_HIGH + found]
    return max(1, int(low * (high / low) ** uniform(agent) + 0.5))


@inlined
def act(agent: Any, profile: Any, market: Any, requests: Any, token: int) -> None:
    """Sends the order or cancellation that a token describes."""
    numbers = profile.numbers
    scratch, side, local = address(market, SCRATCH_AT), token // LOCAL, token % LOCAL
    sign = 1 if side == BUY else -1
    touch = market.bid_ticks if side == BUY else market.ask_ticks
    opposite, opposite_lots = (
        (market.ask_ticks, market.ask_lots) if side == BUY else (market.bid_ticks, market.bid_lots)
    )
    draw = uniform(agent)
    lots = _draw_size(agent, numbers, scratch)
    if local < JOIN:
        improvement = inside_ticks(local, market.ask_ticks - market.bid_ticks, draw)
        post(requests, side, touch + sign * improvement, lots)
    elif local < GAP:
        post(requests, side, _side_price(market, side, local - JOIN), lots)
    elif local < CANCEL_AT:
        near, far = _side_price(market, side, local - GAP), _side_price(market, side, local - GAP + 1)
        post(requests, side, near - sign * (1 + int(draw * (abs(far - near) - 1))), lots)
    elif local < TRADE_LESS:
        age = draw_class(scratch, TOKENS + WAITS + SIZES, AGES, uniform(agent))
        age_log_s = 1e9 if age == AGES - 1 else between(numbers, _AGE_EDGES + age, draw)
        _cancel_of_age(profile, market, requests, side, _side_price(market, side, local - CANCEL_AT), age_log_s)
    elif local == TRADE_LESS:
        take(requests, side, opposite, min(lots, opposite_lots - 1))
    elif local == TRADE_TOUCH:
        take(requests, side, opposite, opposite_lots)
    elif local == TRADE_THROUGH:
        market_order(requests, side, opposite_lots + lots)
