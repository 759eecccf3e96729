"""The traders' open orders: a pool of nodes, a hash table from order id to node, and a list of nodes per trader."""

from typing import Any

import numpy as np

from serl.agents.traders.records import NODE_FREE, NODES_USED, SLAB_TOP, Traders
from serl.exchange.compiling import compiled, inlined, int64

LIST_CAPACITY_MIN = 4
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@inlined
def _slot(mask: int, order_id: int) -> int:
    mixed = np.uint64(order_id) * _GOLDEN
    return int64((mixed >> np.uint64(32)) & np.uint64(mask))


@inlined
def find(traders: Traders, order_id: int) -> int:
    """The node of an order, -1 if the order is no longer open. O(1) expected."""
    table = traders.order_table
    mask = (table.size >> 1) - 1
    position = _slot(mask, order_id)
    while table[2 * position] != 0:
        if table[2 * position] == order_id:
            return table[2 * position + 1]
        position = (position + 1) & mask
    return -1


@inlined
def insert(traders: Traders, order_id: int, node: int) -> None:
    """Adds an order to the table."""
    table = traders.order_table
    mask = (table.size >> 1) - 1
    position = _slot(mask, order_id)
    while table[2 * position] != 0:
        position = (position + 1) & mask
    table[2 * position] = order_id
    table[2 * position + 1] = node


@inlined
def _delete(traders: Traders, order_id: int) -> None:
    """Removes an order from the table and closes the gap (backward-shift deletion)."""
    table = traders.order_table
    mask = (table.size >> 1) - 1
    position = _slot(mask, order_id)
    while table[2 * position] != order_id:
        position = (position + 1) & mask
    next_position = (position + 1) & mask
    while table[2 * next_position] != 0:
        home = _slot(mask, table[2 * next_position])
        if ((next_position - home) & mask) >= ((next_position - position) & mask):
            table[2 * position] = table[2 * next_position]
            table[2 * position + 1] = table[2 * next_position + 1]
            position = next_position
        next_position = (next_position + 1) & mask
    table[2 * position] = 0


@inlined
def _allocate_block(traders: Traders, capacity: int) -> int:
    """Allocates a slab block of `capacity` entries, a power of two; returns its start. `has_capacity` ensures that there is enough room beyond
    SLAB_TOP."""
    size_class = 0
    while (1 << size_class) < capacity:
        size_class += 1
    start = int64(traders.slab_free[size_class])
    if start >= 0:
        traders.slab_free[size_class] = traders.slab[start]
        return start
    start = traders.counter[SLAB_TOP]
    traders.counter[SLAB_TOP] += capacity
    return start


@inlined
def _grow_list(traders: Traders, agent: Any) -> None:
    capacity = max(LIST_CAPACITY_MIN, 2 * int64(agent.list_capacity))
    start = _allocate_block(traders, capacity)
    before, before_capacity = int64(agent.list_start), int64(agent.list_capacity)
    for index in range(agent.orders_open):
        traders.slab[start + index] = traders.slab[before + index]
    if before_capacity > 0:
        size_class = 0
        while (1 << size_class) < before_capacity:
            size_class += 1
        traders.slab[before] = traders.slab_free[size_class]
        traders.slab_free[size_class] = before
    agent.list_start = start
    agent.list_capacity = capacity


@inlined
def add(traders: Traders, index: int, order_id: int, side: int, price: int, lots: int, now_ns: int) -> None:
    """Adds an open order of trader `index`."""
    number = traders.counter[NODE_FREE]
    node = traders.nodes[number]
    traders.counter[NODE_FREE] = node.agent
    traders.counter[NODES_USED] += 1
    agent = traders.agents[index]
    if agent.orders_open == agent.list_capacity:
        _grow_list(traders, agent)
    node.order_id = order_id
    node.price_ticks = price
    node.open_lots = lots
    node.sent_ns = now_ns
    node.agent = index
    node.list_index = agent.orders_open
    node.side = side
    node.cancel_pending = 0
    traders.slab[agent.list_start + agent.orders_open] = number
    agent.orders_open += 1
    insert(traders, order_id, number)


@inlined
def remove(traders: Traders, number: int) -> None:
    """Removes an order that is no longer open."""
    node = traders.nodes[number]
    agent = traders.agents[node.agent]
    _delete(traders, node.order_id)
    last = int64(agent.orders_open) - 1
    moved = traders.slab[agent.list_start + last]
    traders.slab[agent.list_start + node.list_index] = moved
    traders.nodes[moved].list_index = node.list_index
    agent.orders_open = last
    node.order_id = 0
    node.agent = traders.counter[NODE_FREE]
    traders.counter[NODE_FREE] = number
    traders.counter[NODES_USED] -= 1


@compiled
def rebuild_order_table(traders: Traders) -> None:
    """Fills an empty table with the open orders."""
    for number in range(traders.nodes.size):
        if traders.nodes[number].order_id != 0:
            insert(traders, traders.nodes[number].order_id, number)
