"""The features of agents/signals/features.py in compiled code: 100 ms after 100 ms, in the memory of a trader.

What happened between two wake-ups is added up in a ring of sums, so that a window costs two reads. Sums are integers, as there.
"""

import math
from typing import Any

from serl.agents.traders.addresses import load_float64, store_float64
from serl.agents.traders.trader_api import recall, remember
from serl.exchange.compiling import inlined, int64

STEP_NS = 100_000_000
LEVELS = 5
WINDOW_STEPS = (5, 20, 100, 600)
LONGEST = 600
OFI, DEPTH, BUYS, SELLS, MOVE, PATH, UNKNOWN = range(7)
"""Columns of the sums, as in agents/signals/features.py."""
COLUMNS = 7
FEATURES = 29

# Slots of the memory
COUNT, BID, ASK, BID_LOTS, ASK_LOTS, BOUGHT, SOLD = range(7)
"""Books so far; the touch of the last one, and the lots taken until then."""
SUMS = 7
"""LONGEST + 1 rows of COLUMNS."""
RAW = SUMS + (LONGEST + 1) * COLUMNS
"""The features."""
SLOTS = RAW + FEATURES


@inlined
def _add(market: Any, row: int, before: int, column: int, change: float) -> None:
    """Writes a sum: the one before, and what has changed."""
    remember(market, SUMS + row * COLUMNS + column, recall(market, SUMS + before * COLUMNS + column) + change)


@inlined
def _order_flow(market: Any) -> float:
    """Order-flow imbalance between the last book and this one (Cont, Kukanov, Stoikov 2014)."""
    flow = 0.0
    if market.bid_ticks >= recall(market, BID):
        flow += market.bid_lots
    if market.bid_ticks <= recall(market, BID):
        flow -= recall(market, BID_LOTS)
    if market.ask_ticks >= recall(market, ASK):
        flow += recall(market, ASK_LOTS)
    if market.ask_ticks <= recall(market, ASK):
        flow -= market.ask_lots
    return flow


@inlined
def _add_changes(market: Any, count: int) -> None:
    """Adds what changed since the last book to the ring."""
    row = count % (LONGEST + 1)
    before = (count - 1) % (LONGEST + 1)
    bid, ask = recall(market, BID), recall(market, ASK)
    known = bid > 0 and ask > bid and market.bid_ticks > 0 and market.ask_ticks > market.bid_ticks
    move = market.bid_ticks + market.ask_ticks - bid - ask
    _add(market, row, before, OFI, _order_flow(market))
    _add(market, row, before, DEPTH, 1.0 * (market.bid_lots + market.ask_lots))
    _add(market, row, before, BUYS, market.bought_lots - recall(market, BOUGHT))
    _add(market, row, before, SELLS, market.sold_lots - recall(market, SOLD))
    _add(market, row, before, MOVE, move)
    _add(market, row, before, PATH, abs(move))
    _add(market, row, before, UNKNOWN, 0.0 if known else 1.0)


@inlined
def take_book(market: Any) -> bool:
    """Takes the book and the lots taken since the last one. Returns whether there are features now: the books of a whole minute were known."""
    count = int64(recall(market, COUNT))
    if count > 0:
        _add_changes(market, count)
    remember(market, COUNT, count + 1.0)
    remember(market, BID, 1.0 * market.bid_ticks)
    remember(market, ASK, 1.0 * market.ask_ticks)
    remember(market, BID_LOTS, 1.0 * market.bid_lots)
    remember(market, ASK_LOTS, 1.0 * market.ask_lots)
    remember(market, BOUGHT, 1.0 * market.bought_lots)
    remember(market, SOLD, 1.0 * market.sold_lots)
    return count >= LONGEST and _window(market, count, LONGEST, UNKNOWN) == 0.0


@inlined
def _window(market: Any, count: int, steps: int, column: int) -> float:
    """A sum over the last `steps` steps up to book number `count`."""
    now, then = count % (LONGEST + 1), (count - steps) % (LONGEST + 1)
    return recall(market, SUMS + now * COLUMNS + column) - recall(market, SUMS + then * COLUMNS + column)


@inlined
def _write_book(market: Any) -> None:
    """Spread, imbalances and weighted mid; and the lots at the touch."""
    spread = 1.0 * (market.ask_ticks - market.bid_ticks)
    bid_lots = ask_lots = 0
    remember(market, RAW, spread)
    for level in range(LEVELS):
        if level < market.bid_levels:
            bid_lots += market.bid_qty[level]
        if level < market.ask_levels:
            ask_lots += market.ask_qty[level]
        remember(market, RAW + 1 + level, (bid_lots - ask_lots) / max(1, bid_lots + ask_lots))
    remember(market, RAW + 1 + LEVELS, recall(market, RAW + 1) * spread / 2)
    remember(market, RAW + FEATURES - 2, math.log1p(market.bid_lots))
    remember(market, RAW + FEATURES - 1, math.log1p(market.ask_lots))


@inlined
def _write_window(market: Any, count: int, window: int, steps: int) -> None:
    """The features of a window, one of each name in agents/signals/features.PER_WINDOW."""
    windows = len(WINDOW_STEPS)
    at = RAW + 2 + LEVELS + window
    buys, sells = _window(market, count, steps, BUYS), _window(market, count, steps, SELLS)
    flow, depth = _window(market, count, steps, OFI), _window(market, count, steps, DEPTH)
    remember(market, at, 2 * steps * flow / max(1.0, depth))
    remember(market, at + windows, (buys - sells) / max(1.0, buys + sells))
    remember(market, at + 2 * windows, _window(market, count, steps, MOVE) / 2)
    remember(market, at + 3 * windows, _window(market, count, steps, PATH) / 2)
    remember(market, at + 4 * windows, math.log1p(buys + sells))


@inlined
def write_features(market: Any) -> None:
    """Writes the FEATURES numbers from slot RAW on. Only after `take_book` has found that there are any."""
    count = int64(recall(market, COUNT)) - 1
    _write_book(market)
    for window in range(len(WINDOW_STEPS)):
        _write_window(market, count, window, WINDOW_STEPS[window])


@inlined
def standardise(market: Any, target: int, centre: Any, scale: Any, clip: float) -> None:
    """Writes the features as models take them to an address."""
    for index in range(FEATURES):
        value = (recall(market, RAW + index) - centre[index]) / scale[index]
        store_float64(target + 8 * index, min(clip, max(-clip, value)))


@inlined
def layer(numbers: Any, at: int, source: int, n_in: int, target: int, n_out: int) -> None:
    """target = source @ weights + intercepts, both addresses; numbers[at:]: weights (in, out), then intercepts."""
    for to in range(n_out):
        store_float64(target + 8 * to, numbers[at + n_in * n_out + to])
    for index in range(n_in):
        value = load_float64(source + 8 * index)
        if value != 0.0:
            for to in range(n_out):
                store_float64(target + 8 * to, load_float64(target + 8 * to) + value * numbers[at + index * n_out + to])
