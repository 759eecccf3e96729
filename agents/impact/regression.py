"""Least squares with one regressor: Newey-West standard errors, and R² on data that was not fitted."""

from dataclasses import dataclass
from math import ceil

import numpy as np

from serl.agents.realism.tape import Bools, Floats


@dataclass(frozen=True)
class Line:
    """The line y = intercept + beta x, fitted on some observations and tested on later ones."""

    intercept: float
    beta: float
    standard_error: float
    """Standard error of beta, by Newey and West (1987)."""
    lags: int
    """Number of autocovariances in the standard error."""
    fitted: int
    """Number of fitted observations."""
    r2: float
    """R² on the fitted observations."""
    tested: int
    """Number of tested, later observations."""
    r2_tested: float
    """1 - sum (y - forecast)^2 / sum (y - mean of the fitted y)^2 on the tested observations; negative if that mean is the better forecast, NaN
    without observations."""

    @property
    def t(self) -> float:
        """beta / standard error; NaN if both are 0."""
        if self.standard_error > 0:
            return self.beta / self.standard_error
        return float(np.copysign(np.inf, self.beta)) if self.beta else float("nan")


def automatic_lags(observations: int) -> int:
    """The rule of thumb of Newey and West (1994) for Bartlett weights: 4 (n / 100)^(2/9)."""
    return int(4 * (observations / 100) ** (2 / 9))


def fit_line(x: Floats, y: Floats, fit: Bools, test: Bools, overlap: float = 0.0) -> Line:
    """Fits a line on the observations `fit` and tests it on `test`; leaves out observations that are not finite.

    x, y [n] are in order of time. overlap: how many observations one y spans beyond its own; the standard error has at least as many lags. Raises
    ValueError if x does not vary in the fitted observations.
    """
    known = np.isfinite(x) & np.isfinite(y)
    fit, test = fit & known, test & known
    if fit.sum() < 3 or np.ptp(x[fit]) == 0:
        raise ValueError("expected at least three observations with an x that varies")
    mean_x, mean_y = x[fit].mean(), y[fit].mean()
    centred = np.where(fit, x - mean_x, 0.0)
    beta = float(centred[fit] @ (y[fit] - mean_y) / (centred @ centred))
    intercept = float(mean_y - beta * mean_x)
    residual = np.where(known, y - intercept - beta * x, 0.0)
    lags = max(automatic_lags(int(fit.sum())), ceil(overlap))
    return Line(
        intercept, beta, newey_west(centred, np.where(fit, residual, 0.0), lags), lags,
        int(fit.sum()), _r2(residual[fit], y[fit] - mean_y), int(test.sum()), _r2(residual[test], y[test] - mean_y),
    )  # fmt: skip


def newey_west(centred: Floats, residual: Floats, lags: int) -> float:
    """Standard error of the slope on `centred` (x minus its mean): Newey and West, Econometrica 55 (1987), with Bartlett weights.

    Both [n] are 0 where an observation is missing, so that observations on both sides of a gap are not neighbours (Datta and Du 2012).
    """
    score = centred * residual
    variance = score @ score
    for lag in range(1, min(lags, len(score) - 1) + 1):
        variance += 2 * (1 - lag / (lags + 1)) * (score[lag:] @ score[:-lag])
    return float(np.sqrt(variance) / (centred @ centred))


def _r2(residual: Floats, centred: Floats) -> float:
    total = centred @ centred
    return float(1 - residual @ residual / total) if total > 0 else np.nan
