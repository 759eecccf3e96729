"""The traders as a state machine: events in, commands out, in compiled code; the same in process and in a host process."""

from typing import Any

import numpy as np

from serl.agents.traders import heap, open_orders
from serl.agents.traders.addresses import call
from serl.agents.traders.records import (
    AGENT,
    DROPPED,
    FLIGHT_FREE,
    FLIGHTS,
    FLOW,
    FLOW_ROWS,
    LAST,
    NODES_USED,
    REQUEST_BITS,
    REQUESTS_MAX,
    SLAB_TOP,
    SPACING,
    TRADED,
    TRADES,
    WAKES,
    WAKEUPS,
    Traders,
)
from serl.agents.traders.trader_api import CANCEL
from serl.exchange.compiling import compiled, inlined, int64
from serl.exchange.kernel.levels import best, find_level, next_price
from serl.exchange.records import EventFlag, EventKind

_ACCEPTED, _REJECTED, _FILL = int(EventKind.ACCEPTED), int(EventKind.REJECTED), int(EventKind.FILL)
_CANCELLED, _REDUCED, _RESTED = int(EventKind.CANCELLED), int(EventKind.REDUCED), int(EventKind.RESTED)
_RESTING, _MAKER = int(EventFlag.RESTING), int(EventFlag.MAKER)
_HIDDEN = int(EventFlag.HIDDEN)
_AGENT_BYTES = AGENT.itemsize
BID, ASK = 0, 1
NEVER = 1 << 62


@inlined
def spaced(time_ns: int, number: int, spacing: int) -> int:
    """The first time from `time_ns` on that is trader `number`'s own: no two traders ever act at the same nanosecond."""
    time_ns = time_ns - number + spacing - 1
    return time_ns - time_ns % spacing + number


@inlined
def next_wake(traders: Traders) -> int:
    """When the first trader wakes up."""
    return traders.wake_key[1] if traders.counter[WAKES] > 0 else NEVER


@inlined
def next_arrival(traders: Traders) -> int:
    """When the first command under way arrives."""
    return traders.flight_key[1] >> REQUEST_BITS if traders.counter[FLIGHTS] > 0 else NEVER


@inlined
def observe(traders: Traders, event: Any) -> None:
    """Takes in what everybody sees of an event."""
    symbol = int64(event.symbol)
    side = int64(event.side)
    seen = traders.seen[symbol]
    if event.flags & _HIDDEN and event.kind != _FILL:
        return
    if event.kind == _FILL and event.flags & _MAKER:
        seen[LAST] = event.price_ticks
        seen[TRADED] += event.qty_lots
        seen[TRADES] += 1
        side = 3 - side
    elif not ((event.kind == _ACCEPTED and event.flags & _RESTING) or event.kind == _RESTED):
        return
    row = traders.flow[symbol, seen[FLOW] & (FLOW_ROWS - 1)]
    row[0] = event.time_ns
    row[1] = side
    row[2] = event.price_ticks
    row[3] = event.qty_lots
    seen[FLOW] += 1


@inlined
def hear(traders: Traders, event: Any) -> None:
    """Takes in a report to one of these traders: its position and its open orders."""
    number = open_orders.find(traders, event.order_id)
    if number < 0:
        return
    node = traders.nodes[number]
    if event.kind == _FILL:
        agent = traders.agents[node.agent]
        signed = event.qty_lots if node.side == BID else -event.qty_lots
        agent.position_lots += signed
        agent.cash_ticks -= signed * event.price_ticks
        node.open_lots -= event.qty_lots
    elif event.kind == _REDUCED:
        node.open_lots -= event.qty_lots
    elif event.kind == _CANCELLED or (event.kind == _REJECTED and event.command_id == event.order_id):
        node.open_lots = 0
    if node.open_lots <= 0:
        open_orders.remove(traders, number)


@inlined
def _look(traders: Traders, state: Any, agent: Any, now_ns: int) -> None:
    """Fills the view with what the trader may know now."""
    view = traders.sight[0]
    symbol = int64(agent.symbol)
    bid, bid_lots, ask, ask_lots = best(state, symbol)
    view.time_ns = now_ns
    view.bid_ticks, view.bid_lots, view.ask_ticks, view.ask_lots = bid, bid_lots, ask, ask_lots
    seen = traders.seen[symbol]
    view.last_ticks, view.traded_lots, view.flow_count = seen[LAST], seen[TRADED], seen[FLOW]
    view.orders_open = agent.orders_open
    view.list_address = traders.slab.ctypes.data + 4 * agent.list_start
    view.memory_address = agent.memory_address
    view.value_address = traders.value.ctypes.data + 8 * symbol * traders.value.shape[1]
    view.flow_address = traders.flow.ctypes.data + 32 * symbol * FLOW_ROWS
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


@inlined
def _send(traders: Traders, index: int, now_ns: int) -> None:
    """Puts a trader's requests on their way."""
    agent, requests, counter = traders.agents[index], traders.requests[0], traders.counter
    spacing = counter[SPACING]
    arrival = max(spaced(now_ns + agent.latency_ns, int64(agent.number), spacing), agent.arrival_ns + spacing)
    agent.arrival_ns = arrival
    for place in range(requests.count):
        if requests.rows[place, 0] == CANCEL and traders.nodes[requests.rows[place, 2]].cancelling != 0:
            continue  # the second cancel of one order at this wake-up
        slot = counter[FLIGHT_FREE]
        counter[FLIGHT_FREE] = traders.flight_next[slot]
        row = traders.flight[slot]
        command_id = (arrival << REQUEST_BITS) | place
        kind = requests.rows[place, 0]
        row.time_ns = arrival
        row.command_id = command_id
        row.kind = kind
        row.symbol = agent.symbol
        if kind == CANCEL:
            node = traders.nodes[requests.rows[place, 2]]
            node.cancelling = 1
            row.order_id = node.order_id
            row.side = row.flags = row.time_in_force = 0
            row.price_ticks = row.qty_lots = 0
        else:
            row.order_id = 0
            row.side = requests.rows[place, 1]
            row.price_ticks = requests.rows[place, 2]
            row.qty_lots = requests.rows[place, 3]
            row.time_in_force = requests.rows[place, 4]
            row.flags = requests.rows[place, 5]
            open_orders.add(traders, index, command_id, row.side, row.price_ticks, row.qty_lots, now_ns)
        heap.push(traders.flight_key, traders.flight_item, counter, FLIGHTS, command_id, slot)


@inlined
def has_room(traders: Traders) -> bool:
    """Whether a trader may be woken: room for all that it could ask for. False: the caller makes the arrays grow."""
    counter = traders.counter
    room = traders.flight.size - counter[FLIGHTS] > REQUESTS_MAX
    room &= traders.nodes.size - counter[NODES_USED] > REQUESTS_MAX
    return room and traders.slab.size - counter[SLAB_TOP] > 4 * (counter[NODES_USED] + REQUESTS_MAX)


@inlined
def wake(traders: Traders, state: Any) -> None:
    """Wakes the first trader up and sends what it asks for. O(log traders + own function)."""
    counter = traders.counter
    index, now_ns = int64(traders.wake_item[1]), traders.wake_key[1]
    agent, requests = traders.agents[index], traders.requests[0]
    _look(traders, state, agent, now_ns)
    requests.count = 0
    requests.wake_ns = -1
    call(
        agent.function_address, traders.agents.ctypes.data + index * _AGENT_BYTES, agent.profile_address,
        traders.sight.ctypes.data, traders.requests.ctypes.data,
    )  # fmt: skip
    counter[WAKEUPS] += 1
    counter[DROPPED] += requests.dropped
    requests.dropped = 0
    if requests.count > 0:
        _send(traders, index, now_ns)
    if requests.wake_ns < 0:
        agent.wake_ns = -1
        heap.pop(traders.wake_key, traders.wake_item, counter, WAKES)
        return
    agent.wake_ns = spaced(max(requests.wake_ns, now_ns + 1), int64(agent.number), counter[SPACING])
    heap.sink(traders.wake_key, traders.wake_item, counter[WAKES], agent.wake_ns, index)


@compiled
def start_all(traders: Traders) -> None:
    """Puts every trader with a wake-up time to come into the heap."""
    traders.counter[WAKES] = 0
    for index in range(traders.agents.size):
        if traders.agents[index].wake_ns >= 0:
            heap.push(
                traders.wake_key,
                traders.wake_item,
                traders.counter,
                WAKES,
                traders.agents[index].wake_ns,
                np.int32(index),
            )


@inlined
def land(traders: Traders) -> None:
    """The first command under way has arrived; its slot is free again."""
    slot = traders.flight_item[1]
    heap.pop(traders.flight_key, traders.flight_item, traders.counter, FLIGHTS)
    traders.flight_next[slot] = traders.counter[FLIGHT_FREE]
    traders.counter[FLIGHT_FREE] = slot
