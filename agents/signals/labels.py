"""The labels of forecasts: whether the mid goes down, stays flat or goes up until a horizon, and how many lots are traded until then."""

import numpy as np
from numpy.typing import NDArray

from serl.agents.signals.features import has_spread
from serl.agents.signals.grid import STEP_NS, STEP_S, Floats, Grid

DOWN, FLAT, UP, NO_LABEL = 0, 1, 2, -1
NAMES = ("down", "flat", "up")
CLASSES = len(NAMES)
SMOOTHED_STEPS = 10
"""The later mid is the mean over the last second (for a shorter horizon, over all of it), so that a flickering quote is not a trend."""
FLAT_SHARE = 1 / 3

Classes = NDArray[np.int64]


def later_moves(grid: Grid, horizon_s: float, until_ns: int) -> Floats:
    """[n] ticks: mean mid at the end of the horizon minus the mid now. NaN if the horizon ends after `until_ns` or a book is not known."""
    steps, count = round(horizon_s / STEP_S), len(grid.time_ns)
    smoothed = min(SMOOTHED_STEPS, steps)
    known, mid = has_spread(grid.ticks), grid.ticks[:, :, 0].sum(axis=1)
    sums = np.concatenate([[0], np.cumsum(mid)])
    unknown = np.concatenate([[0], np.cumsum(~known)])
    found = np.full(count, np.nan)
    if count > steps:
        end = np.arange(steps, count) + 1
        moved = (
            sums[end] - sums[end - smoothed] - smoothed * mid[: count - steps]
        )  # integers, so that equal moves are bitwise equal
        whole = (unknown[end] == unknown[end - smoothed]) & known[: count - steps]
        found[: count - steps] = np.where(whole, moved / (2 * smoothed), np.nan)
    return np.where(grid.time_ns + steps * STEP_NS <= until_ns, found, np.nan)


def past_moves(grid: Grid, horizon_s: float) -> Floats:
    """[n] ticks: the mid now minus the mid one horizon ago. NaN where a book is not known."""
    steps = round(horizon_s / STEP_S)
    mid = np.where(has_spread(grid.ticks), grid.ticks[:, :, 0].sum(axis=1) / 2, np.nan)
    found = np.full(len(mid), np.nan)
    found[steps:] = mid[steps:] - mid[: max(0, len(mid) - steps)]
    return found


def later_volumes(grid: Grid, horizon_s: float, until_ns: int) -> Floats:
    """[n] lots taken in the book in the next horizon. NaN if it ends after `until_ns`, or at times without a spread."""
    steps, count = round(horizon_s / STEP_S), len(grid.time_ns)
    found = np.full(count, np.nan)
    taken = _volumes(grid, steps)
    found[: len(taken)] = taken
    known = has_spread(grid.ticks) & (grid.time_ns + steps * STEP_NS <= until_ns)
    return np.where(known, found, np.nan)


def past_volumes(grid: Grid, horizon_s: float) -> Floats:
    """[n] lots taken in the book in the last horizon. NaN where the day so far is shorter than the horizon."""
    steps, count = round(horizon_s / STEP_S), len(grid.time_ns)
    found = np.full(count, np.nan)
    found[min(steps, count) :] = _volumes(grid, steps)
    return found


def _volumes(grid: Grid, steps: int) -> Floats:
    """[n - steps] lots taken in the steps after each time."""
    sums = np.cumsum(grid.buys + grid.sells)
    return (sums[steps:] - sums[: max(0, len(sums) - steps)]).astype(np.float64)


def fit_threshold(moves: Floats) -> float:
    """The largest absolute move that counts as flat: a third of the finite moves are not larger."""
    return float(np.quantile(abs(moves[np.isfinite(moves)]), FLAT_SHARE))


def classify(moves: Floats, thresholds: Floats | float) -> Classes:
    """DOWN, FLAT or UP for each move; NO_LABEL for NaN."""
    found = np.where(moves > thresholds, UP, np.where(moves < -np.asarray(thresholds), DOWN, FLAT))
    return np.where(np.isnan(moves), NO_LABEL, found).astype(np.int64)
