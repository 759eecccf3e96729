"""Whether an order of one lot that joins the back of the queue at the touch is filled within a horizon."""

from typing import NamedTuple

import numpy as np

from serl.agents.signals.features import has_spread
from serl.agents.signals.grid import STEP_NS, STEP_S, Bools, Floats, Grid, Ints
from serl.exchange.records import Side

SIDES = (int(Side.BUY), int(Side.SELL))
NO_NUMBER = -1
"""Order number for a price that the other side reached: every order resting there would have been filled."""
NEVER_NS = np.iinfo(np.int64).max


class _Passes(NamedTuple):
    """k times at which the market passed prices of one side, in order of time. Prices of asks are negated, so that better ones are higher."""

    time_ns: Ints
    price_ticks: Ints
    """All orders above this price are filled, and at this price those with a smaller order number."""
    number: Ints


def fill_times(grid: Grid, longest_s: float) -> Ints:
    """[n, side] time in ns at which an order of one lot that joins the best bid or ask at each time would be filled; NEVER_NS if not within the longest
    horizon, or if there is no spread.

    The order is filled before any order with a worse price, or with the same price and a later arrival, trades, and when the other side's best price
    reaches its own. Its own lot changes nothing for others. O(fills x steps of the horizon).
    """
    known, steps = has_spread(grid.ticks), round(longest_s / STEP_S)
    found = np.full((len(grid.time_ns), 2), NEVER_NS)
    for side in SIDES:
        own = _signed(grid.ticks[:, side, 0], side)
        for time_ns, price, number in zip(*(values.tolist() for values in _passes(grid, side)), strict=True):
            stop = int(np.searchsorted(grid.time_ns, time_ns))
            rows = slice(max(0, stop - steps), stop)
            passed = own[rows] > price
            if number != NO_NUMBER:
                passed |= (own[rows] == price) & (grid.flow.last_number[rows] < number)
            unfilled = found[rows, side] == NEVER_NS
            found[rows, side][passed & unfilled & known[rows]] = time_ns
    return found


def _signed(ticks: Ints, side: int) -> Ints:
    return ticks if side == Side.BUY else -ticks


def _passes(grid: Grid, side: int) -> _Passes:
    """The fills of the side's resting orders, and the times at which the best price of the other side came nearer."""
    fills = grid.flow.fills
    resting = fills.side == side
    other = grid.ticks[:, 1 - side, 0]
    best = _signed(np.where(other > 0, other, np.iinfo(np.int32).max if side == Side.BUY else 0), side)
    nearer = np.flatnonzero(best[1:] < best[:-1]) + 1
    passes = _Passes(
        np.concatenate([fills.time_ns[resting], grid.time_ns[nearer]]),
        np.concatenate([_signed(fills.price_ticks[resting], side), best[nearer] - 1]),
        np.concatenate([fills.order_number[resting], np.full(len(nearer), NO_NUMBER)]),
    )
    order = np.argsort(passes.time_ns, kind="stable")
    return _Passes(*(values[order] for values in passes))


def later_fills(grid: Grid, times_ns: Ints, horizon_s: float, until_ns: int) -> Floats:
    """[n, side] 1 where `fill_times` is within the horizon, else 0. NaN if the horizon ends after `until_ns`, or if there is no spread."""
    ends = grid.time_ns + round(horizon_s / STEP_S) * STEP_NS
    known: Bools = has_spread(grid.ticks) & (ends <= until_ns)
    return np.where(known[:, np.newaxis], times_ns <= ends[:, np.newaxis], np.nan)


def past_fills(grid: Grid, times_ns: Ints, horizon_s: float) -> Floats:
    """[n, side] 1 where an order that joined the queue one horizon ago is filled by now, else 0. NaN where the book then is not known."""
    steps = round(horizon_s / STEP_S)
    found = np.full((len(grid.time_ns), 2), np.nan)
    found[steps:] = later_fills(grid, times_ns, horizon_s, NEVER_NS)[: max(0, len(found) - steps)]
    return found
