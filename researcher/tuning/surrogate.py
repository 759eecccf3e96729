"""A surrogate of the score: a Gaussian process over the choices of specifications.

Its posterior mean at a scored specification combines the measured score with those of similar specifications, each weighted by its variance
(Rasmussen and Williams 2006, chapter 2): exactly the shrunken reward that a noisy measurement needs. The kernel is linear in the one-hot
choices plus a squared exponential of their distance. Its scales maximise the marginal likelihood on a small grid, which contains 'no signal'.
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
"""Variance of noise beyond the known noise, e.g. from the training seed, over the variance of the scores."""


@dataclass(frozen=True)
class Posterior:
    """The posterior of the true scores."""

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
    return predicted(features, scores, errors, ())[0]


def predicted(
    features: Sequence[Features], scores: Floats, errors: Floats, new: Sequence[Features]
) -> tuple[Posterior, Posterior]:
    """As `posterior`, plus the posterior of the specifications `new` (m,), which were not measured, from the same fit."""
    n = len(scores)
    if n < 2 or float(np.var(scores)) == 0.0:
        level = float(scores.mean()) if n else 0.0
        measured = Posterior(scores.copy(), errors.copy(), float(np.sqrt(np.mean(errors**2))))
        return measured, Posterior(np.full(len(new), level), np.zeros(len(new)), 0.0)
    fitted = _fit(_kernels(matrix([*features, *new]), n), scores, errors)
    return fitted.at(slice(n)), fitted.at(slice(n, None))


@dataclass(frozen=True)
class _Fitted:
    """A prior over all rows, the first n of which were measured."""

    prior: Floats
    """(n + m, n + m)."""
    inverse: Floats
    """(n, n): of the covariance of the measurements."""
    level: float
    """The constant mean, fitted by generalised least squares."""
    weights: Floats
    """(n,): inverse @ (scores - level)."""
    noise: float

    def at(self, rows: slice) -> Posterior:
        """The true scores of some rows."""
        across = self.prior[rows, : len(self.weights)]
        variance = np.diag(self.prior)[rows] - ((across @ self.inverse) * across).sum(1)
        return Posterior(self.level + across @ self.weights, np.sqrt(np.maximum(variance, 0.0)), self.noise)


def _fit(kernels: tuple[Floats, Floats], scores: Floats, errors: Floats) -> _Fitted:
    """The prior of the grid under which the measured scores are most likely."""
    (linear, smooth), n, spread = kernels, len(scores), float(np.var(scores))
    best, found = -np.inf, None
    for signal, share, extra in product(_SIGNALS, _LINEAR, _EXTRA):
        noise = errors**2 + extra * spread
        if noise.min() <= 0.0:
            noise = noise + 1e-6 * spread
        prior = signal * spread * (share * linear[:n, :n] + (1 - share) * smooth[:n, :n])
        likelihood, inverse, level, weights = _condition(prior, noise, scores)
        if likelihood > best + 1e-9:
            best, found = likelihood, (signal, share, noise, inverse, level, weights)
    assert found is not None, "the grid is not empty, and every prior has a likelihood"
    signal, share, noise, inverse, level, weights = found
    prior = signal * spread * (share * linear + (1 - share) * smooth)
    return _Fitted(prior, inverse, level, weights, float(np.sqrt(np.mean(noise))))


def _kernels(table: Floats, n: int) -> tuple[Floats, Floats]:
    """Linear and squared exponential kernel of all rows. The first n rows set the scales; both kernels have a mean of 1 on their diagonal."""
    centred = table - table[:n].mean(0)
    linear = centred @ centred.T
    scale = float(np.mean(np.diag(linear)[:n]))
    apart = distances(table)
    positive = apart[:n, :n][apart[:n, :n] > 0]
    width = float(np.median(positive)) if len(positive) else 1.0
    return linear / (scale or 1.0), np.exp(-apart / width)


def _condition(prior: Floats, noise: Floats, scores: Floats) -> tuple[float, Floats, float, Floats]:
    """(log marginal likelihood, inverse of the covariance, level, weights of the measurements)."""
    covariance = prior + np.diag(noise)
    inverse = np.linalg.inv(covariance).astype(np.float64, copy=False)
    total = float(inverse.sum())
    level = float(inverse.sum(0) @ scores) / total
    weights: Floats = inverse @ (scores - level)
    _, logdet = np.linalg.slogdet(covariance)
    likelihood = float(-0.5 * ((scores - level) @ weights + logdet + np.log(total)))
    return likelihood, inverse, level, weights
