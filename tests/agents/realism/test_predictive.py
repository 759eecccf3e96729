"""The predictive score on a market whose next move is predictable."""

import dataclasses

import numpy as np
import pytest

from serl.agents.realism import predictive
from serl.agents.realism.errors import EmptyWindow
from serl.agents.realism.predictive import (
    HORIZON,
    TEST_MAX,
    TRAINING_MAX,
    absolute_errors,
    message_features,
    predictive_score,
    sample_windows,
)
from serl.agents.realism.resample import block_draws
from serl.agents.realism.tape import Tape
from serl.extras import MissingPackageError
from tests.agents.realism.sample import five_messages, generated


def periodic(size: int, period: int = 40) -> Tape:
    """A generated tape's messages around a book that keeps rising and falling by half a period of ticks."""
    tape = generated(1).part(0, size)
    phase = np.arange(size + 1) % period
    wave = np.where(phase < period // 2, phase, period - phase)
    ticks = tape.book_ticks.copy()
    ticks[:, 0, 0], ticks[:, 1, 0] = 1000 + wave, 1002 + wave
    return dataclasses.replace(tape, book_ticks=ticks)


@pytest.mark.long
def test_a_predictable_move_is_forecast() -> None:
    tape = periodic(6000)
    train, test = sample_windows(tape.part(0, 4000), TRAINING_MAX), sample_windows(tape.part(4000, 6000), TEST_MAX)
    mid = tape.mid[4001:]
    assert test.targets.tolist() == (mid[test.ends + HORIZON] - mid[test.ends]).tolist()
    errors = absolute_errors(train, test, seed=1)
    assert errors.shape == test.targets.shape
    assert errors.mean() < 0.5 * np.abs(test.targets).mean()
    assert errors.tolist() == absolute_errors(train, test, seed=1).tolist(), "the seed determines the result"


@pytest.mark.long
def test_the_score_and_its_comparisons() -> None:
    tape = periodic(4000)
    found = predictive_score(generated(2), tape.part(0, 2000), tape.part(2000, 4000), None, bootstraps=50, seed=1)
    assert found.baseline is None
    assert found.real.value < found.simulated.value, "a random walk teaches nothing about a wave"
    assert found.no_change.value == pytest.approx(
        np.abs(sample_windows(tape.part(2000, 4000), TEST_MAX).targets).mean()
    )
    low, high = found.real.interval
    assert low < found.real.value < high


def test_the_interval_is_that_of_twenty_blocks() -> None:
    """The central 95 % of draws held the truth in 91 % of cases."""
    random, held = np.random.default_rng(1), 0
    for _ in range(600):
        errors = np.repeat(random.standard_normal(predictive.BLOCKS), 10)
        draws = block_draws(predictive.BLOCKS, 200, random)
        low, high = predictive._mean_error(errors, draws).interval
        held += low <= 0 <= high
    assert 0.925 < held / 600 < 0.97


def test_the_first_known_mid_is_no_move() -> None:
    tape = periodic(300)
    ticks = tape.book_ticks.copy()
    ticks[:5, 1] = 0
    one_sided = dataclasses.replace(tape, book_ticks=ticks)
    assert np.isnan(one_sided.mid[:5]).all() and np.isfinite(one_sided.mid[5:]).all()
    moves = message_features(one_sided)[:, 0]
    assert not moves[:5].any() and np.abs(moves).max() == 1
    ticks[:, 1] = 0
    assert not message_features(dataclasses.replace(tape, book_ticks=ticks))[:, 0].any(), "no mid at all"


def test_too_few_messages() -> None:
    with pytest.raises(EmptyWindow, match="expected 260 messages for the predictive score, got 5"):
        sample_windows(five_messages(), TEST_MAX)


def test_without_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(MissingPackageError, match=r"pip install -e '\.\[learning\]'"):
        predictive.import_torch()
