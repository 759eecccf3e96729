"""Student's t distribution, for intervals of means of few values."""

import math

import numpy as np

QUANTILES = {
    1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262, 10: 2.228, 12: 2.179, 15: 2.131, 20: 2.086,
    30: 2.042, 60: 2.000, 120: 1.980, math.inf: 1.960,
}  # fmt: skip
"""Student's 97.5 % quantiles by degrees of freedom, for 95 % intervals."""


def student(freedom: float) -> float:
    """Student's 97.5 % quantile, between the rows of the table linear in 1 / degrees of freedom."""
    inverse = np.array([1 / row for row in QUANTILES])[::-1]
    return float(np.interp(1 / freedom, inverse, list(QUANTILES.values())[::-1]))


def tail(value: float, freedom: float) -> float:
    """The probability of more than `value`. With t = sqrt(freedom) tan(angle) the density becomes a power of a cosine, which is integrated
    by the trapezoidal rule."""
    angles = np.linspace(math.atan(value / math.sqrt(freedom)), math.pi / 2, 20_001)
    heights = np.cos(angles) ** (freedom - 1)
    area = float((heights[1:] + heights[:-1]).sum() / 2 * (angles[1] - angles[0]))
    return math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(math.pi) * area
