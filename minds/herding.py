"""The herding measure of Lakonishok, Shleifer and Vishny, The impact of institutional trading on stock prices (1992).

For a symbol in a period, with B of N traders as net buyers, the others as net sellers:

    H = |B/N - p| - E|B/N - p|    with B of the expectation binomial (N, p)

p is the expected share of buyers without herding. In the paper it is the mean over all stocks of the quarter. A market with a few symbols gives no
meaningful such mean, so here it is the mean over all symbols and periods of the run, including those with few traders. The measure is the mean of H
over all symbols and periods with at least TRADERS_MIN traders: 0 if traders decide independently, larger if they buy or sell together. It is biased
towards 0 if there are few traders (Bellando, The bias in a standard measure of herding, 2012).
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

TRADERS_MIN = 5


@dataclass(frozen=True)
class Herding:
    """The measure and the figures that it is based on."""

    mean: float | None
    """None if no symbol had TRADERS_MIN traders in any period."""
    buyers_share: float | None
    """p of the module's docstring; None if `mean` is None."""
    symbol_periods: int
    """Number of symbols and periods in the mean."""


def herding(net_lots: Iterable[tuple[str, int, str, int]]) -> Herding:
    """The herding measure of rows (symbol, period, trader, lots bought minus lots sold). Several rows of a trader in a period are added up."""
    totals: dict[tuple[str, int, str], int] = {}
    for symbol, period, trader, lots in net_lots:
        key = (symbol, period, trader)
        totals[key] = totals.get(key, 0) + lots
    counts: dict[tuple[str, int], tuple[int, int]] = {}
    for (symbol, period, _), lots in totals.items():
        if lots:
            buyers, traders = counts.get((symbol, period), (0, 0))
            counts[symbol, period] = buyers + (lots > 0), traders + 1
    kept = [(buyers, traders) for buyers, traders in counts.values() if traders >= TRADERS_MIN]
    if not kept:
        return Herding(None, None, 0)
    share = sum(buyers for buyers, _ in counts.values()) / sum(traders for _, traders in counts.values())
    values = [abs(buyers / traders - share) - expected_deviation(traders, share) for buyers, traders in kept]
    return Herding(sum(values) / len(values), share, len(values))


def expected_deviation(traders: int, share: float) -> float:
    """E|B/N - p|, the adjustment factor."""
    return sum(
        math.comb(traders, buyers) * share**buyers * (1 - share) ** (traders - buyers) * abs(buyers / traders - share)
        for buyers in range(traders + 1)
    )
