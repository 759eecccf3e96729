"""A small network with dual attention, after TLOB (Berti and Kasneci 2025, arXiv 2502.15757), evaluated with numpy; attention_training.py trains it.

Rows of the book are embedded and get positions. Each block attends over the rows, then, transposed, over the numbers of the embedding, both with one
head, a skip connection, a layer norm and a feed-forward layer. A perceptron reads the mean of the rows, the last row, and the features of the other
models. The sizes were chosen among eight on the calibration hours of the two sample days: larger networks and raw books alone were worse.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from serl.agents.signals.books import CHANNELS, WINDOW
from serl.agents.signals.features import NAMES, standardise
from serl.agents.signals.grid import Floats, Singles
from serl.agents.signals.inputs import Inputs
from serl.agents.signals.labels import CLASSES

WIDTH, BLOCKS, EXPANSION, HIDDEN = 16, 1, 2, 32
AXES = ("rows", "numbers")
"""The axes over which a block attends, one after the other."""
EPSILON = 1e-5
"""Epsilon of layer norms."""
CHUNK = 1024
"""Number of forecasts computed at a time."""


def shapes(horizons: int) -> dict[str, tuple[int, ...]]:
    """Shapes of the weights, by name; matrices are [in, out]."""
    found: dict[str, tuple[int, ...]] = {
        "embed": (len(CHANNELS), WIDTH), "embed_bias": (WIDTH,), "positions": (WINDOW, WIDTH),
        "hidden": (2 * WIDTH + len(NAMES), HIDDEN), "hidden_bias": (HIDDEN,),
        "output": (HIDDEN, horizons * CLASSES), "output_bias": (horizons * CLASSES,),
    }  # fmt: skip
    for block in range(BLOCKS):
        for axis, size in zip(AXES, (WIDTH, WINDOW), strict=True):
            inner = EXPANSION * size
            layers = {"qkv": (size, 3 * size), "mix": (size, size), "widen": (size, inner), "narrow": (inner, size)}
            prefix = f"block_{block}_{axis}_"
            for name, shape in layers.items():
                found |= {prefix + name: shape, f"{prefix}{name}_bias": shape[1:]}
            for norm in ("norm_1", "norm_2"):
                found |= {prefix + norm: (size,), f"{prefix}{norm}_bias": (size,)}
    return found


@dataclass(frozen=True)
class Attention:
    """The network and the scale of the rows of books that it reads."""

    centre: Floats
    """[channel]"""
    scale: Floats
    """[channel]"""
    weights: Mapping[str, Singles]
    """See `shapes`."""

    def logits(self, inputs: Inputs, standardised: Floats) -> Floats:
        """[n, horizon, class] logits for inputs and their standardised features [n, feature]. O(n WINDOW WIDTH (WINDOW + WIDTH))."""
        found = []
        for start in range(0, len(standardised), CHUNK):
            rows = slice(start, start + CHUNK)
            windows = standardise(inputs.windows(rows), self.centre, self.scale).astype(np.float32)
            found.append(self._forward(windows, standardised[rows].astype(np.float32)))
        flat = np.concatenate(found) if found else np.zeros((0, len(self.weights["output_bias"])), np.float32)
        return flat.reshape(len(flat), flat.shape[1] // CLASSES, CLASSES).astype(np.float64)

    def _forward(self, windows: Singles, features: Singles) -> Singles:
        weights = self.weights
        rows = windows @ weights["embed"] + weights["embed_bias"] + weights["positions"]
        for block in range(BLOCKS):
            for axis in AXES:
                rows = self._attend(rows, f"block_{block}_{axis}_").transpose(0, 2, 1)
        read = np.concatenate([rows.mean(axis=1), rows[:, -1], features], axis=1)
        return self._linear(np.maximum(self._linear(read, "hidden"), 0.0), "output")

    def _attend(self, tokens: Singles, prefix: str) -> Singles:
        """[n, token, size] tokens after a layer of attention and a feed-forward layer."""
        query, key, value = np.split(self._linear(tokens, prefix + "qkv"), 3, axis=2)
        scores = query @ key.transpose(0, 2, 1) / np.float32(np.sqrt(query.shape[2]))
        shares = np.exp(scores - scores.max(axis=2, keepdims=True))
        shares /= shares.sum(axis=2, keepdims=True)
        tokens = self._norm(tokens + self._linear(shares @ value, prefix + "mix"), prefix + "norm_1")
        wide = np.maximum(self._linear(tokens, prefix + "widen"), 0.0)
        return self._norm(tokens + self._linear(wide, prefix + "narrow"), prefix + "norm_2")

    def _linear(self, values: Singles, name: str) -> Singles:
        return np.asarray(values @ self.weights[name] + self.weights[f"{name}_bias"])

    def _norm(self, values: Singles, name: str) -> Singles:
        centred = values - values.mean(axis=2, keepdims=True)
        deviation = np.sqrt((centred**2).mean(axis=2, keepdims=True) + np.float32(EPSILON))
        return np.asarray(centred / deviation * self.weights[name] + self.weights[f"{name}_bias"])
