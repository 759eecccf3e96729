"""The traders as a compiled state machine with events as input and commands as output; the same in process and in a host process.

The functions that wake a trader and show events to all traders are called by address. The addresses are in the handle of the Traders, so the
functions are compiled only once, whichever loop the traders trade in.
"""

from functools import cache
from typing import Any

import numpy as np
from numba import types

from serl.agents.traders import heap, open_orders
from serl.agents.traders.addresses import call_trader
from serl.agents.traders.handle import traders_at
from serl.agents.traders.legs import fill_legs
from serl.agents.traders.records import (
    AGENT,
    BOUGHT_LOTS,
    FLOW_COUNT,
    FLOW_ROWS,
    IN_FLIGHT,
    IN_FLIGHT_FREE,
    LAST_TICKS,
    LEG_SHIFT,
    NO_SLEEP,
    NO_WAKE_UP,
    NODES_USED,
    OUTSIDE,
    OUTSIDE_SLOT,
    REQUEST_BITS,
    REQUESTS_DROPPED,
    REQUESTS_MAX,
    SCHEDULED,
    SLAB_TOP,
    SLEEPLESS,
    SOLD_LOTS,
    SPACING,
    TRADE_COUNT,
    TRADED_LOTS,
    WAKEUPS,
    Traders,
)
from serl.agents.traders.trader_api import CANCEL
from serl.exchange.code_cache import alone
from serl.exchange.compiling import compiled, entry, inlined, int64
from serl.exchange.kernel.handle import events_at, state_at
from serl.exchange.kernel.intrinsics import call_with_four, call_with_two
from serl.exchange.kernel.levels import best, find_level, next_price
from serl.exchange.records import EventFlag, EventKind

_ACCEPTED, _REJECTED, _FILL = int(EventKind.ACCEPTED), int(EventKind.REJECTED), int(EventKind.FILL)
_CANCELLED, _REDUCED, _RESTED = int(EventKind.CANCELLED), int(EventKind.REDUCED), int(EventKind.RESTED)
_RESTING, _MAKER = int(EventFlag.RESTING), int(EventFlag.MAKER)
_HIDDEN, _AUCTION = int(EventFlag.HIDDEN), int(EventFlag.AUCTION)
_MAKER_FEE, _TAKER_FEE, _AUCTION_FEE = 0, 2, 4
"""Columns of Traders.fees."""
_AGENT_BYTES = AGENT.itemsize
_KIND_MASK = (1 << LEG_SHIFT) - 1
BID, ASK = 0, 1
NEVER = 1 << 62
WAKEUPS_A_CALL = 1 << 16
"""Number of wake-ups after which a loop returns to Python, which checks for signals: a trader may sleep for a nanosecond at a time."""
WAKE, OBSERVE = 0, 1
"""Words of the Traders' handle with the addresses of `_wake` and `_observe`."""


@inlined
def next_own_time_ns(time_ns: int, number: int, spacing: int) -> int:
    """The first time from `time_ns` on at which trader `number` may act. No two traders ever act at the same nanosecond."""
    time_ns = time_ns - number + spacing - 1
    return time_ns - time_ns % spacing + number


@inlined
def next_wake_ns(traders: Traders) -> int:
    """Time of the next wake-up of any trader."""
    return traders.wake_key[1] if traders.counter[SCHEDULED] > 0 else NEVER


@inlined
def next_arrival_ns(traders: Traders) -> int:
    """Time at which the next command in flight arrives."""
    return traders.in_flight_key[1] >> REQUEST_BITS if traders.counter[IN_FLIGHT] > 0 else NEVER


@inlined
def observe_public(traders: Traders, event: Any) -> None:
    """Updates the public order flow and the totals with an event."""
    symbol = int64(event.symbol)
    side = int64(event.side)
    totals = traders.public_totals[symbol]
    if event.flags & _HIDDEN and event.kind != _FILL:
        return
    if event.kind == _FILL and event.flags & _MAKER:
        totals[LAST_TICKS] = event.price_ticks
        totals[TRADED_LOTS] += event.qty_lots
        totals[TRADE_COUNT] += 1
        if not event.flags & _AUCTION:
            totals[BOUGHT_LOTS if side == ASK else SOLD_LOTS] += event.qty_lots
        side = 3 - side
    elif not ((event.kind == _ACCEPTED and event.flags & _RESTING) or event.kind == _RESTED):
        return
    row = traders.flow[symbol, totals[FLOW_COUNT] & (FLOW_ROWS - 1)]
    row[0] = event.time_ns
    row[1] = side
    row[2] = event.price_ticks
    row[3] = event.qty_lots
    totals[FLOW_COUNT] += 1


@inlined
def apply_report(traders: Traders, event: Any) -> None:
    """Applies a private report to its trader's position, cash, fees and open orders."""
    number = open_orders.find(traders, event.order_id)
    if number < 0:
        return
    node = traders.nodes[number]
    if event.kind == _FILL:
        agent = traders.agents[node.agent]
        signed = event.qty_lots if node.side == BID else -event.qty_lots
        agent.position_lots += signed
        agent.cash_ticks -= signed * event.price_ticks
        column = _AUCTION_FEE if event.flags & _AUCTION else (_MAKER_FEE if event.flags & _MAKER else _TAKER_FEE)
        fees = traders.fees[int64(event.symbol)]
        agent.fee_microticks += event.qty_lots * (fees[column] + event.price_ticks * fees[column + 1])
        node.open_lots -= event.qty_lots
    elif event.kind == _REDUCED:
        node.open_lots -= event.qty_lots
    elif event.kind == _CANCELLED or (event.kind == _REJECTED and event.command_id == event.order_id):
        node.open_lots = 0
    if node.open_lots <= 0:
        open_orders.remove(traders, number)


@inlined
def _fill_view(traders: Traders, state: Any, agent: Any, now_ns: int) -> None:
    """Fills the view with what the trader sees at this wake-up."""
    view = traders.market_view[0]
    symbol = int64(agent.symbol)
    bid, bid_lots, ask, ask_lots = best(state, symbol)
    view.time_ns = now_ns
    view.bid_ticks, view.bid_lots, view.ask_ticks, view.ask_lots = bid, bid_lots, ask, ask_lots
    totals = traders.public_totals[symbol]
    view.last_ticks, view.traded_lots, view.flow_count = totals[LAST_TICKS], totals[TRADED_LOTS], totals[FLOW_COUNT]
    view.bought_lots, view.sold_lots = totals[BOUGHT_LOTS], totals[SOLD_LOTS]
    view.orders_open = agent.orders_open
    view.list_address = traders.slab.ctypes.data + 4 * agent.list_start
    view.memory_address = agent.memory_address
    view.memory_slots, view.outside_slots = agent.memory_slots, 0
    view.value_address = traders.value.ctypes.data + 8 * symbol * traders.value.shape[1]
    view.flow_address = traders.flow.ctypes.data + 32 * symbol * FLOW_ROWS
    view.board_address = traders.forecast_board.ctypes.data + 8 * symbol * traders.forecast_board.shape[1]
    depth = int64(agent.depth)
    count = 0
    price = bid if depth > 0 else 0
    while price != 0 and count < depth:
        view.bid_price[count] = price
        view.bid_qty[count] = state.levels[find_level(state, symbol, BID, price)].qty_lots
        count += 1
        price = next_price(state, symbol, BID, price)
    view.bid_levels = count
    count = 0
    price = ask if depth > 0 else 0
    while price != 0 and count < depth:
        view.ask_price[count] = price
        view.ask_qty[count] = state.levels[find_level(state, symbol, ASK, price)].qty_lots
        count += 1
        price = next_price(state, symbol, ASK, price)
    view.ask_levels = count
    view.legs = agent.legs
    if agent.legs > 0:
        fill_legs(traders, state, agent)


@inlined
def _queue_requests(traders: Traders, index: int, leg: int, now_ns: int) -> None:
    """Puts the requests of a leg in flight, from its account `index`. The requests of a trader of one symbol are those of leg 0."""
    agent, requests, counter = traders.agents[index], traders.requests[0], traders.counter
    spacing = counter[SPACING]
    arrival = max(next_own_time_ns(now_ns + agent.latency_ns, int64(agent.number), spacing), agent.arrival_ns + spacing)
    agent.arrival_ns = arrival
    for request_index in range(requests.count):
        request = requests.rows[request_index]
        if request[0] >> LEG_SHIFT != leg:
            continue
        if request[0] == CANCEL and traders.nodes[request[2]].cancel_pending != 0:
            continue  # a second cancel of the same order at this wake-up
        slot = counter[IN_FLIGHT_FREE]
        counter[IN_FLIGHT_FREE] = traders.in_flight_next[slot]
        row = traders.in_flight[slot]
        command_id = (arrival << REQUEST_BITS) | request_index
        kind = request[0] & _KIND_MASK
        row.time_ns = arrival
        row.command_id = command_id
        row.kind = kind
        row.symbol = agent.symbol
        if kind == CANCEL:
            node = traders.nodes[request[2]]
            node.cancel_pending = 1
            row.order_id = node.order_id
            row.side = row.flags = row.time_in_force = 0
            row.price_ticks = row.qty_lots = 0
        else:
            row.order_id = 0
            row.side = request[1]
            row.price_ticks = request[2]
            row.qty_lots = request[3]
            row.time_in_force = request[4]
            row.flags = request[5]
            open_orders.add(traders, index, command_id, row.side, row.price_ticks, row.qty_lots, now_ns)
        heap.push(traders.in_flight_key, traders.in_flight_item, counter, IN_FLIGHT, command_id, slot)


@inlined
def has_capacity(traders: Traders) -> bool:
    """Whether the arrays can hold all requests of another wake-up. If not, the caller must grow them."""
    counter = traders.counter
    enough = traders.in_flight.size - counter[IN_FLIGHT] > REQUESTS_MAX
    enough &= traders.nodes.size - counter[NODES_USED] > REQUESTS_MAX
    return enough and traders.slab.size - counter[SLAB_TOP] > 4 * (counter[NODES_USED] + REQUESTS_MAX)


def _wake(traders_handle: int, state_handle: int) -> int:
    """See `wake_next`."""
    traders, state = traders_at(traders_handle), state_at(state_handle)
    counter = traders.counter
    index, now_ns = int64(traders.wake_item[1]), traders.wake_key[1]
    agent, requests = traders.agents[index], traders.requests[0]
    _fill_view(traders, state, agent, now_ns)
    requests.count = 0
    requests.wake_ns = NO_WAKE_UP
    call_trader(
        agent.function_address, traders.agents.ctypes.data + index * _AGENT_BYTES, agent.profile_address,
        traders.market_view.ctypes.data, traders.requests.ctypes.data,
    )  # fmt: skip
    counter[WAKEUPS] += 1
    counter[REQUESTS_DROPPED] += requests.dropped
    requests.dropped = 0
    if traders.market_view[0].outside_slots > 0 and counter[OUTSIDE] == 0:
        counter[OUTSIDE], counter[OUTSIDE_SLOT] = index + 1, traders.market_view[0].outside_slot
    if requests.count > 0:
        for leg in range(agent.legs + 1):
            account = index if leg == 0 else int64(traders.legs[agent.leg_start + leg].agent)
            _queue_requests(traders, account, leg, now_ns)
    if requests.wake_ns < 0:
        if requests.wake_ns == NO_SLEEP and counter[SLEEPLESS] == 0:
            counter[SLEEPLESS] = index + 1
            agent.sleep_ns = requests.sleep_ns
        agent.wake_ns = -1
        heap.pop(traders.wake_key, traders.wake_item, counter, SCHEDULED)
        return 0
    agent.wake_ns = next_own_time_ns(max(requests.wake_ns, now_ns + 1), int64(agent.number), counter[SPACING])
    heap.replace_first(traders.wake_key, traders.wake_item, counter[SCHEDULED], agent.wake_ns, index)
    return 0


def _observe(traders_handle: int, events_address: int, count: int, participant: int) -> int:
    """See `observe`."""
    traders, events = traders_at(traders_handle), events_at(events_address, count)
    for index in range(count):
        event = events[index]
        observe_public(traders, event)
        if event.participant == participant:
            apply_report(traders, event)
    return 0


@cache
def addresses() -> tuple[int, int]:
    """Addresses of `_wake` and `_observe`, which are compiled or loaded when traders are first made, and kept as long as the process lives."""
    word = types.int64
    with alone("traders"):
        return int(entry(_wake, word(word, word)).address), int(entry(_observe, word(word, word, word, word)).address)


@inlined
def wake_next(traders: Traders, state: Any) -> None:
    """Wakes the next trader and puts its requests in flight. O(log traders + its function)."""
    call_with_two(traders.handle[WAKE], traders.handle.ctypes.data, state.handle.ctypes.data)


@inlined
def observe(traders: Traders, events: Any, count: int, participant: int) -> None:
    """Shows the first `count` events to the traders: public events to all, and the reports of `participant` to the traders that trade as it."""
    call_with_four(traders.handle[OBSERVE], traders.handle.ctypes.data, events.ctypes.data, count, participant)


@compiled
def schedule_all(traders: Traders) -> None:
    """Fills the heap of wake-ups with every trader that has a wake-up."""
    traders.counter[SCHEDULED] = 0
    for index in range(traders.agents.size):
        if traders.agents[index].wake_ns >= 0:
            heap.push(
                traders.wake_key,
                traders.wake_item,
                traders.counter,
                SCHEDULED,
                traders.agents[index].wake_ns,
                np.int32(index),
            )


@inlined
def remove_arrived(traders: Traders) -> None:
    """Removes the first command in flight, which has arrived, and frees its slot."""
    slot = traders.in_flight_item[1]
    heap.pop(traders.in_flight_key, traders.in_flight_item, traders.counter, IN_FLIGHT)
    traders.in_flight_next[slot] = traders.counter[IN_FLIGHT_FREE]
    traders.counter[IN_FLIGHT_FREE] = slot
