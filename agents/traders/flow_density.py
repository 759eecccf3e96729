"""The density of the book of kinds/flow.py: the target of each side, and the pull towards it.

A side's density is the lots on its visible levels per tick that these span. The pull is proportional to the density's distance from the measured
mean and to the sum of past distances (a PI controller): the tables alone make more or fewer orders than are cancelled and filled, and a pull by
the distance alone would settle where both balance, far from the mean.
"""

import math
from typing import Any

from serl.agents.traders.flow_reference import MEMORY_SLOTS
from serl.agents.traders.flow_tables import CANCEL_KIND, LIMIT_KIND, levels_in_view, view_ticks
from serl.agents.traders.trader_api import recall, remember
from serl.exchange.compiling import inlined

PAST = MEMORY_SLOTS
"""First index in the memory of the sums of past distances, by side."""
DENSITY_SLOTS = PAST + 2
"""Size of the memory including these sums."""
PAST_EVENTS = 1000.0
"""A distance that lasts for this many events counts twice."""
PULL_MAX = 3.0


@inlined
def _distance(profile: Any, market: Any, side: int) -> float:
    """ln of a side's density relative to profile.lots_per_tick, bounded to [-2, 2]."""
    lots = 0
    for level in range(levels_in_view(profile, market, side)):
        lots += market.bid_qty[level] if side == 0 else market.ask_qty[level]
    density = max(1.0, 1.0 * lots) / max(1.0, 1.0 * view_ticks(profile, market, side))
    return min(2.0, max(-2.0, math.log(density / profile.lots_per_tick[side])))


@inlined
def advance_density(profile: Any, market: Any) -> Any:
    """Returns the (bids', asks') excess: how strongly each side is pulled back, positive if it is too dense, within PULL_MAX. Adds this event's
    distances to the past ones."""
    return _advance_side(profile, market, 0), _advance_side(profile, market, 1)


@inlined
def _advance_side(profile: Any, market: Any, side: int) -> float:
    distance = _distance(profile, market, side)
    past = _bounded(recall(market, PAST + side) + distance / PAST_EVENTS)
    remember(market, PAST + side, past)
    return _bounded(distance + past)


@inlined
def _bounded(pull: float) -> float:
    return min(PULL_MAX, max(-PULL_MAX, pull))


@inlined
def restore_density(profile: Any, kind: int, excess: float, draw: float) -> int:
    """Pulls the book's density back: turns a limit order into a cancellation if the book is dense, and vice versa if it is thin."""
    if kind != (LIMIT_KIND if excess > 0 else CANCEL_KIND) or draw < math.exp(-profile.restoring * abs(excess)):
        return kind
    return CANCEL_KIND if kind == LIMIT_KIND else LIMIT_KIND
