"""Rewards from noisy scores: paired measurements, smoothed over similar specifications, with a floor at the noise.

Scores are compared only within a group: the same run and the same training. A difference that noise explains must not move the weights, so
advantages are divided by the spread of the denoised scores or by the noise of a score, whichever is larger. Their size also scales the step
(`Minibatch.strength`), because Adam would turn any gradient, however small, into a full step.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from serl.researcher.tuning.surrogate import Features, Posterior, posterior

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Measurement:
    """The measured score of a candidate."""

    value_bps: float
    error_bps: float
    """Standard error; 0 if unknown."""
    features: Features | None = None
    """Choices of its specifications; None for code."""


@dataclass(frozen=True)
class Rewards:
    """Rewards of the candidates of one group."""

    value_bps: Floats
    """(n,): denoised scores."""
    advantage: Floats
    """(n,): deviation from the mean, in units of the spread or the noise."""
    noise_bps: float
    """Root mean square noise of a measured score."""
    spread_bps: float
    """Root mean square deviation of the denoised scores."""


def paired(
    orders_bps: Mapping[str, Sequence[float]], scores_bps: Mapping[str, float]
) -> dict[str, tuple[float, float]]:
    """(score, standard error) of each candidate, relative to the mean of all candidates on each order, which removes what they have in common.

    `orders_bps` is the PA of each order, in the order of the episodes. Candidates without it, or with another number of orders than most, get their
    score relative to the mean of the scores, and an error of 0 (unknown).
    """
    lengths = [len(orders) for orders in orders_bps.values() if len(orders) > 1]
    common = max(set(lengths), key=lengths.count) if lengths else 0
    paired_with = [np.asarray(orders) for orders in orders_bps.values() if len(orders) == common and common]
    level = float(np.mean(list(scores_bps.values()))) if scores_bps else 0.0
    reference = np.mean(paired_with, axis=0) if len(paired_with) > 1 else None
    found = {}
    for key, score in scores_bps.items():
        orders = np.asarray(orders_bps.get(key, ()))
        if reference is None or len(orders) != common:
            found[key] = (score - level, 0.0)
        else:
            difference = orders - reference
            found[key] = (float(difference.mean()), float(difference.std(ddof=1) / np.sqrt(common)))
    return found


def rewards(measured: Sequence[Measurement], denoise: bool, advantage_max: float) -> Rewards:
    """Rewards of a group. `denoise` smooths the scores of specifications with the surrogate. Without it, or if any module is code, scores shrink
    towards their mean by the share of their variance that is noise."""
    scores = np.array([one.value_bps for one in measured])
    errors = np.array([one.error_bps for one in measured])
    features = [one.features for one in measured if one.features is not None]
    smooth = denoise and len(features) == len(scores)
    found = posterior(features, scores, errors) if smooth else _shrunken(scores, errors)
    over = found.mean - found.mean.mean()
    spread = float(np.sqrt(np.mean(over**2)))
    scale = max(spread, found.noise)
    advantage = np.clip(over / scale, -advantage_max, advantage_max) if scale > 1e-12 else np.zeros_like(over)
    return Rewards(found.mean, advantage, found.noise, spread if spread > 1e-12 else 0.0)


def _shrunken(scores: Floats, errors: Floats) -> Posterior:
    """Scores shrunk towards their mean by the share of noise in their variance (James and Stein 1961)."""
    mean, noise = float(scores.mean()), float(np.mean(errors**2))
    variance = float(scores.var(ddof=1)) if len(scores) > 1 else 0.0
    kept = max(0.0, 1 - noise / variance) if variance else 0.0
    return Posterior(mean + kept * (scores - mean), np.sqrt(kept) * errors, float(np.sqrt(noise)))
