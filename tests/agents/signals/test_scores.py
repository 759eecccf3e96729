"""Scores by hand, and intervals that know about blocks."""

import numpy as np
import pytest

from serl.agents.realism.tape import SECOND_NS
from serl.agents.signals.forecaster import Forecasts
from serl.agents.signals.labels import NO_LABEL, Classes
from serl.agents.signals.log_linear import deviance
from serl.agents.signals.scores import (
    BINS,
    block_seconds,
    block_statistics,
    measure,
    number_blocks,
    score,
    volume_measure,
    volume_statistics,
)
from serl.agents.students_t import expanded


def certain(classes: Classes, confidence: float) -> Forecasts:
    """Forecasts of these classes, each with this probability."""
    probabilities = np.full((len(classes), 1, 3), (1 - confidence) / 2)
    probabilities[np.arange(len(classes)), 0, classes] = confidence
    return Forecasts(probabilities, classes[:, np.newaxis], classes[:, np.newaxis])


def test_scores_by_hand() -> None:
    labels, said = np.array([0, 0, 1, 1, 2, 2, NO_LABEL]), np.array([0, 1, 1, 1, 2, 0, 0])
    sums = block_statistics(labels, certain(said, 0.8), 0, np.array([0, 0, 0, 1, 1, 1, 1]))
    assert sums.shape[0] == 2
    f1, accuracy, brier, ece = measure(sums.sum(axis=0))
    assert f1 == pytest.approx((2 / 4 + 4 / 5 + 2 / 3) / 3) and accuracy == pytest.approx(4 / 6)
    right, wrong = 0.2**2 + 2 * 0.1**2, 0.8**2 + 0.9**2 + 0.1**2
    assert brier == pytest.approx((4 * right + 2 * wrong) / 6) and ece == pytest.approx(0.8 - 4 / 6)


def test_errors_of_confidence_do_not_cancel_between_bins() -> None:
    """Too sure in one bin, not sure enough in another; a certain forecast has a bin of its own."""
    labels, said = np.array([0, 1, 0, 0]), np.zeros(4, np.int64)
    sure, unsure = certain(said[:2], 1.0).probabilities, certain(said[2:], 0.9).probabilities
    made = certain(said, 1.0)._replace(probabilities=np.concatenate([sure, unsure]))
    found = score(block_statistics(labels, made, 0, np.array([0, 0, 1, 1])), 10, 1)
    assert found.values[3] == pytest.approx((abs(2.0 - 1) + abs(1.8 - 2)) / 4)
    assert found.bins[[BINS - 2, BINS - 1], 0].tolist() == [2, 2]
    assert found.shares.tolist() == [3 / 4, 1 / 4, 0]


def test_volumes_by_hand() -> None:
    volumes, forecasts = np.array([1.0, 3.0, np.nan, 0.0]), np.array([2.0, 2.5, 9.0, 1.0])
    found = score(volume_statistics(volumes, forecasts, 3.0, np.array([0, 0, 1, 1])), 10, 1, volume_measure)
    known, errors = np.isfinite(volumes), (1 + 0.5 + 1) / 4
    off, off_mean = (deviance(volumes[known], means).sum() for means in (forecasts[known], np.full(3, 3.0)))
    assert found.values == pytest.approx([1 - off / off_mean, errors, 5.5 / 4])
    assert (found.count, found.mean_lots) == (3, pytest.approx(4 / 3))


def test_f1_is_of_the_balanced_class_and_accuracy_of_the_probable_one() -> None:
    labels = np.array([0, 1, 2, 1])
    made = certain(np.array([1, 1, 1, 1]), 0.6)._replace(balanced=labels[:, np.newaxis])
    f1, accuracy, _, ece = measure(block_statistics(labels, made, 0, np.zeros(4, np.int64)).sum(axis=0))
    assert (f1, accuracy) == (1, 0.5) and ece == pytest.approx(0.1)


def test_calibrated_forecasts_have_a_small_error() -> None:
    rng = np.random.default_rng(1)
    probabilities = rng.dirichlet(np.ones(3), 50_000)
    labels = (probabilities.cumsum(axis=1) < rng.random((50_000, 1))).sum(axis=1)
    said = probabilities.argmax(axis=1)[:, np.newaxis]
    blocks = np.arange(50_000) // 500
    made = Forecasts(probabilities[:, np.newaxis], said, said)
    found = score(block_statistics(labels, made, 0, blocks), 200, 1)
    assert found.values[3] < 0.01 and found.count == found.bins[:, 0].sum() == 50_000 and len(found.bins) == BINS
    sharper = probabilities**2 / (probabilities**2).sum(axis=1, keepdims=True)
    made = Forecasts(sharper[:, np.newaxis], said, said)
    assert score(block_statistics(labels, made, 0, blocks), 200, 1).values[3] > 0.1


def test_intervals_are_as_wide_as_the_blocks_differ() -> None:
    """Whole blocks that are right or wrong: 100 of them say as much as 100 forecasts, not as 30,000."""
    rng = np.random.default_rng(2)
    right = np.repeat(rng.random(100) < 0.5, 300)
    labels = np.where(right, 1, 0)
    said = np.ones_like(labels)
    found = score(block_statistics(labels, certain(said, 0.5), 0, np.arange(30_000) // 300), 1000, 1)
    assert found.low[1] < found.values[1] < found.high[1]
    assert found.high[1] - found.low[1] == pytest.approx(2 * 1.96 * 0.5 / 10, rel=0.15)
    same = score(block_statistics(labels, certain(said, 0.5), 0, np.arange(30_000) // 300), 1000, 1)
    assert (same.resampled == found.resampled).all()
    other = score(block_statistics(labels, certain(said, 0.5), 0, np.arange(30_000) // 300), 1000, 2)
    assert not (other.resampled == found.resampled).all()


def test_intervals_of_few_blocks_are_wider_than_the_central_draws() -> None:
    labels = np.zeros(400, np.int64)
    said = np.repeat([0, 0, 0, 1], 100)
    found = score(block_statistics(labels, certain(said, 0.5), 0, np.arange(400) // 100), 1000, 1)
    np.testing.assert_array_equal(found.low, np.quantile(found.resampled, expanded(4)[0], axis=0))
    assert found.low[1] < np.quantile(found.resampled[:, 1], 0.025)


def test_blocks_are_five_minutes_of_one_day() -> None:
    time_ns = SECOND_NS * np.array([0, 299, 300, 300, 0])
    assert number_blocks(np.array([0, 0, 0, 1, 1]), time_ns, 300).tolist() == [0, 0, 1, 3, 2]
    time_ns = SECOND_NS * np.array([310, 599, 600, 609])
    assert number_blocks(np.zeros(4, np.int64), time_ns, 300).tolist() == [0, 0, 1, 1], "from 300 s on"


def test_blocks_are_five_times_as_long_as_the_longest_horizon() -> None:
    """They begin with the hours, so that the first one is whole."""
    assert (block_seconds((1.0, 60.0)), block_seconds((1.0, 600.0)), block_seconds((60.1,))) == (300, 3000, 301)
    time_ns = 46_800 * SECOND_NS + SECOND_NS * np.array([0, 2999, 3000, 5999, 6000])
    assert number_blocks(np.zeros(5, np.int64), time_ns, 3000).tolist() == [0, 0, 1, 1, 2]


def test_intervals_at_long_horizons_contain_the_truth() -> None:
    """Of a forecast without skill on a random walk: the accuracy is one half, in 95 % of intervals, not in 85 % as with five minutes."""
    rng, steps, horizon_s, held = np.random.default_rng(1), 6 * 360, 600.0, 0
    step = round(horizon_s / 10)
    time_ns = (46_800 + 10 * np.arange(steps)) * SECOND_NS
    blocks = number_blocks(np.zeros(steps, np.int64), time_ns, block_seconds((1.0, horizon_s)))
    for _ in range(200):
        walk = rng.normal(size=steps + 2 * step).cumsum()
        later = np.where(walk[2 * step :] > walk[step:-step], 2, 0)
        later[-step:] = NO_LABEL
        said = np.where(walk[step:-step] > walk[: -2 * step], 2, 0)
        found = score(block_statistics(later, certain(said, 0.9), 0, blocks), 200, 1)
        held += found.low[1] <= 0.5 <= found.high[1]
    assert held / 200 >= 0.92
