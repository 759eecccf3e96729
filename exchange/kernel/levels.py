"""Price levels: a window of prices around the market, found by index, and sorted far levels outside of it."""

from typing import Any

import numpy as np

from serl.exchange.compiling import compiled, inlined, int64
from serl.exchange.kernel.intrinsics import leading_zeros, trailing_zeros
from serl.exchange.kernel.state import ASK, BID, FREE_LEVEL, State

FAR_PATIENCE = 64
"""Far operations before the window moves to where the market is."""

_ONE = np.uint64(1)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


@inlined
def _next_up(state: State, symbol: int, start: int) -> int:
    """The first occupied place of the window at or above `start`, -1 if none."""
    bits, summary = state.bits[symbol], state.summary[symbol]
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
def _next_down(state: State, symbol: int, start: int) -> int:
    """The first occupied place of the window at or below `start`, -1 if none."""
    if start < 0:
        return -1
    bits, summary = state.bits[symbol], state.summary[symbol]
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


@compiled
def _far_place(state: State, symbol: int, side: int, price: int) -> int:
    """Where `price` is or belongs among the far levels of a side (worst first). O(log far levels)."""
    low, high = 0, state.far_count[symbol, side]
    prices = state.far_price[symbol, side]
    while low < high:
        middle = (low + high) >> 1
        before = prices[middle] < price if side == BID else prices[middle] > price
        if before:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def find_level(state: State, symbol: int, side: int, price: int) -> int:
    """The level of a price and side, -1 if there is none."""
    place = price - state.base[symbol]
    if 0 <= place < state.window.shape[1]:
        level = int64(state.window[symbol, place])
        if level >= 0 and (price <= state.best[symbol, BID]) == (side == BID):
            return level
        return -1
    far = _far_place(state, symbol, side, price)
    if far < state.far_count[symbol, side] and state.far_price[symbol, side, far] == price:
        return int64(state.far_level[symbol, side, far])
    return -1


@inlined
def next_price(state: State, symbol: int, side: int, price: int) -> int:
    """The best price of a side that is worse than `price`, 0 if there is none."""
    width = state.window.shape[1]
    place = price - state.base[symbol]
    if side == BID:
        found = _next_down(state, symbol, min(place - 1, width - 1))
    else:
        found = _next_up(state, symbol, max(place + 1, 0))
    near = state.base[symbol] + found if found >= 0 else 0
    if state.far_count[symbol, side] == 0:
        return near
    far_place = _far_place(state, symbol, side, price) - 1
    if far_place < 0:
        return near
    far = state.far_price[symbol, side, far_place]
    if near == 0:
        return far
    return max(near, far) if side == BID else min(near, far)


@inlined
def _place(state: State, symbol: int, side: int, price: int, level: int) -> None:
    """Puts a level where its price is looked for."""
    place = price - state.base[symbol]
    if 0 <= place < state.window.shape[1]:
        state.window[symbol, place] = level
        word = place >> 6
        state.bits[symbol, word] |= _ONE << np.uint64(place & 63)
        state.summary[symbol, word >> 6] |= _ONE << np.uint64(word & 63)
        return
    far = _far_place(state, symbol, side, price)
    count = state.far_count[symbol, side]
    for index in range(count, far, -1):
        state.far_price[symbol, side, index] = state.far_price[symbol, side, index - 1]
        state.far_level[symbol, side, index] = state.far_level[symbol, side, index - 1]
    state.far_price[symbol, side, far] = price
    state.far_level[symbol, side, far] = level
    state.far_count[symbol, side] = count + 1
    state.far_use[symbol] += 1


@inlined
def _unplace(state: State, symbol: int, side: int, price: int) -> None:
    place = price - state.base[symbol]
    if 0 <= place < state.window.shape[1]:
        state.window[symbol, place] = -1
        word = place >> 6
        state.bits[symbol, word] &= ~(_ONE << np.uint64(place & 63))
        if state.bits[symbol, word] == 0:
            state.summary[symbol, word >> 6] &= ~(_ONE << np.uint64(word & 63))
        return
    far = _far_place(state, symbol, side, price)
    count = state.far_count[symbol, side] - 1
    for index in range(far, count):
        state.far_price[symbol, side, index] = state.far_price[symbol, side, index + 1]
        state.far_level[symbol, side, index] = state.far_level[symbol, side, index + 1]
    state.far_count[symbol, side] = count
    state.far_use[symbol] += 1


@compiled
def _recentre(state: State, symbol: int) -> None:
    """Moves the window to the middle of the market. O(levels in the window + far levels), every FAR_PATIENCE far uses."""
    width = state.window.shape[1]
    bid, ask = state.best[symbol, BID], state.best[symbol, ASK]
    if bid == 0 or ask == 0 or ask - bid >= width:
        middle = bid if bid != 0 else ask
    else:
        middle = (bid + ask) >> 1
    count = 0
    place = _next_up(state, symbol, 0)
    while place >= 0:
        state.scratch[count] = state.window[symbol, place]
        count += 1
        state.window[symbol, place] = -1
        place = _next_up(state, symbol, place + 1)
    state.bits[symbol, :] = 0
    state.summary[symbol, :] = 0
    state.base[symbol] = max(1, middle - width // 2)
    for index in range(count):
        price = state.levels[state.scratch[index]].price_ticks
        _place(state, symbol, BID if price <= bid else ASK, price, state.scratch[index])
    for side in range(2):
        kept, end = 0, state.far_count[symbol, side]
        for index in range(end):
            price, level = state.far_price[symbol, side, index], state.far_level[symbol, side, index]
            if 0 <= price - state.base[symbol] < width:
                _place(state, symbol, side, price, level)
            else:
                state.far_price[symbol, side, kept] = price
                state.far_level[symbol, side, kept] = level
                kept += 1
        state.far_count[symbol, side] = kept
    state.far_use[symbol] = 0


@inlined
def open_level(state: State, symbol: int, side: int, price: int) -> int:
    """A new, empty level at `price`; keeps the best price and the window up to date."""
    if state.level_count[symbol] == 0:
        state.base[symbol] = max(1, price - state.window.shape[1] // 2)
    level = state.counter[FREE_LEVEL]
    row = state.levels[level]
    state.counter[FREE_LEVEL] = row.first
    row.price_ticks = price
    row.qty_lots = 0
    row.orders = 0
    row.first = -1
    row.last = -1
    state.level_count[symbol] += 1
    best = state.best[symbol, side]
    if best == 0 or (price > best if side == BID else price < best):
        state.best[symbol, side] = price
    _place(state, symbol, side, price, level)
    if state.far_use[symbol] > FAR_PATIENCE:
        _recentre(state, symbol)
    return level


@inlined
def close_level(state: State, symbol: int, side: int, level: int) -> None:
    """Takes an empty level out; finds the next best price if it was the best."""
    row = state.levels[level]
    price = row.price_ticks
    _unplace(state, symbol, side, price)
    if state.best[symbol, side] == price:
        state.best[symbol, side] = next_price(state, symbol, side, price)
    row.first = state.counter[FREE_LEVEL]
    state.counter[FREE_LEVEL] = level
    state.level_count[symbol] -= 1


@inlined
def level_at(state: State, symbol: int, side: int, price: int) -> tuple[int, int]:
    """(quantity, orders) at a price of a side, zeros if there is no level."""
    level = find_level(state, symbol, side, price)
    if level < 0:
        return 0, 0
    row = state.levels[level]
    return row.qty_lots, int64(row.orders)


@compiled
def best(state: State, symbol: int) -> tuple[int, int, int, int]:
    """(bid price, bid quantity, ask price, ask quantity), zeros for an empty side."""
    bid, ask = state.best[symbol, BID], state.best[symbol, ASK]
    return bid, level_at(state, symbol, BID, bid)[0], ask, level_at(state, symbol, ASK, ask)[0]


@compiled
def levels(state: State, symbol: int, side: int, out: Any) -> int:
    """Writes the side's levels, best first, to the LEVEL rows of `out` as far as they go; how many."""
    count = 0
    price = state.best[symbol, side]
    while price != 0 and count < out.size:
        row = state.levels[find_level(state, symbol, side, price)]
        out[count].price_ticks = price
        out[count].qty_lots = row.qty_lots
        out[count].orders = row.orders
        count += 1
        price = next_price(state, symbol, side, price)
    return count
