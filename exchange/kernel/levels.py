"""Price levels: a window of prices around the market, found by index, and sorted far levels outside of it."""

import numpy as np

from serl.exchange.compiling import apart, compiled, inlined, inner, int64
from serl.exchange.kernel.intrinsics import leading_zeros, trailing_zeros
from serl.exchange.kernel.state import ASK, BID, State
from serl.exchange.records import Rows

FAR_PATIENCE = 64
"""Far operations before the window moves to where the market is."""

_ONE = np.uint64(1)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


@inlined
def _next_up(state: State, book: int, side: int, start: int) -> int:
    """The first occupied place of a side's window at or above `start`, -1 if none."""
    bits, summary = state.bits[book, side], state.summary[book, side]
    if start >= bits.size * 64:
        return -1
    word = start >> 6
    found = bits[word] & (_ALL << np.uint64(start & 63))
    if found:
        return (word << 6) + trailing_zeros(found)
    word += 1
    for group in range(word >> 6, summary.size):
        mask = summary[group]
        if group == word >> 6:
            mask &= _ALL << np.uint64(word & 63)
        if mask:
            word = (group << 6) + trailing_zeros(mask)
            return (word << 6) + trailing_zeros(bits[word])
    return -1


@inlined
def _next_down(state: State, book: int, side: int, start: int) -> int:
    """The first occupied place of a side's window at or below `start`, -1 if none."""
    if start < 0:
        return -1
    bits, summary = state.bits[book, side], state.summary[book, side]
    word = start >> 6
    found = bits[word] & (_ALL >> np.uint64(63 - (start & 63)))
    if found:
        return (word << 6) + 63 - leading_zeros(found)
    word -= 1
    if word < 0:
        return -1
    for group in range(word >> 6, -1, -1):
        mask = summary[group]
        if group == word >> 6:
            mask &= _ALL >> np.uint64(63 - (word & 63))
        if mask:
            word = (group << 6) + 63 - leading_zeros(mask)
            return (word << 6) + 63 - leading_zeros(bits[word])
    return -1


@inner
def _far_place(state: State, book: int, side: int, price: int) -> int:
    """Where `price` is or belongs among the far levels of a side (worst first). O(log far levels)."""
    low, high = 0, state.far_count[book, side]
    prices = state.far_price[book, side]
    while low < high:
        middle = (low + high) >> 1
        before = prices[middle] < price if side == BID else prices[middle] > price
        if before:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def find_level(state: State, book: int, side: int, price: int) -> int:
    """The level of a price and side, -1 if there is none."""
    place = price - state.base[book]
    if 0 <= place < state.window.shape[2]:
        return int64(state.window[book, side, place])
    far = _far_place(state, book, side, price)
    if far < state.far_count[book, side] and state.far_price[book, side, far] == price:
        return int64(state.far_level[book, side, far])
    return -1


@inlined
def next_price(state: State, book: int, side: int, price: int) -> int:
    """The best price of a side that is worse than `price`, 0 if there is none."""
    width = state.window.shape[2]
    place = price - state.base[book]
    if side == BID:
        found = _next_down(state, book, side, min(place - 1, width - 1))
    else:
        found = _next_up(state, book, side, max(place + 1, 0))
    near = state.base[book] + found if found >= 0 else 0
    if state.far_count[book, side] == 0:
        return near
    far_place = _far_place(state, book, side, price) - 1
    if far_place < 0:
        return near
    far = state.far_price[book, side, far_place]
    if near == 0:
        return far
    return max(near, far) if side == BID else min(near, far)


@inner
def better_price(state: State, book: int, side: int, price: int) -> int:
    """The worst price of a side that is better than `price`, 0 if there is none."""
    width = state.window.shape[2]
    place = price - state.base[book]
    if side == BID:
        found = _next_up(state, book, side, max(place + 1, 0))
    else:
        found = _next_down(state, book, side, min(place - 1, width - 1))
    near = state.base[book] + found if found >= 0 else 0
    far_place = _far_place(state, book, side, price)
    if far_place < state.far_count[book, side] and state.far_price[book, side, far_place] == price:
        far_place += 1
    if far_place >= state.far_count[book, side]:
        return near
    far = state.far_price[book, side, far_place]
    if near == 0:
        return far
    return min(near, far) if side == BID else max(near, far)


@inlined
def _place(state: State, book: int, side: int, price: int, level: int) -> None:
    """Puts a level where its price is looked for."""
    place = price - state.base[book]
    if 0 <= place < state.window.shape[2]:
        state.window[book, side, place] = level
        word = place >> 6
        state.bits[book, side, word] |= _ONE << np.uint64(place & 63)
        state.summary[book, side, word >> 6] |= _ONE << np.uint64(word & 63)
        return
    far = _far_place(state, book, side, price)
    count = state.far_count[book, side]
    for index in range(count, far, -1):
        state.far_price[book, side, index] = state.far_price[book, side, index - 1]
        state.far_level[book, side, index] = state.far_level[book, side, index - 1]
    state.far_price[book, side, far] = price
    state.far_level[book, side, far] = level
    state.far_count[book, side] = count + 1
    state.far_use[book] += 1


@inlined
def _unplace(state: State, book: int, side: int, price: int) -> None:
    place = price - state.base[book]
    if 0 <= place < state.window.shape[2]:
        state.window[book, side, place] = -1
        word = place >> 6
        state.bits[book, side, word] &= ~(_ONE << np.uint64(place & 63))
        if state.bits[book, side, word] == 0:
            state.summary[book, side, word >> 6] &= ~(_ONE << np.uint64(word & 63))
        return
    far = _far_place(state, book, side, price)
    count = state.far_count[book, side] - 1
    for index in range(far, count):
        state.far_price[book, side, index] = state.far_price[book, side, index + 1]
        state.far_level[book, side, index] = state.far_level[book, side, index + 1]
    state.far_count[book, side] = count
    state.far_use[book] += 1


@apart
def _recentre(state: State, book: int) -> None:
    """Moves the window to the middle of the market. O(levels in the window + far levels), every FAR_PATIENCE far uses."""
    width = state.window.shape[2]
    bid, ask = state.best[book, BID], state.best[book, ASK]
    if bid == 0 or ask == 0 or abs(ask - bid) >= width:
        middle = bid if bid != 0 else ask
    else:
        middle = (bid + ask) >> 1
    count = bids = 0
    for side in range(2):
        place = _next_up(state, book, side, 0)
        while place >= 0:
            state.scratch[count] = state.window[book, side, place]
            count += 1
            state.window[book, side, place] = -1
            place = _next_up(state, book, side, place + 1)
        if side == BID:
            bids = count
    state.bits[book, :, :] = 0
    state.summary[book, :, :] = 0
    state.base[book] = max(1, middle - width // 2)
    for index in range(count):
        level = int64(state.scratch[index])
        _place(state, book, BID if index < bids else ASK, state.levels[level].price_ticks, level)
    for side in range(2):
        kept, end = 0, state.far_count[book, side]
        for index in range(end):
            price, level = state.far_price[book, side, index], int64(state.far_level[book, side, index])
            if 0 <= price - state.base[book] < width:
                _place(state, book, side, price, level)
            else:
                state.far_price[book, side, kept] = price
                state.far_level[book, side, kept] = level
                kept += 1
        state.far_count[book, side] = kept
    state.far_use[book] = 0


@inlined
def open_level(state: State, book: int, side: int, price: int) -> int:
    """A new, empty level at `price`; keeps the best price and the window up to date."""
    if state.level_count[book] == 0:
        state.base[book] = max(1, price - state.window.shape[2] // 2)
    level = state.counters.free_level
    row = state.levels[level]
    state.counters.free_level = row.first
    row.price_ticks = price
    row.qty_lots = 0
    row.orders = 0
    row.first = -1
    row.last = -1
    row.heap = -1
    state.level_count[book] += 1
    best = state.best[book, side]
    if best == 0 or (price > best if side == BID else price < best):
        state.best[book, side] = price
    _place(state, book, side, price, level)
    if state.far_use[book] > FAR_PATIENCE:
        _recentre(state, book)
    return level


@inlined
def close_level(state: State, book: int, side: int, level: int) -> None:
    """Takes an empty level out; finds the next best price if it was the best."""
    row = state.levels[level]
    price = row.price_ticks
    _unplace(state, book, side, price)
    if state.best[book, side] == price:
        state.best[book, side] = next_price(state, book, side, price)
    row.first = state.counters.free_level
    state.counters.free_level = level
    state.level_count[book] -= 1


@inlined
def level_at(state: State, book: int, side: int, price: int) -> tuple[int, int]:
    """(quantity, orders) at a price of a side, zeros if there is no level."""
    level = find_level(state, book, side, price)
    if level < 0:
        return 0, 0
    row = state.levels[level]
    return row.qty_lots, int64(row.orders)


@compiled
def best(state: State, book: int) -> tuple[int, int, int, int]:
    """(bid price, bid quantity, ask price, ask quantity), zeros for an empty side."""
    bid, ask = state.best[book, BID], state.best[book, ASK]
    return bid, level_at(state, book, BID, bid)[0], ask, level_at(state, book, ASK, ask)[0]


@compiled
def levels(state: State, book: int, side: int, out: Rows) -> int:
    """Writes the side's levels, best first, to the LEVEL rows of `out` as far as they go; how many."""
    count = 0
    price = state.best[book, side]
    while price != 0 and count < out.size:
        row = state.levels[find_level(state, book, side, price)]
        out[count].price_ticks = price
        out[count].qty_lots = row.qty_lots
        out[count].orders = row.orders
        count += 1
        price = next_price(state, book, side, price)
    return count
