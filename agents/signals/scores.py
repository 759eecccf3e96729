"""Scores of forecasts with block-bootstrap intervals."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from serl.agents.signals.forecaster import Forecasts
from serl.agents.signals.grid import Floats, Ints
from serl.agents.signals.labels import CLASSES, NO_LABEL, Classes
from serl.agents.students_t import expanded

MEASURES = ("macro_f1", "accuracy", "brier", "ece")
BINS = 15
"""Of confidence, for the expected calibration error (Guo et al. 2017)."""
BLOCK_S_MIN, BLOCK_HORIZONS = 300, 5
"""Blocks are five minutes long, or five times the longest horizon if that is more, because neighbouring labels overlap."""
_CONFUSION, _COUNT, _BRIER, _BINS = 0, CLASSES**2, CLASSES**2 + 1, CLASSES**2 + 2
COLUMNS = _BINS + 3 * BINS


@dataclass(frozen=True)
class Score:
    """Of one model at one horizon; arrays in the order of MEASURES."""

    count: int
    """Forecasts."""
    shares: Floats
    """[class] of the labels."""
    values: Floats
    low: Floats
    """Of 95 % intervals, from the quantiles of the bootstrap that `expanded` gives for the number of blocks."""
    high: Floats
    resampled: Floats
    """[bootstrap, measure]; the same blocks for every model with the same seed."""
    bins: Floats
    """[BINS, (forecasts, sum of confidence, forecasts that were right)]"""


def block_statistics(labels: Classes, forecasts: Forecasts, horizon: int, blocks: Ints) -> Floats:
    """[block, COLUMNS] sums that all measures of a horizon, by its number, follow from. Samples without a label are left out.

    labels, blocks [n]. Blocks are numbered 0, 1, 2 ...
    """
    known = labels != NO_LABEL
    probabilities, probable, balanced = (values[known, horizon] for values in forecasts)
    labels, blocks, rows = labels[known], blocks[known], np.arange(int(known.sum()))
    confidence = probabilities[rows, probable]
    errors = ((probabilities - np.eye(CLASSES)[labels]) ** 2).sum(axis=1)
    place = _BINS + 3 * np.minimum(BINS - 1, (confidence * BINS).astype(np.int64))
    found = np.zeros((int(blocks.max(initial=-1)) + 1, COLUMNS))
    for columns, values in (
        (_CONFUSION + CLASSES * labels + balanced, 1.0), (_COUNT, 1.0), (_BRIER, errors), (place, 1.0), (place + 1, confidence),
        (place + 2, (labels == probable).astype(np.float64)),
    ):  # fmt: skip
        np.add.at(found, (blocks, columns), values)
    return found


def measure(sums: Floats) -> Floats:
    """[..., measure] of sums [..., COLUMNS].

    Macro F1, of the balanced classes: the mean over the classes of 2 TP / (2 TP + FP + FN), 0 for one that neither occurs nor is forecast.
    Accuracy: of the most probable class. Brier: sum over the classes of squared errors, from 0 to 2. Expected calibration error: mean |confidence - accuracy| of the bins, by their forecasts.
    """
    confusion = sums[..., :_COUNT].reshape(*sums.shape[:-1], CLASSES, CLASSES)
    right = np.diagonal(confusion, axis1=-2, axis2=-1)
    both = confusion.sum(axis=-1) + confusion.sum(axis=-2)
    f1 = (2 * right / np.maximum(both, 1)).mean(axis=-1)
    count = np.maximum(sums[..., _COUNT], 1)
    bins = sums[..., _BINS:].reshape(*sums.shape[:-1], BINS, 3)
    ece = abs(bins[..., 1] - bins[..., 2]).sum(axis=-1) / count
    return np.stack([f1, bins[..., 2].sum(axis=-1) / count, sums[..., _BRIER] / count, ece], axis=-1)


def block_seconds(horizons_s: Sequence[float]) -> int:
    """The length of the blocks for these horizons."""
    return max(BLOCK_S_MIN, math.ceil(BLOCK_HORIZONS * max(horizons_s)))


def number_blocks(day: Ints, time_ns: Ints, block_s: int) -> Ints:
    """[n] the block of each sample: so many seconds of a day, counted from the first five minutes of the samples on."""
    step_ns = BLOCK_S_MIN * 10**9
    blocks = day * (1 << 32) + (time_ns - time_ns.min() // step_ns * step_ns) // (block_s * 10**9)
    return np.unique(blocks, return_inverse=True)[1].reshape(-1)


def score(statistics: Floats, bootstraps: int, seed: int) -> Score:
    """The score of block statistics; the blocks are drawn with replacement."""
    total = statistics.sum(axis=0)
    blocks = len(statistics)
    weights = np.random.default_rng(seed).multinomial(blocks, np.full(blocks, 1 / blocks), bootstraps)
    resampled = measure(weights @ statistics)
    low, high = np.quantile(resampled, expanded(blocks), axis=0)
    labels = total[:_COUNT].reshape(CLASSES, CLASSES).sum(axis=1)
    return Score(
        int(total[_COUNT]), labels / max(1.0, labels.sum()), measure(total), low, high, resampled, total[_BINS:].reshape(BINS, 3)
    )  # fmt: skip
