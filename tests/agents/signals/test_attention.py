"""The network with attention: numpy and PyTorch compute the same, and it learns what only the order of the rows tells."""

import numpy as np
import pytest
import torch

from serl.agents.signals import attention_training
from serl.agents.signals.attention import Attention, shapes
from serl.agents.signals.attention_training import EVERY, _Trainer, train_attention
from serl.agents.signals.books import CHANNELS, WINDOW, channels
from serl.agents.signals.features import NAMES
from serl.agents.signals.inputs import Inputs, join_inputs
from serl.agents.signals.labels import NO_LABEL, Classes
from serl.agents.signals.logistic import log_loss
from tests.agents.signals import sample


def test_numpy_and_pytorch_compute_the_same() -> None:
    rng, scaling = np.random.default_rng(1), (np.zeros(len(CHANNELS)), np.ones(len(CHANNELS)))
    trainer = _Trainer(torch, scaling, 2, 1)
    for tensor in trainer._weights.values():
        tensor.data += 0.1 * torch.randn(tensor.shape)
    windows = rng.normal(size=(7, WINDOW, len(CHANNELS))).clip(-4, 4).astype(np.float32)
    features = rng.normal(size=(7, len(NAMES)))
    with torch.no_grad():
        expected = trainer._forward(
            torch.from_numpy(windows), torch.from_numpy(features.astype(np.float32)), False
        ).numpy()
    inputs = Inputs(features, windows.reshape(-1, len(CHANNELS)), WINDOW * np.arange(1, 8) - 1)
    found = Attention(*scaling, trainer._values()).logits(inputs, features)
    assert found.shape == (7, 2, 3) and np.allclose(found.reshape(7, 6), expected, atol=1e-4)
    assert {name: one.shape for name, one in trainer._values().items()} == shapes(2)


def sequences(count: int, seed: int) -> tuple[Inputs, Classes]:
    """One row of each window has a pulse in the first channel, and a later one its opposite, or the other way round: class 2 or 0. The features are 0."""
    rng = np.random.default_rng(seed)
    books = np.zeros((count, WINDOW, len(CHANNELS)), np.float32)
    places = np.sort(np.stack([rng.permutation(WINDOW)[:2] for _ in range(count)]), axis=1)
    sign = rng.choice([-1, 1], count)
    books[np.arange(count), places[:, 0], 0] = 3 * sign
    books[np.arange(count), places[:, 1], 0] = -3 * sign
    inputs = Inputs(
        np.zeros((count, len(NAMES))), books.reshape(-1, len(CHANNELS)), WINDOW * np.arange(1, count + 1) - 1
    )
    labels = np.where(sign > 0, 2, 0)[:, np.newaxis]
    labels[::11] = NO_LABEL
    return inputs, labels


@pytest.mark.long
def test_it_learns_the_order_of_two_pulses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same rows in another order have the other class, so no sum over the rows tells it."""
    monkeypatch.setattr(attention_training, "LEARNING_RATE", 3e-3)
    parts = [sequences(count * EVERY, seed) for count, seed in ((1600, 1), (300, 2))]
    fit, held = ((inputs, inputs.features, labels) for inputs, labels in parts)
    found = train_attention(fit, held, 1)
    inputs, labels = parts[1]
    known = labels[:, 0] != NO_LABEL
    assert log_loss(found.logits(inputs, inputs.features)[known, 0], labels[known, 0]) < 0.45, "ln 2 says nothing"
    again = train_attention(fit, held, 1)
    assert all((again.weights[name] == one).all() for name, one in found.weights.items()), "seeded"


def test_windows_of_several_days_stay_apart() -> None:
    rng = np.random.default_rng(3)
    days = [Inputs(np.zeros((2, 1)), rng.normal(size=(50, 3)).astype(np.float32), np.array([40, 49])) for _ in range(2)]
    joined = join_inputs(days)
    for number, day in enumerate(days):
        assert (joined.windows(slice(2 * number, 2 * number + 2)) == day.windows(slice(None))).all()
    assert (joined.windows(np.array([2]))[0, -1] == days[1].books[40]).all()


def test_channels_by_hand() -> None:
    made = sample.grid()
    ticks, lots = made.ticks[:2].copy(), made.lots[:2].copy()
    ticks[:], lots[:] = 0, 0
    ticks[:, 0, 0], ticks[0, 1, 0], ticks[1, 1, 0], lots[:, 0, 0] = 99, 101, 103, 9
    row = dict(zip(CHANNELS, channels(ticks, lots, np.array([0, 4]), np.array([0, 0]))[1].tolist(), strict=True))
    assert (row["bid_distance_ticks_1"], row["ask_distance_ticks_1"], row["bid_distance_ticks_2"]) == (2, 2, 0)
    assert (
        row["move_ticks"] == 1
        and np.isclose(row["bid_log_lots_1"], np.log(10))
        and np.isclose(row["log_bought"], np.log(5))
    )
