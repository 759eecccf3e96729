"""Means of few values: intervals and tests by Student's t distribution, and Holm's correction for many tests."""

import math
from collections.abc import Sequence
from decimal import Decimal

import numpy as np

QUANTILES = {
    1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262, 10: 2.228, 12: 2.179, 15: 2.131, 20: 2.086,
    30: 2.042, 60: 2.000, 120: 1.980, math.inf: 1.960,
}  # fmt: skip
"""Student's 97.5 % quantiles by degrees of freedom, for 95 % intervals."""


def student(freedom: float, confidence: float = 0.95) -> float:
    """Student's quantile of a two-sided interval: of 95 % from the table, between its rows linear in 1 / degrees of freedom; of others by bisection."""
    if confidence == 0.95:
        inverse = np.array([1 / row for row in QUANTILES])[::-1]
        return float(np.interp(1 / freedom, inverse, list(QUANTILES.values())[::-1]))
    low, high = 0.0, 1e4
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if tail(middle, freedom) > (1 - confidence) / 2 else (low, middle)
    return high


def effective_freedom(parts: Sequence[tuple[float, int]]) -> float | None:
    """Degrees of freedom of a sum of independent variances, each with its own: Satterthwaite's (An Approximate Distribution of Estimates of Variance
    Components, Biometrics Bulletin 2, 1946). Near those of the largest part, where one has nearly all. None if all are 0."""
    own = sum(part**2 / freedom for part, freedom in parts)
    return sum(part for part, _ in parts) ** 2 / own if own else None


def expanded(clusters: int, confidence: float = 0.95) -> tuple[float, float]:
    """The quantiles of bootstrap draws for an interval with so many independent clusters: Hesterberg's expanded percentile interval (What Teachers
    Should Know About the Bootstrap, The American Statistician 69, 2015). The central 95 % would contain the truth in 81 %
    of cases with 5 clusters: draws vary less than the truth, by the root of (n - 1) / n, and Student's distribution is wider than the normal one.
    A single cluster, which says nothing about others, gets the central draws."""
    if clusters < 2:
        return (1 - confidence) / 2, (1 + confidence) / 2
    low = math.erfc(math.sqrt(clusters / (clusters - 1) / 2) * student(clusters - 1, confidence)) / 2
    return low, 1 - low


def tail(value: float, freedom: float) -> float:
    """The probability of more than `value`. With t = sqrt(freedom) tan(angle) the density becomes a power of a cosine, which is integrated
    by the trapezoidal rule."""
    angles = np.linspace(math.atan(value / math.sqrt(freedom)), math.pi / 2, 20_001)
    heights = np.cos(angles) ** (freedom - 1)
    area = float((heights[1:] + heights[:-1]).sum() / 2 * (angles[1] - angles[0]))
    return math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(math.pi) * area


def mean_interval(values: Sequence[Decimal] | Sequence[float]) -> tuple[float, float, float] | None:
    """(mean, lower, upper) of a 95 % interval of independent values; None for fewer than two."""
    if len(values) < 2:
        return None
    numbers = np.array(values, float)
    mean = float(numbers.mean())
    half = student(len(numbers) - 1) * float(numbers.std(ddof=1)) / len(numbers) ** 0.5
    return mean, mean - half, mean + half


def p_value(values: Sequence[float]) -> float | None:
    """Two-sided p-value of a mean of 0 (one-sample t-test); None for fewer than two values. 1 if all of them are 0."""
    if len(values) < 2:
        return None
    numbers = np.array(values, float)
    mean, error = abs(float(numbers.mean())), float(numbers.std(ddof=1)) / len(numbers) ** 0.5
    if error == 0.0:
        return 1.0 if mean == 0.0 else 0.0
    return min(1.0, 2.0 * tail(mean / error, len(numbers) - 1))


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values corrected for their number (Holm 1979, Scandinavian Journal of Statistics 6)."""
    order = np.argsort(p_values)
    corrected, highest = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[place]))
        corrected[place] = highest
    return corrected
