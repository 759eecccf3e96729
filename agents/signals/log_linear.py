"""Regression of a mean with a log link (Poisson quasi-likelihood), by Newton's method."""

import numpy as np

from serl.agents.signals.grid import Floats
from serl.agents.signals.logistic import RIDGE, newton

EXPONENT_MAX = 20.0
"""Limit of the exponent: forecast means are at most e^20 times the fitted mean."""


def fit_log_linear(features: Floats, values: Floats) -> Floats:
    """[feature + 1] weights w, the intercept last, that minimise mean(e^(w x) - y w x) + RIDGE / 2 |w without intercept|^2.

    features [n, feature], standardised; values y [n], not negative, with mean 1. The forecast mean, e^(w x), is consistent whatever the distribution
    of y around it (Gourieroux, Monfort, Trognon 1984).
    """
    x = np.column_stack([features, np.ones(len(features))])
    weights: Floats = np.zeros(x.shape[1])
    penalty = np.full(x.shape[1], RIDGE)
    penalty[-1] = 0.0

    def step(weights: Floats) -> Floats:
        means = log_linear_means(features, weights)
        gradient = x.T @ (means - values) / len(x) + penalty * weights
        return np.asarray(
            np.linalg.solve((x * means[:, np.newaxis]).T @ x / len(x) + np.diag(penalty), gradient), np.float64
        )

    return newton(weights, lambda tried: _objective(x, values, tried, penalty), step)


def log_linear_means(features: Floats, weights: Floats) -> Floats:
    """[n, ..] means for features [n, feature] and weights [feature + 1, ..]."""
    return np.exp(np.minimum(features @ weights[:-1] + weights[-1], EXPONENT_MAX))


def deviance(values: Floats, means: Floats) -> Floats:
    """Poisson deviance of each value, 2 (y ln(y / m) - y + m); 0 where the forecast is exact."""
    ratio = np.where(values > 0, values, 1.0) / means
    return 2 * (np.where(values > 0, values * np.log(ratio), 0.0) - values + means)


def _objective(x: Floats, values: Floats, weights: Floats, penalty: Floats) -> float:
    linear = np.minimum(x @ weights, EXPONENT_MAX)
    return float((np.exp(linear) - values * linear).mean() + (penalty * weights**2).sum() / 2)
