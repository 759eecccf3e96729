"""Checks parent orders: the day exists, the window is within it, and the quantity is at most the day's volume."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from serl.exchange.config import time_of_day_text
from serl.exchange.errors import ConfigError
from serl.exchange.records import Rows

SECOND_NS = 1_000_000_000


def ends_ns(episodes: Rows) -> Any:
    """(n,) ends of the windows of EPISODE rows."""
    return episodes["start_ns"] + episodes["interval_ns"] * episodes["steps"]


def nearest_multiples(lots: Any, lot_multiples: Any) -> Any:
    """The nearest quantities that orders can have, int64: at least one multiple each."""
    return (lot_multiples * np.maximum(1, np.rint(lots / lot_multiples))).astype(np.int64)


def split_lots(qty_lots: Any, parts: int, lot_multiple: int) -> Any:
    """(n * parts,) quantities: each of (n,) split as evenly as whole multiples allow; the first parts get what is left over."""
    each, remainder = np.divmod(np.asarray(qty_lots) // lot_multiple, parts)
    return lot_multiple * (each[:, None] + (np.arange(parts) < remainder[:, None])).ravel()


def check_multiples(episodes: Rows, lot_multiples: Any) -> None:
    """Raises ConfigError for an EPISODE row whose quantity is not a multiple of the lots that its market trades."""
    odd = episodes["qty_lots"] % lot_multiples != 0
    if np.any(odd):
        bad = int(np.argmax(odd))
        lot = np.broadcast_to(lot_multiples, odd.shape)[bad]
        raise ConfigError(
            f"quantity: expected a multiple of lot_multiple ({lot}), got {episodes['qty_lots'][bad]:,}; round it"
        )


def check(episodes: Rows, spans_ns: Sequence[tuple[int, int]], most_lots: Sequence[float]) -> None:
    """Raises ConfigError for an EPISODE row whose window is outside its day's (first, last) time, or whose quantity exceeds the day's most_lots."""
    days, qty = episodes["day"], episodes["qty_lots"]
    if np.any((days < 0) | (days >= len(spans_ns))):
        raise ConfigError(f"day: expected 0 to {len(spans_ns) - 1}, got {days.min()} to {days.max()}")
    if np.any((episodes["steps"] < 1) | (episodes["interval_ns"] < 1) | (qty < 1)):
        raise ConfigError(
            "parent order: expected at least one step, one lot and a positive interval, got at least "
            f"{episodes['steps'].min()} steps, {qty.min()} lots and {episodes['interval_ns'].min()} ns"
        )
    first, last = np.array(spans_ns)[days].T
    start_ns, interval_ns, steps = (episodes[name] for name in ("start_ns", "interval_ns", "steps"))
    outside = (start_ns < first) | (steps > (last - start_ns) // interval_ns)  # their product may not fit into 64 bits
    if np.any(outside):
        bad = int(np.argmax(outside))
        end_ns = int(start_ns[bad]) + int(interval_ns[bad]) * int(steps[bad])
        raise ConfigError(
            f"window: expected times within the day, {time_of_day_text(first[bad] + SECOND_NS - 1)} to {time_of_day_text(last[bad])}, got a window "
            f"from {time_of_day_text(start_ns[bad])} to {time_of_day_text(end_ns)}; choose other hours"
        )
    most = np.array(most_lots)[days]
    if np.any(qty > most):
        bad = int(np.argmax(qty > most))
        advice = "order less" if most[bad] >= 1 else "nothing is traded on this day; give another"
        raise ConfigError(
            f"quantity: expected at most {most[bad]:,.0f} lots, the day's volume, got {qty[bad]:,}; {advice}"
        )
