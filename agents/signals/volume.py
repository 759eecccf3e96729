"""Forecasts how many lots are traded until a horizon: a log-linear model and two baselines."""

from dataclasses import dataclass

import numpy as np

from serl.agents.signals.grid import Floats
from serl.agents.signals.log_linear import fit_log_linear, log_linear_means

MEAN, LAST_VOLUME, LOG_LINEAR = "mean", "last volume", "log-linear"
VOLUME_ROWS = (MEAN, LAST_VOLUME, LOG_LINEAR)
VOLUME_MIN = 1e-3
"""Smallest forecast from the last volume, as a share of the mean."""


@dataclass(frozen=True)
class VolumeModel:
    """A model with H horizons and F features."""

    means: Floats
    """[H] mean lots in the fitted samples."""
    lines: Floats
    """[H, (slope, intercept)] of the volume as a linear function of that of the last horizon, by least squares."""
    weights: Floats
    """[H, F + 1] weights of the log-linear model of the volume divided by its mean, intercepts last."""

    def forecasts(self, name: str, standardised: Floats, past: Floats) -> Floats:
        """[n, H] lots, for standardised features [n, F] and volumes of the last horizon [n, H]. The last volume forecasts the mean where it is NaN."""
        if name == LOG_LINEAR:
            return self.expected(standardised)
        if name == MEAN:
            return np.broadcast_to(self.means, past.shape)
        last = np.maximum(self.lines[:, 0] * past + self.lines[:, 1], VOLUME_MIN * self.means)
        return np.where(np.isnan(past), self.means, last)

    def expected(self, standardised: Floats) -> Floats:
        """[n, H] lots expected by the log-linear model."""
        return self.means * log_linear_means(standardised, self.weights.T)


def fit_volume(standardised: Floats, volumes: Floats, past: Floats) -> VolumeModel:
    """Fits standardised features [n, F] to volumes [n, H], NaN where unknown. past: [n, H] volumes of the last horizon, NaN early in a day."""
    means, lines, weights = [], [], []
    for later, before in zip(volumes.T, past.T, strict=True):
        known = np.isfinite(later)
        mean = max(float(later[known].mean()), 1e-9)
        means.append(mean)
        both = known & np.isfinite(before)
        varies = both.any() and np.ptp(before[both]) > 0
        lines.append(np.polyfit(before[both], later[both], 1) if varies else (0.0, mean))
        weights.append(fit_log_linear(standardised[known], later[known] / mean))
    return VolumeModel(np.array(means), np.array(lines, np.float64), np.stack(weights))
