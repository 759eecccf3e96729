"""Grows a market's arrays when the compiled code, which allocates nothing, asks for it."""

from functools import cache

import numpy as np

from serl.exchange.code_cache import alone
from serl.exchange.compiling import entry
from serl.exchange.kernel.commands import execute_fast
from serl.exchange.kernel.order_index import index_all
from serl.exchange.kernel.state import FULL_BOOK, State, link_free, with_queues
from serl.exchange.limits import MarketLimits
from serl.exchange.log import log
from serl.exchange.pointed import OWN_WORDS, bound


@cache
def fast_path() -> int:
    """The address of `execute_fast`, compiled once for all loops that contain a book. Kept for as long as the process lives."""
    with alone("book"):
        return int(entry(execute_fast).address)


@cache
def full_rule_book() -> int:
    """The address of `execute_fully`; compiled or loaded when it is first needed. Kept for as long as the process lives."""
    from serl.exchange.kernel.rulebook.execute import execute_full

    with alone("rulebook", _say_wait):
        return int(entry(execute_full).address)


def _say_wait() -> None:
    log("compiling", "waiting for another process to compile the full rule book")


def rebound(state: State) -> State:
    """The state with a new handle: the present addresses of its arrays, and of the rule books of this process."""
    return bound(state, (full_rule_book() if state.handle[FULL_BOOK] else 0, fast_path()))


def grow(state: State, limits: MarketLimits) -> State:
    """The state with what the compiled code asked for: the full rule book, more far levels or more orders; one of them per call."""
    if state.counters["wants_full_book"][0]:  # each for itself: what else is due, the compiled code asks for again
        state.counters["wants_full_book"] = 0
        return bound(with_queues(state), (full_rule_book(), fast_path()))
    far = state.far_price.shape[2]
    if state.counters["wants_far_levels"][0] or int(state.far_count.max()) + state.window.shape[2] + 1 > far:
        state.counters["wants_far_levels"] = 0
        return grow_far(state, 2 * far)
    return grow_orders(state, min(2 * len(state.orders), capacity_for(limits.orders_open_max)))


def capacity_for(orders: int) -> int:
    """Slots for so many orders: a power of two."""
    return 1 << max(5, (orders - 1).bit_length())


def grow_orders(state: State, capacity: int) -> State:
    """The same state with room for `capacity` orders."""
    before = len(state.orders)
    assert capacity > before, "the pool is at its limit: the kernel rejects with BOOK_FULL instead"
    orders, slots = np.zeros(capacity, state.orders.dtype), np.zeros(capacity, state.levels.dtype)
    orders[:before], slots[:before] = state.orders, state.levels
    grown = state._replace(orders=orders, levels=slots, table=np.zeros(2 * capacity, np.int64))
    if len(state.extras):
        extras, heap = np.zeros(capacity, state.extras.dtype), np.zeros(capacity, np.int32)
        extras[:before], heap[:before] = state.extras, state.heap
        grown = grown._replace(extras=extras, heap=heap)
    link_free(grown, before)
    for free, field, rows in (("free_order", "next", grown.orders), ("free_level", "first", grown.levels)):
        rows[-1][field] = state.counters[free][
            0
        ]  # the new ones go in front: levels have a long list, because few are used
        state.counters[free] = before
    grown = bound(grown, state.handle[:OWN_WORDS])
    index_all(grown)
    return grown


def grow_far(state: State, far: int) -> State:
    """The same state with room for `far` prices of a side outside the window."""
    shape = (*state.far_price.shape[:2], far)
    price, level = np.zeros(shape, np.int64), np.zeros(shape, np.int32)
    price[..., : state.far_price.shape[2]] = state.far_price
    level[..., : state.far_level.shape[2]] = state.far_level
    return bound(state._replace(far_price=price, far_level=level), state.handle[:OWN_WORDS])
