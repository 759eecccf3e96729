"""The predictive score: does a model trained on simulated data forecast the real mid?

After TRADES (Berti, Prenkaj, Velardi 2025), whose network and horizon were not accessible in full. A small LSTM is trained
on windows of messages to forecast the change of the mid, and tested on unseen real data; the score is the mean absolute
error in ticks. It is compared with the same model trained on other real data, and with the forecast of no change.
"""

from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from serl.agents.one_thread import one_thread
from serl.agents.realism.distances import Estimate
from serl.agents.realism.errors import EmptyWindow
from serl.agents.realism.messages import CANCEL, LIMIT, MARKET
from serl.agents.realism.resample import block_draws
from serl.agents.realism.tape import Floats, Ints, Tape
from serl.extras import require

WINDOW, HORIZON = 50, 10
"""Number of messages that the model sees, and how many messages ahead it forecasts."""
HIDDEN, BATCH, EPOCHS, LEARNING_RATE = 32, 128, 3, 3e-3
TRAINING_MAX, TEST_MAX = 12_000, 8_000
"""Maximum number of windows; larger samples are thinned evenly."""
WINDOWS_MIN = 200
CLIP = 5.0
"""Features are clipped at this many standard deviations."""
BLOCKS = 20


@dataclass(frozen=True)
class WindowSamples:
    """Training or test windows of one tape."""

    features: NDArray[np.float32]
    """[message, feature]"""
    ends: Ints
    """[sample] index of the last message of the window."""
    targets: Floats
    """[sample] change of the mid over the next HORIZON messages, in ticks."""


@dataclass(frozen=True)
class PredictiveScore:
    """Mean absolute errors in ticks on the same real test data."""

    simulated: Estimate
    """Error of the model trained on simulated data."""
    real: Estimate
    """Error of the model trained on other real data."""
    no_change: Estimate
    """Error of the forecast of no change."""
    baseline: Estimate | None
    """Error of the model trained on the baseline day."""
    test_windows: int


def import_torch() -> ModuleType:
    """Imports PyTorch. Raises MissingPackageError if it is not installed."""
    require("the predictive score", "torch", extra="learning")
    import torch

    return torch


def message_features(tape: Tape) -> NDArray[np.float32]:
    """[message, 10]: move of the mid, spread, imbalance at the touch and of all levels, kind (3), sign, ln size, ln time since the last."""
    mid = np.nan_to_num(_forward_fill(tape.mid))
    lots = tape.book_lots[1:]
    touch, view = lots[:, :, 0], lots.sum(axis=2)
    columns = [
        np.diff(mid),
        np.clip(tape.ask[1:] - tape.bid[1:], 0, None),
        (touch[:, 0] - touch[:, 1]) / np.maximum(1, touch.sum(axis=1)),
        (view[:, 0] - view[:, 1]) / np.maximum(1, view.sum(axis=1)),
        *(tape.kind == kind for kind in (LIMIT, MARKET, CANCEL)),
        tape.sign,
        np.log(tape.qty_lots),
        np.log1p(np.diff(tape.time_ns, prepend=tape.time_ns[:1]) / 1e3),
    ]
    return np.stack(columns, axis=1).astype(np.float32)


def _forward_fill(mid: Floats) -> Floats:
    """Replaces NaN by the last known mid, or before the first mid by the first one, so that there is no move."""
    finite = np.isfinite(mid)
    known = np.maximum.accumulate(np.where(finite, np.arange(len(mid)), int(finite.argmax())))
    return np.asarray(mid[known])


def sample_windows(tape: Tape, samples_max: int) -> WindowSamples:
    """Up to `samples_max` evenly spaced windows. Raises EmptyWindow if there are too few."""
    mid = tape.mid[1:]
    ends = np.arange(WINDOW - 1, len(tape) - HORIZON)
    ends = ends[np.isfinite(mid[ends]) & np.isfinite(mid[ends + HORIZON])] if len(ends) else ends
    if len(ends) < WINDOWS_MIN:
        raise EmptyWindow(
            f"{tape.symbol}: expected {WINDOWS_MIN + WINDOW + HORIZON} messages for the predictive score, got {len(tape)}; "
            "give a longer window"
        )
    ends = ends[np.unique(np.linspace(0, len(ends) - 1, min(samples_max, len(ends))).astype(np.int64))]
    return WindowSamples(message_features(tape), ends, mid[ends + HORIZON] - mid[ends])


def _build_model(torch: Any, features: int) -> Any:
    class Forecaster(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = torch.nn.LSTM(features, HIDDEN, batch_first=True)
            self.head = torch.nn.Linear(HIDDEN, 1)

        def forward(self, batch: Any) -> Any:
            return self.head(self.lstm(batch)[0][:, -1])[:, 0]

    return Forecaster()


def _batch(torch: Any, windows: WindowSamples, samples: Ints, centre: Floats, scale: Floats) -> Any:
    """[sample, WINDOW, feature] standardised features."""
    messages = windows.ends[samples, np.newaxis] + np.arange(1 - WINDOW, 1)
    values = (windows.features[messages] - centre) / scale
    return torch.from_numpy(np.clip(values, -CLIP, CLIP).astype(np.float32))


def absolute_errors(train: WindowSamples, test: WindowSamples, seed: int) -> Floats:
    """[test sample] |forecast - truth| in ticks, for a model trained on `train` with this seed."""
    torch = import_torch()
    with one_thread(torch, seed):
        return _train_and_test(torch, train, test, np.random.default_rng(seed))


def _train_and_test(torch: Any, train: WindowSamples, test: WindowSamples, random: np.random.Generator) -> Floats:
    from serl.agents.torch_adam import Adam

    centre = train.features.mean(axis=0)
    scale = np.maximum(train.features.std(axis=0), 1e-6)
    unit = max(float(train.targets.std()), 1e-6)
    model = _build_model(torch, train.features.shape[1])
    optimiser = Adam(model.parameters(), LEARNING_RATE)
    for _ in range(EPOCHS):
        order = random.permutation(len(train.ends))
        for start in range(0, len(order), BATCH):
            samples = order[start : start + BATCH]
            truth = torch.from_numpy((train.targets[samples] / unit).astype(np.float32))
            loss = (model(_batch(torch, train, samples, centre, scale)) - truth).abs().mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    forecasts = []
    with torch.no_grad():
        for start in range(0, len(test.ends), 1024):
            samples = np.arange(start, min(start + 1024, len(test.ends)))
            forecasts.append(model(_batch(torch, test, samples, centre, scale)).numpy())
    return np.asarray(np.abs(np.concatenate(forecasts) * unit - test.targets), np.float64)


def predictive_score(
    simulated: Tape, real_train: Tape, real_test: Tape, baseline: Tape | None, *, bootstraps: int, seed: int
) -> PredictiveScore:  # fmt: skip
    """Trains a model on each tape and tests it on `real_test`; intervals resample blocks of test samples. Raises the errors of sample_windows."""
    test = sample_windows(real_test, TEST_MAX)
    draws = block_draws(BLOCKS, bootstraps, np.random.default_rng(seed))

    def train_on(tape: Tape) -> Estimate:
        return _mean_error(absolute_errors(sample_windows(tape, TRAINING_MAX), test, seed), draws)

    return PredictiveScore(
        simulated=train_on(simulated),
        real=train_on(real_train),
        no_change=_mean_error(np.abs(test.targets), draws),
        baseline=None if baseline is None else train_on(baseline),
        test_windows=len(test.ends),
    )


def _mean_error(errors: Floats, draws: Floats) -> Estimate:
    """The mean error, resampled in blocks of consecutive samples."""
    block = np.arange(len(errors)) * BLOCKS // len(errors)
    sums, counts = np.bincount(block, weights=errors, minlength=BLOCKS), np.bincount(block, minlength=BLOCKS)
    return Estimate(float(errors.mean()), (draws @ sums) / (draws @ counts.astype(np.float64)), BLOCKS)
