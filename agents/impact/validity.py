"""Checks whether a market responds to parent orders as real markets do; each check has an interval and a verdict.

Expected in real markets: impact grows like the square root of the size at any duration and within the order (Toth et al. 2011,
arXiv 1105.1694; Sato and Kanazawa 2024, arXiv 2411.13965), peaks at the order's end, and has decayed to about two thirds at the
end of the day (Bucci et al. 2018, arXiv 1901.05332). Runs are resampled as a whole, because sizes and sides of a run share its
random numbers.
"""

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from serl.agents.impact.responses import FACTORS, STEPS, TIME, Responses
from serl.agents.realism.errors import RealismError
from serl.agents.realism.square_root_law import ImpactLaw, fit_impact_law
from serl.agents.realism.tape import Floats
from serl.agents.students_t import expanded

HOLDS, FAILS, UNKNOWN = "holds", "does not hold", "cannot be told"
UNUSABLE_MAX = 0.01
"""An interval is unbounded if more than this share of the resamples has no value, for example a ratio to an impact below 0."""
AFTER = (1, 2, 5)
"""Durations after the end at which decay is measured."""


@dataclass(frozen=True)
class Check:
    """One number of a market's response, and whether it is in the range of real markets."""

    name: str
    unit: str
    value: float
    """NaN if it is not defined."""
    low: float
    """Bounds of the 95 % interval over runs; infinite if it is not defined."""
    high: float
    least: float
    """Bounds of the range in which the number should be."""
    most: float

    @property
    def verdict(self) -> str:
        """HOLDS if the interval is within the range, FAILS if it is outside, UNKNOWN if it is partly inside."""
        if self.least < self.low and self.high < self.most:
            return HOLDS
        return FAILS if self.high <= self.least or self.low >= self.most else UNKNOWN


def fit_size_law(found: Responses, bootstraps: int = 1000, seed: int = 1) -> ImpactLaw | None:
    """Fits the law of impact at the order's end over size, for the mean of both sides; None if a mean impact is not positive."""
    impact = found.impact_ticks[:, :, :, STEPS].mean(axis=1) / found.sigma_ticks
    return _fit(found.shares, impact, bootstraps, seed)


def check_validity(found: Responses, bootstraps: int = 1000, seed: int = 1) -> list[Check]:
    """All checks of one market's responses, for means over both sides, and over sizes where a check has one number for all sizes."""
    weights = np.vstack(
        [
            np.full(found.runs, 1 / found.runs),
            np.random.default_rng(seed).multinomial(
                found.runs, np.full(found.runs, 1 / found.runs), size=bootstraps
            ) / found.runs,
        ]
    )  # fmt: skip
    mean = np.tensordot(weights, found.impact_ticks, axes=1)
    """[actual mean and resamples, side, size, time]"""
    curve, buy, sell = mean.mean(axis=(1, 2)), mean[:, 0, :, STEPS], mean[:, 1, :, STEPS]
    end = curve[:, STEPS]
    inf, check = math.inf, partial(_check, expanded(found.runs))
    checks = [
        check("buys move the mid up", "ticks at the largest size", buy[:, -1], 0.0, inf),
        check("sells move it down", "ticks at the largest size", sell[:, -1], 0.0, inf),
        check("symmetric", "(buy - sell) / mean", _ratio((buy - sell).mean(axis=1), end), -0.25, 0.25),
        _lowest(
            [
                check("monotone in size", "ticks, least step", step, 0.0, inf)
                for step in np.diff((buy + sell) / 2, axis=1).T
            ]
        ),
    ]
    delta = _slopes(fit_size_law(found, bootstraps, seed), bootstraps)
    duration = _slopes(_fit(np.array(FACTORS), found.by_duration_ticks.mean(axis=1), bootstraps, seed), bootstraps)
    checks += [
        check("concave in size", "exponent delta", delta, 0.0, 1.0),
        check("square root of size", "exponent delta", delta, 0.43, 0.57),
        check("concave in time", "impact half way / at the end", _ratio(curve[:, STEPS // 2], end), 0.5, inf),
        check("duration matters little", "exponent of the duration", duration, -0.1, 0.1),
        check("peaks at the end", "time in durations", TIME[curve.argmax(axis=1)], 0.9, 1.1),
    ]
    for number in AFTER:
        bounds = (0.5, 0.83) if number == AFTER[-1] else (-inf, 1.0)
        name = "plateau near two thirds" if number == AFTER[-1] else "decays"
        after = _ratio(curve[:, (1 + number) * STEPS], end)
        checks.append(check(name, f"{number} x later / at the end", after, *bounds))
    return checks


def _check(quantiles: tuple[float, float], name: str, unit: str, values: Floats, least: float, most: float) -> Check:
    """Makes a check. values: the value, then its resamples."""
    resampled = values[1:]
    known = resampled[np.isfinite(resampled)]
    if not np.isfinite(values[0]) or len(known) < (1 - UNUSABLE_MAX) * len(resampled) or not len(known):
        return Check(name, unit, float(values[0]), -math.inf, math.inf, least, most)
    low, high = np.quantile(known, quantiles)
    return Check(name, unit, float(values[0]), float(low), float(high), least, most)


def _lowest(checks: list[Check]) -> Check:
    """The check that is least certain to be above its bound: if it holds, all hold."""
    return min(checks, key=lambda check: check.low)


def _ratio(upper: Floats, lower: Floats) -> Floats:
    """Ratios to impacts; NaN where the impact is not positive."""
    return np.divide(upper, lower, out=np.full(upper.shape, np.nan), where=lower > 0)


def _fit(sizes: Floats, impact: Floats, bootstraps: int, seed: int) -> ImpactLaw | None:
    """Applies fit_impact_law to impacts [run, size]; returns None if a mean is not positive."""
    runs = np.repeat(np.arange(len(impact)), len(sizes))
    try:
        return fit_impact_law(
            np.tile(sizes, len(impact)), impact.ravel(), run=runs, bootstraps=bootstraps, seed=seed
        )  # fmt: skip
    except RealismError:
        return None


def _slopes(law: ImpactLaw | None, bootstraps: int) -> Floats:
    """The exponent and its resamples, shifted as in Estimate; NaN for resamples in which a mean is not positive."""
    values = np.full(1 + bootstraps, np.nan)
    if law is not None:
        delta = law.delta
        values[0], values[1 : 1 + len(delta.resampled)] = delta.value, delta.resampled
        values[1:] += delta.value - delta.resampled.mean()
    return values
