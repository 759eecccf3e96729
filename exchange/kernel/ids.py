"""(participant, order id) to pool slot: open addressing, linear probing, eight bytes an entry, at most half full."""

from typing import Any

import numpy as np

from serl.exchange.compiling import compiled, inlined
from serl.exchange.kernel.state import State

_A, _B = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)


@inlined
def hash_of(participant: Any, order_id: Any) -> Any:
    """64 well-mixed bits."""
    mixed = (np.uint64(order_id) ^ (np.uint64(participant) << np.uint64(48))) * _A
    mixed ^= mixed >> np.uint64(32)
    return mixed * _B


@inlined
def _entry(mixed: Any, slot: Any) -> Any:
    return np.int64((mixed >> np.uint64(33) << np.uint64(32)) | np.uint64(slot + 1))


@inlined
def home(state: State, mixed: Any) -> Any:
    """Where the search for a hash begins."""
    return np.int64((mixed >> np.uint64(8)) & np.uint64(state.table.size - 1))


@inlined
def find(state: State, participant: int, order_id: int) -> int:
    """The slot of an open order, -1 if there is none. O(1) expected."""
    mask = state.table.size - 1
    mixed = hash_of(participant, order_id)
    tag = np.int64(mixed >> np.uint64(33))
    place = home(state, mixed)
    while True:
        entry = state.table[place]
        if entry == 0:
            return -1
        if entry >> 32 == tag:
            slot = (entry & 0xFFFFFFFF) - 1
            order = state.orders[slot]
            if order.order_id == order_id and order.participant == participant:
                return slot
        place = (place + 1) & mask


@inlined
def insert(state: State, participant: int, order_id: int, slot: int) -> None:
    """Adds an order that is not there yet."""
    mask = state.table.size - 1
    mixed = hash_of(participant, order_id)
    place = home(state, mixed)
    while state.table[place] != 0:
        place = (place + 1) & mask
    state.table[place] = _entry(mixed, slot)


@inlined
def remove(state: State, participant: int, order_id: int, slot: int) -> None:
    """Takes an order out and moves back those behind it that a hole would hide."""
    mask = state.table.size - 1
    place = home(state, hash_of(participant, order_id))
    while state.table[place] & 0xFFFFFFFF != slot + 1:
        place = (place + 1) & mask
    following = (place + 1) & mask
    while True:
        entry = state.table[following]
        if entry == 0:
            break
        order = state.orders[(entry & 0xFFFFFFFF) - 1]
        wanted = home(state, hash_of(order.participant, order.order_id))
        if ((following - wanted) & mask) >= ((following - place) & mask):
            state.table[place] = entry
            place = following
        following = (following + 1) & mask
    state.table[place] = 0


@compiled
def index_all(state: State) -> None:
    """Fills an empty table from the pool: every slot with something open."""
    for slot in range(state.orders.size):
        order = state.orders[slot]
        if order.open_lots > 0:
            insert(state, order.participant, order.order_id, slot)
