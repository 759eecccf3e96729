"""A small multilayer perceptron: trained with PyTorch, evaluated with numpy."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from serl.agents.one_thread import one_thread
from serl.agents.signals.grid import Floats
from serl.agents.signals.labels import CLASSES, NO_LABEL, Classes

HIDDEN = 32
EPOCHS_MAX, PATIENCE = 30, 4
BATCH = 512
LEARNING_RATE, WEIGHT_DECAY = 1e-3, 1e-3

Layers = Sequence[tuple[Floats, Floats]]
"""(weights [in, out], intercepts [out]) of each layer; ReLU between them."""


def network_logits(layers: Layers, features: Floats) -> Floats:
    """[n, horizon, class] logits for features [n, feature]."""
    values = features
    for number, (weights, intercepts) in enumerate(layers):
        values = values @ weights + intercepts
        if number + 1 < len(layers):
            values = np.maximum(values, 0.0)
    return values.reshape(len(features), values.shape[1] // CLASSES, CLASSES)


def train_network(
    fit: tuple[Floats, Classes], validation: tuple[Floats, Classes], seed: int, on_epoch: Callable[[], object] = lambda: None
) -> Layers:  # fmt: skip
    """Trains on `fit`, features [n, feature] and labels [n, horizon], until `validation` has not improved for PATIENCE epochs. The seed determines the
    result."""
    import torch

    with one_thread(torch, seed):
        return _train(torch, fit, validation, np.random.default_rng(seed), on_epoch)


def _train(
    torch: Any, fit: tuple[Floats, Classes], validation: tuple[Floats, Classes], random: np.random.Generator, on_epoch: Callable[[], object]
) -> Layers:  # fmt: skip
    from serl.agents.torch_adam import Adam

    nn = torch.nn
    outputs = fit[1].shape[1] * CLASSES
    model = nn.Sequential(
        nn.Linear(fit[0].shape[1], HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, outputs)
    )
    optimiser = Adam(model.parameters(), LEARNING_RATE, weight_decay=WEIGHT_DECAY, decoupled_weight_decay=True)
    (x, y), (x_held, y_held) = (
        (torch.from_numpy(a.astype(np.float32)), torch.from_numpy(b)) for a, b in (fit, validation)
    )

    def loss_of(features: Any, labels: Any) -> Any:
        return nn.functional.cross_entropy(
            model(features).reshape(-1, CLASSES), labels.reshape(-1), ignore_index=NO_LABEL
        )

    best, best_loss, worse = _layers(model), np.inf, 0
    for _ in range(EPOCHS_MAX):
        order = torch.from_numpy(random.permutation(len(x)))
        for start in range(0, len(x), BATCH):
            chosen = order[start : start + BATCH]
            optimiser.zero_grad()
            loss_of(x[chosen], y[chosen]).backward()
            optimiser.step()
        on_epoch()
        with torch.no_grad():
            loss = float(loss_of(x_held, y_held))
        worse += 1
        if loss < best_loss:
            best, best_loss, worse = _layers(model), loss, 0
        elif worse == PATIENCE:
            break
    return best


def _layers(model: Any) -> list[tuple[Floats, Floats]]:
    return [
        (layer.weight.detach().numpy().T.astype(np.float64), layer.bias.detach().numpy().astype(np.float64))
        for layer in model
        if hasattr(layer, "weight")
    ]
