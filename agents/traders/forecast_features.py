"""The features of agents/signals/features.py in compiled code: computed every 100 ms, in the memory of a trader.

Changes between two wake-ups are added to a ring buffer of cumulative sums, so that a window takes two reads. Sums are integers, as there.
"""

import math
from typing import Any

from serl.agents.traders.addresses import load_float64, store_float64
from serl.exchange.compiling import compiled, inlined, inner, int64

STEP_NS = 100_000_000
LEVELS = 5
WINDOW_STEPS = (5, 20, 100, 600)
LONGEST = 600
OFI, DEPTH, BUYS, SELLS, MOVE, PATH, UNKNOWN = range(7)
"""Columns of the sums, as in agents/signals/features.py."""
COLUMNS = 7
FEATURES = 29
SIGNED_FIRST, SIGNED_STOP = 1, 19
"""Features that change sign when buyers and sellers are exchanged: imbalances, the weighted mid, OFI, trades and moves. The last two features, the
lots at the touch, are then exchanged."""

# Slots of the memory
COUNT, BID, ASK, BOUGHT, SOLD, KNOWN = range(6)
"""Number of books so far; then, for the last book, the touch, the lots taken until then, and whether there are features."""
LOTS = 6
"""Lots of the last book: LEVELS bids, then LEVELS asks; 0 where there is no level."""
SUMS = LOTS + 2 * LEVELS
"""The sums: LONGEST + 1 rows of COLUMNS."""
RAW = SUMS + (LONGEST + 1) * COLUMNS
"""The features that `write_features` writes."""
SLOTS = RAW + FEATURES


@inlined
def get(memory: int, slot: int) -> float:
    """Reads a number from the memory at an address."""
    return load_float64(memory + 8 * slot)


@inlined
def put(memory: int, slot: int, value: float) -> None:
    """Writes a number to the memory at an address."""
    store_float64(memory + 8 * slot, value)


@inlined
def _add(memory: int, count: int, column: int, change: float) -> None:
    """Writes a sum up to book number `count`: the sum up to the previous book plus the change."""
    row, before = count % (LONGEST + 1), (count - 1) % (LONGEST + 1)
    put(memory, SUMS + row * COLUMNS + column, get(memory, SUMS + before * COLUMNS + column) + change)


@inlined
def _order_flow(market: Any, memory: int) -> float:
    """Order-flow imbalance between the last book and this one (Cont, Kukanov, Stoikov 2014)."""
    flow = 0.0
    if market.bid_ticks >= get(memory, BID):
        flow += market.bid_lots
    if market.bid_ticks <= get(memory, BID):
        flow -= get(memory, LOTS)
    if market.ask_ticks >= get(memory, ASK):
        flow += get(memory, LOTS + LEVELS)
    if market.ask_ticks <= get(memory, ASK):
        flow -= market.ask_lots
    return flow


@inlined
def _add_changes(market: Any, memory: int, count: int) -> None:
    """Adds the changes since the last book to the ring."""
    bid, ask = get(memory, BID), get(memory, ASK)
    known = bid > 0 and ask > bid and market.bid_ticks > 0 and market.ask_ticks > market.bid_ticks
    move = market.bid_ticks + market.ask_ticks - bid - ask
    _add(memory, count, OFI, _order_flow(market, memory))
    _add(memory, count, DEPTH, 1.0 * (market.bid_lots + market.ask_lots))
    _add(memory, count, BUYS, market.bought_lots - get(memory, BOUGHT))
    _add(memory, count, SELLS, market.sold_lots - get(memory, SOLD))
    _add(memory, count, MOVE, move)
    _add(memory, count, PATH, abs(move))
    _add(memory, count, UNKNOWN, 0.0 if known else 1.0)


@inlined
def take_book(market: Any) -> bool:
    """Observes the book and the lots taken since the last one. Returns whether there are features now: the books of a whole minute are known."""
    memory = market.memory_address
    count = int64(get(memory, COUNT))
    if count > 0:
        _add_changes(market, memory, count)
    put(memory, COUNT, count + 1.0)
    put(memory, BID, 1.0 * market.bid_ticks)
    put(memory, ASK, 1.0 * market.ask_ticks)
    put(memory, BOUGHT, 1.0 * market.bought_lots)
    put(memory, SOLD, 1.0 * market.sold_lots)
    for level in range(LEVELS):
        put(memory, LOTS + level, 1.0 * market.bid_qty[level] if level < market.bid_levels else 0.0)
        put(memory, LOTS + LEVELS + level, 1.0 * market.ask_qty[level] if level < market.ask_levels else 0.0)
    known = count >= LONGEST and _window(memory, LONGEST, UNKNOWN) == 0.0
    put(memory, KNOWN, 1.0 if known else 0.0)
    return known


@inlined
def _window(memory: int, steps: int, column: int) -> float:
    """A sum over the last `steps` steps."""
    count = int64(get(memory, COUNT)) - 1
    now, then = count % (LONGEST + 1), (count - steps) % (LONGEST + 1)
    return get(memory, SUMS + now * COLUMNS + column) - get(memory, SUMS + then * COLUMNS + column)


@inlined
def _write_book(memory: int) -> None:
    """Writes spread, imbalances and weighted mid, and the lots at the touch."""
    spread, bid_lots, ask_lots = get(memory, ASK) - get(memory, BID), 0.0, 0.0
    put(memory, RAW, spread)
    for level in range(LEVELS):
        bid_lots += get(memory, LOTS + level)
        ask_lots += get(memory, LOTS + LEVELS + level)
        put(memory, RAW + 1 + level, (bid_lots - ask_lots) / max(1.0, bid_lots + ask_lots))
    put(memory, RAW + 1 + LEVELS, get(memory, RAW + 1) * spread / 2)
    put(memory, RAW + FEATURES - 2, math.log1p(get(memory, LOTS)))
    put(memory, RAW + FEATURES - 1, math.log1p(get(memory, LOTS + LEVELS)))


@inlined
def _write_window(memory: int, window: int, steps: int) -> None:
    """Writes the features of a window, one for each name in agents/signals/features.PER_WINDOW."""
    windows = len(WINDOW_STEPS)
    at = RAW + 2 + LEVELS + window
    buys, sells = _window(memory, steps, BUYS), _window(memory, steps, SELLS)
    put(memory, at, 2 * steps * _window(memory, steps, OFI) / max(1.0, _window(memory, steps, DEPTH)))
    put(memory, at + windows, (buys - sells) / max(1.0, buys + sells))
    put(memory, at + 2 * windows, _window(memory, steps, MOVE) / 2)
    put(memory, at + 3 * windows, _window(memory, steps, PATH) / 2)
    put(memory, at + 4 * windows, math.log1p(buys + sells))


@inner
def write_features(memory: int) -> None:
    """Writes the FEATURES numbers from slot RAW on. Call it only after `take_book` returned True."""
    _write_book(memory)
    for window in range(len(WINDOW_STEPS)):
        _write_window(memory, window, WINDOW_STEPS[window])


@compiled
def copy_features(memories: Any, out: Any) -> None:
    """Writes to `out` (n, FEATURES) the features of the last observation of the forecasters whose memories are at the addresses (n,); NaN without
    features."""
    for row in range(memories.size):
        known = get(memories[row], KNOWN) > 0.0
        if known:
            write_features(memories[row])
        for index in range(FEATURES):
            out[row, index] = get(memories[row], RAW + index) if known else math.nan


@inlined
def standardise(memory: int, target: int, centre: Any, scale: Any, clip: float) -> None:
    """Writes the standardised features, the input of models, to an address."""
    for index in range(FEATURES):
        value = (get(memory, RAW + index) - centre[index]) / scale[index]
        store_float64(target + 8 * index, min(clip, max(-clip, value)))


@inner
def weighed(memory: int, centre: Any, scale: Any, clip: float, weights: Any, at: int, side: int) -> float:
    """weights[at:] times the standardised features, plus the intercept after the weights. side: 1 exchanges buyers and sellers."""
    total = weights[at + FEATURES]
    for index in range(FEATURES):
        source, sign = index, 1.0
        if side == 1:
            if SIGNED_FIRST <= index < SIGNED_STOP:
                sign = -1.0
            elif index >= FEATURES - 2:
                source = 2 * FEATURES - 3 - index
        value = (sign * get(memory, RAW + source) - centre[index]) / scale[index]
        total += weights[at + index] * min(clip, max(-clip, value))
    return total


@inlined
def layer(numbers: Any, at: int, source: int, n_in: int, target: int, n_out: int) -> None:
    """target = source @ weights + intercepts; target and source are addresses. numbers[at:]: weights (in, out), then intercepts."""
    for to in range(n_out):
        store_float64(target + 8 * to, numbers[at + n_in * n_out + to])
    for index in range(n_in):
        value = load_float64(source + 8 * index)
        if value != 0.0:
            for to in range(n_out):
                store_float64(target + 8 * to, load_float64(target + 8 * to) + value * numbers[at + index * n_out + to])
