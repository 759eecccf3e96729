"""Execution costs, one function per measure; None where the market has no benchmark. docs/execution.md defines them.

Prices may have any unit (here ticks). Results are in basis points; higher is better. sign is +1 for a sell, -1 for a buy.
"""

from collections.abc import Sequence

IS_MEANING = "vs arrival, higher is better"
"""Printed with every IS, because in the literature it is a cost, but here a gain."""


def average_price(fills: Sequence[tuple[int, int]]) -> float | None:
    """Volume-weighted average of (price, quantity) pairs."""
    qty = sum(lots for _, lots in fills)
    return sum(price * lots for price, lots in fills) / qty if qty else None


def advantage_bps(sign: int, executed: float | None, benchmark: float | None) -> float | None:
    """s (p_exec / p_benchmark - 1) 1e4: PA against the market's VWAP or a TWAP's price, IS against the arrival mid."""
    if executed is None or not benchmark:
        return None
    return sign * (executed / benchmark - 1) * 1e4


def market_vwap(trades: Sequence[tuple[int, int, int]], own_matches: set[int]) -> float | None:
    """VWAP of (match id, price, quantity) trades, our own excluded."""
    return average_price([(price, qty) for match_id, price, qty in trades if match_id not in own_matches])


def participation(executed_lots: int, trades: Sequence[tuple[int, int, int]], own_matches: set[int]) -> float | None:
    """Our share of all volume in the window, including ours."""
    others = sum(qty for match_id, _, qty in trades if match_id not in own_matches)
    total = others + executed_lots
    return executed_lots / total if total else None


def unfilled_share(unfilled_lots: int, qty_lots: int) -> float:
    """AFI of one order: quantity left at the end of the window, before forced completion, over the total quantity."""
    return unfilled_lots / qty_lots


def fill_ratio(filled_lots: int, qty_lots: int) -> float:
    """FFR: filled quantity, forced completion included, over the total quantity."""
    return filled_lots / qty_lots
