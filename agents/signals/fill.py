"""Forecasts whether an order of one lot at the back of the queue at the touch is filled within a horizon: a logistic regression and two baselines.

A sell order is a buy order in the mirrored market, so one model of the buy side serves both.
"""

from dataclasses import dataclass

import numpy as np

from serl.agents.signals.features import mirrored, scaling, standardise
from serl.agents.signals.grid import Floats
from serl.agents.signals.logistic import fit_logistic, fit_temperature

SHARE, LAST_ORDER, LOGISTIC = "share", "last order", "logistic"
FILL_ROWS = (SHARE, LAST_ORDER, LOGISTIC)


@dataclass(frozen=True)
class FillModel:
    """A model with H horizons and F features."""

    shares: Floats
    """[H] share of the fitted orders that were filled."""
    after: Floats
    """[H, 2] this share where the order that joined one horizon before was not filled, and where it was."""
    centre: Floats
    """[F] mean of the features of both sides."""
    scale: Floats
    """[F] their standard deviation."""
    weights: Floats
    """[H, F + 1] weights of the logit for the buy side, intercepts last."""
    temperatures: Floats
    """[H]"""

    def forecasts(self, name: str, features: Floats, past: Floats) -> Floats:
        """[n, H, side] probabilities, for features [n, F] and the outcomes of the orders of one horizon ago [n, H, side]."""
        if name == LOGISTIC:
            return self.probabilities(features)
        shares = self.shares[:, np.newaxis]
        if name == SHARE:
            return np.broadcast_to(shares, past.shape)
        return np.where(past == 1, self.after[:, 1:], np.where(past == 0, self.after[:, :1], shares))

    def probabilities(self, features: Floats) -> Floats:
        """[n, H, side] probabilities for raw features [n, F]."""
        logits = [
            standardise(one, self.centre, self.scale) @ self.weights[:, :-1].T + self.weights[:, -1]
            for one in (features, mirrored(features))
        ]
        return np.asarray(1 / (1 + np.exp(-np.stack(logits, axis=2) / self.temperatures[:, np.newaxis])))


def fit_fill(fit: tuple[Floats, Floats, Floats], held: tuple[Floats, Floats]) -> FillModel:
    """Fits features [n, F] to labels and past labels [n, H, side], NaN where unknown. held: features and labels for the calibration."""
    features, fills, past = fit
    both, later, before = _both(features), sides(fills), sides(past)
    centre, scale = scaling(both)
    x, x_held, later_held = (
        standardise(both, centre, scale),
        standardise(_both(held[0]), centre, scale),
        sides(held[1]),
    )
    shares, after, weights, temperatures = [], [], [], []
    for number in range(fills.shape[1]):
        known, known_held = np.isfinite(later[:, number]), np.isfinite(later_held[:, number])
        labels, last = later[known, number].astype(np.int64), before[known, number]
        shares.append(_share(labels))
        after.append([_share(labels[last == one]) for one in (0, 1)])
        found = fit_logistic(x[known], labels, classes=2)
        logits = x_held[known_held] @ found[:-1] + found[-1]
        weights.append(found[:, 1] - found[:, 0])
        temperatures.append(fit_temperature(logits, later_held[known_held, number].astype(np.int64)))
    return FillModel(np.array(shares), np.array(after), centre, scale, np.stack(weights), np.array(temperatures))


def _both(features: Floats) -> Floats:
    """[2 n, F] features as seen by the buy side, then by the sell side."""
    return np.concatenate([features, mirrored(features)])


def sides(labels: Floats) -> Floats:
    """Converts [n, H, side] to [2 n, H]: the buy side, then the sell side."""
    return np.concatenate([labels[:, :, 0], labels[:, :, 1]])


def _share(labels: np.ndarray) -> float:  # type: ignore[type-arg]
    """The share of ones. Each outcome is counted once more than it occurs, so that neither is impossible."""
    return float((labels.sum() + 1) / (len(labels) + 2))
