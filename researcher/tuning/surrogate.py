"""A surrogate of the score: a Gaussian process over the choices of specifications.

Its posterior mean at a scored specification combines the measured score with those of similar specifications, each weighted by its variance
(Rasmussen and Williams 2006, chapter 2): exactly the shrunken reward that a noisy measurement needs. The kernel is linear in the one-hot
choices plus a squared exponential of their distance; its scales have the largest marginal likelihood on a small grid, which contains 'no signal'.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Features = Mapping[str, float]

_SIGNALS = (0.0, 0.1, 0.3, 1.0, 3.0)
"""Signal variance over the variance of the scores."""
_LINEAR = (0.0, 0.5, 1.0)
"""Linear share of the signal."""
_EXTRA = (0.0, 0.1, 0.3, 1.0)
"""Noise beyond the known, e.g. of the training seed, over the variance of the scores."""


@dataclass(frozen=True)
class Posterior:
    """What is known of the true scores."""

    mean: Floats
    """(n,)."""
    sd: Floats
    """(n,)."""
    noise: float
    """Root mean square of the scores' noise, known and fitted."""


def matrix(rows: Sequence[Features]) -> Floats:
    """(n_rows, n_features): features in columns, missing ones 0."""
    names = {name: place for place, name in enumerate(sorted({name for row in rows for name in row}))}
    table = np.zeros((len(rows), len(names)))
    for index, row in enumerate(rows):
        for name, value in row.items():
            table[index, names[name]] = value
    return table


def distances(table: Floats) -> Floats:
    """(n, n): squared Euclidean distances of the rows."""
    squares = (table**2).sum(1)
    found: Floats = np.maximum(squares[:, None] + squares[None] - 2 * table @ table.T, 0.0)
    return found


def posterior(features: Sequence[Features], scores: Floats, errors: Floats) -> Posterior:
    """The true scores, given measured `scores` (n,) with standard `errors` (n,); 0 where the error is not known."""
    spread = float(np.var(scores))
    if len(scores) < 2 or spread == 0.0:
        return Posterior(scores.copy(), errors.copy(), float(np.sqrt(np.mean(errors**2))))
    linear, smooth = _kernels(matrix(features))
    best, found = -np.inf, Posterior(scores, errors, 0.0)
    for signal, share, extra in product(_SIGNALS, _LINEAR, _EXTRA):
        noise = errors**2 + extra * spread
        if noise.min() <= 0.0:
            noise = noise + 1e-6 * spread
        prior = signal * spread * (share * linear + (1 - share) * smooth)
        likelihood, mean, variance = _condition(prior, noise, scores)
        if likelihood > best + 1e-9:
            best, found = likelihood, Posterior(mean, np.sqrt(variance), float(np.sqrt(np.mean(noise))))
    return found


def _kernels(table: Floats) -> tuple[Floats, Floats]:
    """Linear and squared exponential kernel, both with a mean of 1 on the diagonal."""
    centred = table - table.mean(0)
    linear = centred @ centred.T
    scale = float(np.mean(np.diag(linear)))
    apart = distances(table)
    positive = apart[apart > 0]
    width = float(np.median(positive)) if len(positive) else 1.0
    return linear / (scale or 1.0), np.exp(-apart / width)


def _condition(prior: Floats, noise: Floats, scores: Floats) -> tuple[float, Floats, Floats]:
    """(log marginal likelihood, posterior mean, posterior variance) with a constant mean fitted by generalised least squares."""
    covariance = prior + np.diag(noise)
    inverse = np.linalg.inv(covariance)
    total = float(inverse.sum())
    level = float(inverse.sum(0) @ scores) / total
    weights = inverse @ (scores - level)
    _, logdet = np.linalg.slogdet(covariance)
    likelihood = -0.5 * float((scores - level) @ weights) - 0.5 * float(logdet) - 0.5 * np.log(total)
    variance = np.diag(prior) - ((prior @ inverse) * prior).sum(1)
    return likelihood, level + prior @ weights, np.maximum(variance, 0.0)
