"""Paired scores: a candidate against the incumbent, order by order.

The standard error of the mean is clustered in two ways, by day and by training seed: V = V_day + V_seed - V_both (Cameron, Gelbach and Miller
2011, J. Business & Economic Statistics 29), at least the larger of the two. The interval is Student's, with one degree of freedom less than the
smaller of the two numbers of clusters.

The control variate is the signed move of the market over each order's window. Sides are drawn at random, so its mean is 0 without being
estimated, and the slope times the control may be taken from the differences (Glasserman 2003, section 4.1). The slope is estimated: that costs a
degree of freedom, and an error that grows with the distance of the controls' mean from 0 (Lavenberg and Welch 1981, Management Science 27).
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from serl.agents.students_t import student
from serl.researcher.candidates import Paired, Score

Floats = NDArray[np.float64]
CONTROLLED_MIN = 8
"""Minimum number of clusters at which the slope of the control variate is estimated well enough."""


def paired(candidate: Sequence[Score], incumbent: Sequence[Score], share: float, *, trained: bool = True) -> Paired:
    """The paired score of trainings with seeds 0, 1, ... Scores at the same position must be on the same orders: ValueError if they are not.

    `trained` is false if neither was trained. The scores then differ by their orders only, and are clustered by day alone.
    """
    _require_same_orders(candidate, incumbent)
    differences = np.concatenate([
        np.subtract(own.advantages_bps, other.advantages_bps) for own, other in zip(candidate, incumbent, strict=True)
    ])  # fmt: skip
    days = np.concatenate([score.clusters for score in candidate])
    numbers = np.arange(len(candidate)) if trained else np.zeros(len(candidate), np.int64)
    seeds = np.repeat(numbers, [len(score.advantages_bps) for score in candidate])
    value, error = float(differences.mean()), standard_error(differences, days, seeds)
    controls = np.concatenate([score.controls_bps for score in candidate])
    adjusted, controlled = _without_control(differences, controls), False
    if len(np.unique(days)) >= CONTROLLED_MIN:
        lower = standard_error(adjusted, days, seeds) * _error_of_slope(controls, days)
        if lower < error:
            value, error, controlled = float(adjusted.mean()), lower, True
    half = error * student(freedom(days, seeds, controls=int(controlled)))
    return Paired(value, error, value - half, value + half, len(candidate), share, len(differences), controlled)


def _require_same_orders(candidate: Sequence[Score], incumbent: Sequence[Score]) -> None:
    for own, other in zip(candidate, incumbent, strict=True):
        if own.clusters != other.clusters or own.controls_bps != other.controls_bps:
            raise ValueError(
                "paired: expected scores on the same orders, got others; score both with the same settings"
            )


def standard_error(values: Floats, days: NDArray[np.int64], seeds: NDArray[np.int64]) -> float:
    """The standard error of the mean of (n,) values, clustered by day and, with two seeds or more, by seed."""
    by_day = _variance(values, days)
    if len(np.unique(seeds)) < 2:
        return math.sqrt(by_day)
    by_seed = _variance(values, seeds)
    both = _variance(values, np.unique(np.stack((days, seeds)), axis=1, return_inverse=True)[1].ravel())
    return math.sqrt(max(by_day + by_seed - both, by_day, by_seed))


def _variance(values: Floats, clusters: NDArray[np.int64]) -> float:
    """The clustered variance of the mean, corrected for the number of clusters; the variance without clustering if there is only one."""
    numbers = np.unique(clusters, return_inverse=True)[1].ravel()
    count = int(numbers.max()) + 1
    if count == 1:
        numbers, count = np.arange(len(values)), len(values)
    sums = np.bincount(numbers, values - values.mean())
    return float(count / max(1, count - 1) * (sums**2).sum() / len(values) ** 2)


def freedom(days: NDArray[np.int64], seeds: NDArray[np.int64], controls: int = 0) -> int:
    """The degrees of freedom of the interval. controls: slopes of controls that were estimated from the days."""
    counts = [len(np.unique(days)) - controls, len(np.unique(seeds))]
    rarer = min(count for count in counts if count > 1) if max(counts) > 1 else len(days)
    return max(1, rarer - 1)


def _error_of_slope(controls: Floats, days: NDArray[np.int64]) -> float:
    """The factor by which the error of the mean grows because the slope of the control is estimated."""
    count, spread = len(np.unique(days)), float(controls.var())
    from_zero = float(controls.mean()) ** 2 / spread if spread > 0 else 0.0
    return math.sqrt((count - 1) / (count - 2) * (1 + from_zero))


def _without_control(values: Floats, controls: Floats) -> Floats:
    """The values minus what a regression on the controls explains; controls have mean 0 in expectation, so the mean stays unbiased."""
    centred = controls - controls.mean()
    spread = float(centred @ centred)
    slope = float(centred @ values) / spread if spread > 0 else 0.0
    adjusted: Floats = values - slope * controls
    return adjusted
