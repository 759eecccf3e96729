"""Heaps of orders, linked through the orders: those that wait for a price, and those that are due, in their order.

Skew heaps (Sleator and Tarjan, Self-adjusting heaps, SIAM J. Comput. 15, 1986): the largest key is at the root; adding and removing an order,
and making one heap of two, take O(log orders) amortized. An order is in one heap at most.
"""

from serl.exchange.compiling import inner, int64
from serl.exchange.kernel.state import ROOTS, State

NO_HEAP = -1
OF_LEVEL = ROOTS
"""EXTRA.heap of an order in the heap of its price level."""


@inner
def _meld(state: State, one: int, other: int) -> int:
    """The root of two heaps made one; -1 is an empty heap."""
    root = parent = -1
    while one >= 0 and other >= 0:
        if state.extras[other].key > state.extras[one].key:
            one, other = other, one
        node = state.extras[one]
        following = int64(node.right)
        node.right = node.left
        node.above = parent
        if parent < 0:
            root = one
        else:
            state.extras[parent].left = one
        parent, one = one, following
    rest = max(one, other)  # one of them is empty
    if parent < 0:
        return rest
    state.extras[parent].left = rest
    if rest >= 0:
        state.extras[rest].above = parent
    return root


@inner
def _root(state: State, slot: int, heap: int) -> int:
    """The root of a heap that an order is in, or comes to."""
    order = state.orders[slot]
    return int64(state.levels[order.level].heap) if heap == OF_LEVEL else int64(state.roots[order.symbol, heap])


@inner
def _set_root(state: State, slot: int, heap: int, root: int) -> None:
    """The same, changed; -1: the heap is empty."""
    order = state.orders[slot]
    if heap == OF_LEVEL:
        state.levels[order.level].heap = root
    else:
        state.roots[order.symbol, heap] = root
    if root >= 0:
        state.extras[root].above = -1
        state.extras[root].heap = heap


@inner
def push(state: State, slot: int, heap: int, key: int) -> None:
    """Adds an order that is in no heap."""
    extra = state.extras[slot]
    extra.key, extra.heap = key, heap
    extra.left = extra.right = extra.above = -1
    _set_root(state, slot, heap, _meld(state, _root(state, slot, heap), slot))


@inner
def remove(state: State, slot: int) -> None:
    """Removes an order from its heap, if it is in one."""
    extra = state.extras[slot]
    if extra.heap == NO_HEAP:
        return
    rest, above = _meld(state, int64(extra.left), int64(extra.right)), int64(extra.above)
    if above < 0:
        _set_root(state, slot, int64(extra.heap), rest)
    else:
        if state.extras[above].left == slot:
            state.extras[above].left = rest
        else:
            state.extras[above].right = rest
        if rest >= 0:
            state.extras[rest].above = above
    extra.heap = NO_HEAP


@inner
def move_all(state: State, symbol: int, heap: int, into: int) -> None:
    """Moves all orders of a symbol's heap into another of the same keys."""
    first = int64(state.roots[symbol, heap])
    if first < 0:
        return
    state.roots[symbol, heap] = -1
    _set_root(state, first, into, _meld(state, int64(state.roots[symbol, into]), first))
