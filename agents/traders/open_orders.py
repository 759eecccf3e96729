"""The traders' own open orders: a pool of nodes, a table from order id to node, and a list of nodes for each trader."""

from typing import Any

import numpy as np

from serl.agents.traders.records import NODE_FREE, NODES_USED, SLAB_TOP, Traders
from serl.exchange.compiling import compiled, inlined, int64

LIST_ROOM_MIN = 4
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@inlined
def _home(mask: int, order_id: int) -> int:
    mixed = np.uint64(order_id) * _GOLDEN
    return int64((mixed >> np.uint64(32)) & np.uint64(mask))


@inlined
def find(traders: Traders, order_id: int) -> int:
    """The node of an order, -1 if it is not open any more. O(1) expected."""
    table = traders.table
    mask = (table.size >> 1) - 1
    place = _home(mask, order_id)
    while table[2 * place] != 0:
        if table[2 * place] == order_id:
            return table[2 * place + 1]
        place = (place + 1) & mask
    return -1


@inlined
def enter(traders: Traders, order_id: int, node: int) -> None:
    """Puts an order into the table."""
    table = traders.table
    mask = (table.size >> 1) - 1
    place = _home(mask, order_id)
    while table[2 * place] != 0:
        place = (place + 1) & mask
    table[2 * place] = order_id
    table[2 * place + 1] = node


@inlined
def _forget(traders: Traders, order_id: int) -> None:
    table = traders.table
    mask = (table.size >> 1) - 1
    place = _home(mask, order_id)
    while table[2 * place] != order_id:
        place = (place + 1) & mask
    following = (place + 1) & mask
    while table[2 * following] != 0:
        wanted = _home(mask, table[2 * following])
        if ((following - wanted) & mask) >= ((following - place) & mask):
            table[2 * place] = table[2 * following]
            table[2 * place + 1] = table[2 * following + 1]
            place = following
        following = (following + 1) & mask
    table[2 * place] = 0


@inlined
def _block(traders: Traders, room: int) -> int:
    """A block of `room` (a power of two) places of the slab; there is enough behind SLAB_TOP, the caller saw to that."""
    size_class = 0
    while (1 << size_class) < room:
        size_class += 1
    start = int64(traders.slab_free[size_class])
    if start >= 0:
        traders.slab_free[size_class] = traders.slab[start]
        return start
    start = traders.counter[SLAB_TOP]
    traders.counter[SLAB_TOP] += room
    return start


@inlined
def _grow_list(traders: Traders, agent: Any) -> None:
    room = max(LIST_ROOM_MIN, 2 * int64(agent.list_room))
    start = _block(traders, room)
    before, before_room = int64(agent.list_start), int64(agent.list_room)
    for index in range(agent.orders_open):
        traders.slab[start + index] = traders.slab[before + index]
    if before_room > 0:
        size_class = 0
        while (1 << size_class) < before_room:
            size_class += 1
        traders.slab[before] = traders.slab_free[size_class]
        traders.slab_free[size_class] = before
    agent.list_start = start
    agent.list_room = room


@inlined
def add(traders: Traders, index: int, order_id: int, side: int, price: int, lots: int, now_ns: int) -> None:
    """A new open order of trader `index`."""
    number = traders.counter[NODE_FREE]
    node = traders.nodes[number]
    traders.counter[NODE_FREE] = node.agent
    traders.counter[NODES_USED] += 1
    agent = traders.agents[index]
    if agent.orders_open == agent.list_room:
        _grow_list(traders, agent)
    node.order_id = order_id
    node.price_ticks = price
    node.open_lots = lots
    node.since_ns = now_ns
    node.agent = index
    node.place = agent.orders_open
    node.side = side
    node.cancelling = 0
    traders.slab[agent.list_start + agent.orders_open] = number
    agent.orders_open += 1
    enter(traders, order_id, number)


@inlined
def remove(traders: Traders, number: int) -> None:
    """An order is done."""
    node = traders.nodes[number]
    agent = traders.agents[node.agent]
    _forget(traders, node.order_id)
    last = int64(agent.orders_open) - 1
    moved = traders.slab[agent.list_start + last]
    traders.slab[agent.list_start + node.place] = moved
    traders.nodes[moved].place = node.place
    agent.orders_open = last
    node.order_id = 0
    node.agent = traders.counter[NODE_FREE]
    traders.counter[NODE_FREE] = number
    traders.counter[NODES_USED] -= 1


@compiled
def enter_all(traders: Traders) -> None:
    """Fills an empty table from the nodes."""
    for number in range(traders.nodes.size):
        if traders.nodes[number].order_id != 0:
            enter(traders, traders.nodes[number].order_id, number)
