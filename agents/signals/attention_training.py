"""Trains the network of attention.py with PyTorch."""

from collections.abc import Callable
from typing import Any

import numpy as np

from serl.agents.one_thread import one_thread
from serl.agents.signals.attention import AXES, BLOCKS, EPSILON, Attention, shapes
from serl.agents.signals.features import scaling, standardise
from serl.agents.signals.grid import Floats, Ints, Singles
from serl.agents.signals.inputs import Inputs
from serl.agents.signals.labels import CLASSES, NO_LABEL, Classes

EPOCHS_MAX, PATIENCE = 12, 3
BATCH, EVALUATED = 256, 4096
EVERY = 5
"""Only every fifth sample is used, because neighbours see nearly the same rows."""
LEARNING_RATE, WEIGHT_DECAY, DROPOUT = 3e-4, 0.3, 0.1
FIRST_DEVIATION = 0.02
"""Standard deviation of positions before training."""

Part = tuple[Inputs, Floats, Classes]
"""(inputs, standardised features [n, feature], labels [n, horizon])."""
Thinned = tuple[Inputs, Singles, Classes]


def train_attention(fit: Part, validation: Part, seed: int, on_epoch: Callable[[], object] = lambda: None) -> Attention:
    """Trains on `fit` until `validation` has not improved for PATIENCE epochs. The seed determines the result."""
    import torch

    rows = np.unique(fit[0].last)
    centre, scale = scaling(fit[0].books[rows].astype(np.float64))
    with one_thread(torch, seed):
        trainer = _Trainer(torch, (centre, scale), fit[2].shape[1], seed)
        weights = trainer.train(_thinned(fit), _thinned(validation), on_epoch)
    return Attention(centre, scale, weights)


def _thinned(part: Part) -> Thinned:
    inputs, features, labels = part
    return inputs.chosen(slice(None, None, EVERY)), features[::EVERY].astype(np.float32), labels[::EVERY]


class _Trainer:
    """The weights as PyTorch tensors, with the same forward pass as `Attention` plus dropout."""

    def __init__(self, torch: Any, scaling: tuple[Floats, Floats], horizons: int, seed: int) -> None:
        from serl.agents.torch_adam import Adam

        self._torch, self._scaling, self._random = torch, scaling, np.random.default_rng(seed)
        self._weights = {name: self._first(name, shape) for name, shape in shapes(horizons).items()}
        self._optimiser = Adam(
            self._weights.values(), LEARNING_RATE, weight_decay=WEIGHT_DECAY, decoupled_weight_decay=True
        )

    def _first(self, name: str, shape: tuple[int, ...]) -> Any:
        """Initial weights: uniform within 1 / sqrt(inputs), as in PyTorch's linear layers; norms start as the identity."""
        torch = self._torch
        if "_norm_" in name:
            values = torch.full(shape, 0.0 if name.endswith("_bias") else 1.0)
        elif name == "positions":
            values = torch.randn(shape) * FIRST_DEVIATION
        elif name.endswith("_bias"):
            values = torch.zeros(shape)
        else:
            values = (2 * torch.rand(shape) - 1) / shape[0] ** 0.5
        return values.requires_grad_()

    def train(self, fit: Thinned, validation: Thinned, on_epoch: Callable[[], object]) -> dict[str, Singles]:
        """Trains; returns the weights with the smallest loss on `validation`."""
        best, best_loss, worse = self._values(), np.inf, 0
        for _ in range(EPOCHS_MAX):
            order = self._random.permutation(len(fit[2]))
            for start in range(0, len(order), BATCH):
                self._optimiser.zero_grad()
                self._loss(fit, order[start : start + BATCH], is_training=True).backward()
                self._optimiser.step()
            on_epoch()
            loss = self._mean_loss(validation)
            worse += 1
            if loss < best_loss:
                best, best_loss, worse = self._values(), loss, 0
            elif worse == PATIENCE:
                break
        return best

    def _values(self) -> dict[str, Singles]:
        return {name: tensor.detach().numpy().copy() for name, tensor in self._weights.items()}

    def _mean_loss(self, part: Thinned) -> float:
        total = 0.0
        with self._torch.no_grad():
            for start in range(0, len(part[2]), EVALUATED):
                rows = np.arange(start, min(start + EVALUATED, len(part[2])))
                total += float(self._loss(part, rows, is_training=False)) * len(rows)
        return total / len(part[2])

    def _loss(self, part: Thinned, rows: Ints, *, is_training: bool) -> Any:
        (inputs, features, labels), torch = part, self._torch
        windows = standardise(inputs.windows(rows), *self._scaling).astype(np.float32)
        logits = self._forward(torch.from_numpy(windows), torch.from_numpy(features[rows]), is_training)
        targets = torch.from_numpy(labels[rows]).reshape(-1)
        return torch.nn.functional.cross_entropy(logits.reshape(-1, CLASSES), targets, ignore_index=NO_LABEL)

    def _forward(self, windows: Any, features: Any, is_training: bool) -> Any:
        weights, torch = self._weights, self._torch
        rows = windows @ weights["embed"] + weights["embed_bias"] + weights["positions"]
        for block in range(BLOCKS):
            for axis in AXES:
                rows = self._attend(rows, f"block_{block}_{axis}_", is_training).transpose(1, 2)
        read = torch.cat([rows.mean(dim=1), rows[:, -1], features], dim=1)
        hidden = (read @ weights["hidden"] + weights["hidden_bias"]).relu()
        return hidden @ weights["output"] + weights["output_bias"]

    def _attend(self, tokens: Any, prefix: str, is_training: bool) -> Any:
        functional = self._torch.nn.functional

        def linear(values: Any, name: str) -> Any:
            return values @ self._weights[prefix + name] + self._weights[f"{prefix}{name}_bias"]

        def added(values: Any, name: str) -> Any:
            kept = functional.dropout(values, DROPOUT, is_training)
            norm, bias = self._weights[prefix + name], self._weights[f"{prefix}{name}_bias"]
            return functional.layer_norm(tokens + kept, norm.shape, norm, bias, EPSILON)

        query, key, value = linear(tokens, "qkv").chunk(3, dim=2)
        scores = query @ key.transpose(1, 2) / query.shape[2] ** 0.5
        tokens = added(linear(scores.softmax(dim=2) @ value, "mix"), "norm_1")
        return added(linear(linear(tokens, "widen").relu(), "narrow"), "norm_2")
