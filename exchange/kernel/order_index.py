"""(participant, order id) to pool slot: open addressing, linear probing, eight bytes an entry, at most half full.

An entry keeps 31 bits of the hash, from which its home follows: moving entries touches no order.
"""

from typing import Any

import numpy as np

from serl.exchange.compiling import compiled, inlined, merged
from serl.exchange.kernel.intrinsics import prefetch
from serl.exchange.kernel.state import LEVEL_SLOT, SLOT, State

ENTRY_BYTES, SLOT_BYTES, LEVEL_BYTES = 8, SLOT.itemsize, LEVEL_SLOT.itemsize

_A, _B = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)


@merged
def hash_of(participant: Any, order_id: Any) -> Any:
    """64 well-mixed bits."""
    mixed = (np.uint64(order_id) ^ (np.uint64(participant) << np.uint64(48))) * _A
    mixed ^= mixed >> np.uint64(32)
    return mixed * _B


@merged
def _entry(mixed: Any, slot: Any) -> Any:
    return np.int64((mixed >> np.uint64(33) << np.uint64(32)) | np.uint64(slot + 1))


@merged
def _tag(mixed: Any) -> Any:
    return np.int64(mixed >> np.uint64(33))


@inlined
def find(state: State, participant: int, order_id: int) -> int:
    """The slot of an open order, -1 if there is none. O(1) expected."""
    mask = state.table.size - 1
    tag = _tag(hash_of(participant, order_id))
    place = tag & mask
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
def prefetch_entry(state: State, participant: int, order_id: int) -> None:
    """Prefetches the index entry of an order that is looked up or added soon."""
    place = _tag(hash_of(participant, order_id)) & (state.table.size - 1)
    prefetch(state.table.ctypes.data + place * ENTRY_BYTES)


@inlined
def prefetch_order(state: State, participant: int, order_id: int) -> None:
    """Prefetches the order itself."""
    slot = _likely_slot(state, participant, order_id)
    if slot >= 0:
        prefetch(state.orders.ctypes.data + slot * SLOT_BYTES)


@inlined
def prefetch_neighbours(state: State, participant: int, order_id: int) -> None:
    """Prefetches the neighbours of an order: its level, and the orders before and after it."""
    slot = _likely_slot(state, participant, order_id)
    if slot >= 0:
        order = state.orders[slot]
        prefetch(state.orders.ctypes.data + order.next * SLOT_BYTES)
        prefetch(state.orders.ctypes.data + order.previous * SLOT_BYTES)
        prefetch(state.levels.ctypes.data + order.level * LEVEL_BYTES)


@inlined
def _likely_slot(state: State, participant: int, order_id: int) -> int:
    """The slot of an order if its entry is where it belongs, as nearly all are; else -1."""
    tag = _tag(hash_of(participant, order_id))
    entry = state.table[tag & (state.table.size - 1)]
    return (entry & 0xFFFFFFFF) - 1 if entry >> 32 == tag else -1


@inlined
def insert(state: State, participant: int, order_id: int, slot: int) -> None:
    """Adds an order that is not there yet."""
    mask = state.table.size - 1
    mixed = hash_of(participant, order_id)
    place = _tag(mixed) & mask
    while state.table[place] != 0:
        place = (place + 1) & mask
    state.table[place] = _entry(mixed, slot)


@inlined
def remove(state: State, participant: int, order_id: int, slot: int) -> None:
    """Takes an order out and moves back those behind it that a hole would hide."""
    mask = state.table.size - 1
    place = _tag(hash_of(participant, order_id)) & mask
    while state.table[place] & 0xFFFFFFFF != slot + 1:
        place = (place + 1) & mask
    following = (place + 1) & mask
    while True:
        entry = state.table[following]
        if entry == 0:
            break
        if ((following - (entry >> 32)) & mask) >= ((following - place) & mask):
            state.table[place] = entry
            place = following
        following = (following + 1) & mask
    state.table[place] = 0


@compiled
def move_entries(table: Any, longer: Any) -> None:
    """Fills an empty table, a power of two in size, with the entries of another one. It reads no order and goes through both in order."""
    mask = longer.size - 1
    for index in range(table.size):
        entry = table[index]
        if entry != 0:
            place = (entry >> 32) & mask
            while longer[place] != 0:
                place = (place + 1) & mask
            longer[place] = entry
