"""Limits of a market that reject as few of a day's commands as possible."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from serl.exchange.limits import LOTS_MAX, MarketLimits
from serl.exchange.records import ALL_SYMBOLS, CASH_MAX, CommandKind, Rows, TimeInForce

LIMIT_MAX = 1 << 40
"""Maximum of the quantity limit and of the price limit, as in the exchange's configuration."""
LEVELS_MAX = 1 << 24
"""Maximum of the limit of levels, as in the exchange's configuration."""
LIMITED = CommandKind.NEW, CommandKind.REDUCE, CommandKind.REPLACE, CommandKind.PRINT
"""Commands whose price and quantity columns hold prices and quantities; in others they hold values of terms, rules and settings."""
Counted = tuple[NDArray[np.int64], NDArray[np.int64]]
"""(distinct values in order, how often each)."""


def limits_for(blocks: Iterable[Rows], participants_max: int = MarketLimits.participants_max) -> MarketLimits:
    """Limits for COMMAND rows, block by block. Without them, a market that replays a day would silently reject some of its orders.

    The limits are the defaults, raised as far as the rows need (with lots of a hundred-millionth, quantities are large). The product of the
    largest quantity and the largest price is limited: if both do not fit, the limits reject as few rows as possible. A single absurd order is
    then rejected, instead of lowering the limits for all others. A symbol never has more levels than orders that may rest, and one to replace an order into. O(n log n) time;
    memory grows only with the number of distinct values.
    """
    quantities, prices, resting = _none(), _none(), np.zeros(ALL_SYMBOLS + 1, np.int64)
    for commands in blocks:
        limited = np.isin(commands["kind"], LIMITED)
        quantities = _counted(quantities, commands["qty_lots"][limited])
        prices = _counted(prices, commands["price_ticks"][limited])
        may_rest = (commands["kind"] == CommandKind.NEW) & (commands["time_in_force"] != TimeInForce.IOC)
        resting += np.bincount(commands["symbol"][may_rest], minlength=len(resting))
    fitting = _fitting(quantities, prices, MarketLimits())
    levels_max = min(max(fitting.levels_max, int(resting.max()) + 1), LEVELS_MAX)
    return replace(fitting, levels_max=levels_max, participants_max=participants_max)


def _none() -> Counted:
    return np.zeros(0, np.int64), np.zeros(0, np.int64)


def _counted(so_far: Counted, column: NDArray[np.int64]) -> Counted:
    values, counts = np.unique(column, return_counts=True)
    values, counts = np.concatenate([so_far[0], values]), np.concatenate([so_far[1], counts])
    distinct, where = np.unique(values, return_inverse=True)
    return distinct, np.bincount(where, counts).astype(np.int64)


def _above(counted: Counted, thresholds: NDArray[np.int64]) -> NDArray[np.int64]:
    """[threshold] number of larger values."""
    values, counts = counted
    not_above = np.concatenate([[0], np.cumsum(counts)])[np.searchsorted(values, thresholds, side="right")]
    return counts.sum() - not_above


def _fitting(quantities: Counted, prices: Counted, defaults: MarketLimits) -> MarketLimits:
    default = defaults.qty_lots_max
    candidates = np.concatenate([[default], quantities[0], CASH_MAX // np.maximum(prices[0], 1)])
    candidates = np.unique(candidates.clip(1, LIMIT_MAX))
    rejected = _above(quantities, candidates) + _above(prices, np.minimum(CASH_MAX // candidates, LIMIT_MAX))
    best = candidates[rejected == rejected.min()]
    largest = int(best[np.argmin(np.abs(best - default))])  # the default if it is among the best
    highest = min(max(defaults.price_ticks_max, int(prices[0].max(initial=1))), CASH_MAX // largest, LIMIT_MAX)
    return MarketLimits(
        qty_lots_max=largest,
        price_ticks_max=highest,
        orders_open_max=min(defaults.orders_open_max, LOTS_MAX // largest),
    )
