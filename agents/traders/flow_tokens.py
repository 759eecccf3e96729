"""The alphabet of kinds/neural_flow.py: events of the order flow, relative to the book that they meet.

A token is a side and one of LOCAL events: a limit order inside the spread (by how far it improves the touch), at an existing level, or in the gap
behind one; a cancellation at a level; a market order that takes less than the touch, exactly the touch, or trades through it. The side is that
of the order; for a market order, the aggressor's. Levels count from 0, the touch.
"""

import math
from typing import Any

from serl.exchange.compiling import inlined

LEVELS = 10
INSIDE, JOIN, GAP, CANCEL_AT, TRADE_LESS, TRADE_TOUCH, TRADE_THROUGH = 0, 6, 16, 25, 35, 36, 37
"""First local event of each group."""
LOCAL = 38
TOKENS = 2 * LOCAL
INSIDE_EDGES = (0.15, 0.35, 0.6, 0.85)
"""Shares of the spread between the classes of improvements by more than a tick."""

COARSE = 6
"""Coarse classes of a side: inside, at the touch, behind it, cancelled at the touch, cancelled behind it, trade."""
COARSE_TRADE = 5
CLASSES = 2 * COARSE


@inlined
def coarse_class(token: int) -> int:
    """The coarse class of a token, 0 .. CLASSES - 1."""
    side, local = token // LOCAL, token % LOCAL
    if local < JOIN:
        kind = 0
    elif local == JOIN:
        kind = 1
    elif local < CANCEL_AT:
        kind = 2
    elif local == CANCEL_AT:
        kind = 3
    elif local < TRADE_LESS:
        kind = 4
    else:
        kind = COARSE_TRADE
    return side * COARSE + kind


@inlined
def inside_class(improvement_ticks: int, spread_ticks: int) -> int:
    """The local event of a limit order that improves the touch: by one tick, or by a share of the spread."""
    if improvement_ticks <= 1:
        return INSIDE
    share = improvement_ticks / spread_ticks
    found = INSIDE + 1
    for edge in INSIDE_EDGES:
        found += share >= edge
    return found


@inlined
def inside_ticks(local: int, spread_ticks: int, draw: float) -> int:
    """Draws an improvement within a class's shares of the spread, in ticks: at least 1 and less than the spread."""
    if local == INSIDE:
        return 1
    number = local - INSIDE - 1
    low = 0.0 if number == 0 else INSIDE_EDGES[number - 1]
    high = 1.0 if number == len(INSIDE_EDGES) else INSIDE_EDGES[number]
    first, last = max(2, math.ceil(low * spread_ticks)), math.ceil(high * spread_ticks) - 1
    return max(1, min(spread_ticks - 1, first + int(draw * (max(first, last) - first + 1))))


def mirrored(token: Any) -> Any:
    """The same event on the other side; also for arrays of tokens."""
    return (token + LOCAL) % TOKENS
