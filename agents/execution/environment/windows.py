"""What a parent order must keep to: a day that exists, a window within it, no more than the day trades."""

from collections.abc import Sequence

import numpy as np

from serl.exchange.errors import ConfigError
from serl.exchange.records import Rows


def check(episodes: Rows, spans_ns: Sequence[tuple[int, int]], most_lots: Sequence[float]) -> None:
    """ConfigError if one of the EPISODE rows does not lie in its day's (first, last) or is larger than what may be traded."""
    days, qty = episodes["day"], episodes["qty_lots"]
    if np.any((days < 0) | (days >= len(spans_ns))):
        raise ConfigError(f"day: 0 to {len(spans_ns) - 1} is due, got {days.min()} to {days.max()}")
    if np.any((episodes["steps"] < 1) | (episodes["interval_ns"] < 1) | (qty < 1)):
        raise ConfigError("parent order: at least one step, one lot and a positive interval are due")
    first, last = np.array(spans_ns)[days].T
    start_ns = episodes["start_ns"]
    end_ns = start_ns + episodes["interval_ns"] * episodes["steps"]
    outside = (start_ns < first) | (end_ns > last)
    if np.any(outside):
        bad = int(np.argmax(outside))
        raise ConfigError(
            f"the day goes from {first[bad]} to {last[bad]} ns, the order's window from {start_ns[bad]} to {end_ns[bad]}"
        )
    most = np.array(most_lots)[days]
    if np.any(qty > most):
        bad = int(np.argmax(qty > most))
        raise ConfigError(f"quantity: at most {most[bad]:,.0f} lots are due (what the day trades), got {qty[bad]:,}")
