"""Tables from samples: quantiles, and shares by state."""

import numpy as np

from serl.agents.calibration.errors import CalibrationError
from serl.agents.realism.tape import Bools, Floats, Ints
from serl.agents.traders.flow_tables import EQUAL_PARTS, HALVINGS, POINTS, PROBABILITIES


def quantiles(values: Floats | Ints) -> Floats:
    """[POINTS] quantiles of a sample; equal neighbours represent atoms such as round lots.

    The last point is not the maximum: it preserves the mean of the largest 1/1024, because tails are not linear. Raises
    CalibrationError for a sample that is too small.
    """
    if len(values) < 2:
        raise CalibrationError(f"quantile table: expected at least two values, got {len(values)}; give a longer window")
    table = np.quantile(values, PROBABILITIES)
    table[-1] = max(table[-2], 2.0 * _top(values).mean() - table[-2])
    return np.asarray(table)


def log_quantiles(seconds: Floats) -> Floats:
    """[POINTS] quantiles of ln seconds; the last point preserves the mean of the longest 1/1024 in seconds, not in logarithms.

    A linear piece from a to b in logarithms has the mean (e^b - e^a) / (b - a).
    """
    table = quantiles(np.log(seconds))
    low, mean = float(table[-2]), float(_top(seconds).mean())
    bounds = [low, low + 20.0]
    for _ in range(60):
        width = 0.5 * (bounds[0] + bounds[1]) - low
        found = np.exp(low) * (np.expm1(width) / width if width > 0 else 1.0)
        bounds[1 if found > mean else 0] = low + width
    table[-1] = bounds[0]
    return table


def _top(values: Floats | Ints) -> Floats:
    """The largest 1/1024 of the values, at least one: those between the last two points of a table."""
    count = max(1, len(values) // (EQUAL_PARTS << HALVINGS))
    return np.asarray(np.sort(values)[-count:], np.float64)


def quantiles_or_pooled(part: Ints | Floats, pool: Ints | Floats) -> Floats:
    """Quantiles of a part, or of the pooled sample if the part is too small."""
    return quantiles(part if len(part) >= POINTS else pool)


def share_by_state(chosen: Bools, states: Ints, size: int) -> Floats:
    """[size] share of chosen events, by state. Half an event of either kind is added, so that no probability is 0 or 1."""
    return np.asarray((np.bincount(states[chosen], minlength=size) + 0.5) / (np.bincount(states, minlength=size) + 1.0))
