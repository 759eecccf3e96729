"""Scores of forecasts with block-bootstrap intervals."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from serl.agents.signals.forecaster import Forecasts
from serl.agents.signals.grid import Floats, Ints
from serl.agents.signals.labels import NO_LABEL, Classes
from serl.agents.signals.log_linear import deviance
from serl.agents.students_t import expanded

MEASURES = ("macro_f1", "accuracy", "brier", "ece")
"""Measures of class probabilities."""
VOLUME_MEASURES = ("explained", "absolute_error", "ratio")
"""Measures of expected volumes."""
BINS = 15
"""Number of confidence bins for the expected calibration error (Guo et al. 2017)."""
BLOCK_S_MIN, BLOCK_HORIZONS = 300, 5
"""Blocks are five minutes long, or five times the longest horizon if that is longer, because neighbouring labels overlap."""
_COUNT, _BRIER, _BINS = range(3)
_CONFUSION = _BINS + 3 * BINS
"""Columns of the sums for class probabilities; the confusion matrix of C classes takes the last C^2."""
_ACTUAL, _FORECAST, _DEVIANCE, _DEVIANCE_OF_MEAN, _ABSOLUTE = range(1, 6)
"""Columns of the sums for volumes, after _COUNT."""


@dataclass(frozen=True)
class Score:
    """The score of one model at one horizon; arrays are in the order of its measures."""

    total: Floats
    """Sums over all blocks."""
    values: Floats
    low: Floats
    """Lower ends of 95 % intervals, at the bootstrap quantiles that `expanded` gives for the number of blocks."""
    high: Floats
    resampled: Floats
    """[bootstrap, measure]; the same blocks for every model with the same seed."""

    @property
    def count(self) -> int:
        """Number of forecasts."""
        return int(self.total[_COUNT])

    @property
    def shares(self) -> Floats:
        """[class] shares of the labels; for class probabilities."""
        labels = _confusion(self.total).sum(axis=1)
        return np.asarray(labels / max(1.0, labels.sum()))

    @property
    def bins(self) -> Floats:
        """[BINS, (forecasts, sum of confidence, forecasts that were right)]; for class probabilities."""
        return self.total[_BINS:_CONFUSION].reshape(BINS, 3)

    @property
    def mean_lots(self) -> float:
        """Mean of the traded volumes."""
        return float(self.total[_ACTUAL] / max(1.0, self.total[_COUNT]))


def block_statistics(labels: Classes, forecasts: Forecasts, horizon: int, blocks: Ints) -> Floats:
    """[block, column] sums from which all measures at a horizon (by number) follow. Leaves out samples without a label.

    labels, blocks [n]. Blocks are numbered 0, 1, 2 ...
    """
    known = labels != NO_LABEL
    probabilities, probable, balanced = (values[known, horizon] for values in forecasts)
    labels, blocks, rows = labels[known], blocks[known], np.arange(int(known.sum()))
    classes = probabilities.shape[1]
    confidence = probabilities[rows, probable]
    errors = ((probabilities - np.eye(classes)[labels]) ** 2).sum(axis=1)
    place = _BINS + 3 * np.minimum(BINS - 1, (confidence * BINS).astype(np.int64))
    found = np.zeros((int(blocks.max(initial=-1)) + 1, _CONFUSION + classes**2))
    for columns, values in (
        (_CONFUSION + classes * labels + balanced, 1.0), (_COUNT, 1.0), (_BRIER, errors), (place, 1.0), (place + 1, confidence),
        (place + 2, (labels == probable).astype(np.float64)),
    ):  # fmt: skip
        np.add.at(found, (blocks, columns), values)
    return found


def _confusion(sums: Floats) -> Floats:
    """[.., class, forecast class] confusion matrices from sums [.., column]."""
    classes = math.isqrt(sums.shape[-1] - _CONFUSION)
    return sums[..., _CONFUSION:].reshape(*sums.shape[:-1], classes, classes)


def measure(sums: Floats) -> Floats:
    """[..., measure] measures from sums [..., column].

    Macro F1, of the balanced classes: the mean over the classes of 2 TP / (2 TP + FP + FN), 0 for a class that neither occurs nor is forecast.
    Accuracy: of the most probable class. Brier: sum over the classes of squared errors, from 0 to 2. Expected calibration error: mean
    |confidence - accuracy| over the bins, weighted by their forecasts.
    """
    confusion = _confusion(sums)
    right = np.diagonal(confusion, axis1=-2, axis2=-1)
    both = confusion.sum(axis=-1) + confusion.sum(axis=-2)
    f1 = (2 * right / np.maximum(both, 1)).mean(axis=-1)
    count = np.maximum(sums[..., _COUNT], 1)
    bins = sums[..., _BINS:_CONFUSION].reshape(*sums.shape[:-1], BINS, 3)
    ece = abs(bins[..., 1] - bins[..., 2]).sum(axis=-1) / count
    return np.stack([f1, bins[..., 2].sum(axis=-1) / count, sums[..., _BRIER] / count, ece], axis=-1)


def volume_statistics(volumes: Floats, forecasts: Floats, mean: float, blocks: Ints) -> Floats:
    """[block, column] sums for volumes, NaN where unknown, and their forecasts [n]. mean: mean of the fitted volumes."""
    known = np.isfinite(volumes)
    values, means, blocks = volumes[known], forecasts[known], blocks[known]
    columns = (
        np.ones(len(values)), values, means, deviance(values, means), deviance(values, np.full(len(values), mean)), abs(values - means),
    )  # fmt: skip
    found = np.zeros((int(blocks.max(initial=-1)) + 1, len(columns)))
    np.add.at(found, blocks, np.stack(columns, axis=1))
    return found


def volume_measure(sums: Floats) -> Floats:
    """[..., measure] measures from sums [..., column].

    Explained: 1 - Poisson deviance of the forecasts / that of the mean of the fitted volumes. Absolute error: mean, divided by the mean volume. Ratio:
    mean forecast / mean volume.
    """
    actual = np.maximum(sums[..., _ACTUAL], 1e-9)
    explained = 1 - sums[..., _DEVIANCE] / np.maximum(sums[..., _DEVIANCE_OF_MEAN], 1e-9)
    return np.stack([explained, sums[..., _ABSOLUTE] / actual, sums[..., _FORECAST] / actual], axis=-1)


def block_seconds(horizons_s: Sequence[float]) -> int:
    """The length of the blocks for these horizons."""
    return max(BLOCK_S_MIN, math.ceil(BLOCK_HORIZONS * max(horizons_s)))


def number_blocks(day: Ints, time_ns: Ints, block_s: int) -> Ints:
    """[n] block of each sample: blocks of `block_s` seconds of a day, counted from the last multiple of five minutes up to the earliest sample."""
    step_ns = BLOCK_S_MIN * 10**9
    blocks = day * (1 << 32) + (time_ns - time_ns.min() // step_ns * step_ns) // (block_s * 10**9)
    return np.unique(blocks, return_inverse=True)[1].reshape(-1)


def score(statistics: Floats, bootstraps: int, seed: int, measured: Callable[[Floats], Floats] = measure) -> Score:
    """Scores block statistics with `measure` or `volume_measure`; the bootstrap draws blocks with replacement."""
    total, blocks = statistics.sum(axis=0), len(statistics)
    weights = np.random.default_rng(seed).multinomial(blocks, np.full(blocks, 1 / blocks), bootstraps)
    resampled = measured(weights @ statistics)
    low, high = np.quantile(resampled, expanded(blocks), axis=0)
    return Score(total, measured(total), low, high, resampled)
