"""Multilayer perceptrons with gradients written by hand; the arithmetic is in kernels.py."""

import itertools
import math
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from serl.agents.learning.kernels import BLOCK, backward, forward
from serl.agents.learning.network_config import Activation


class Perceptron(nn.Module):  # type: ignore[misc]
    """Layers of the given sizes, orthogonal initial weights (gain sqrt 2, `gain` in the last), biases 0.

    Once it has run, its parameters may change in place only. One thread at a time may use it."""

    def __init__(self, sizes: list[int], activation: Activation, gain: float, generator: torch.Generator) -> None:
        super().__init__()
        self.sizes, self._tanh = sizes, activation == "tanh"
        self.layers = nn.ModuleList(nn.Linear(*pair) for pair in itertools.pairwise(sizes))
        for layer in self.layers:
            nn.init.orthogonal_(layer.weight, gain if layer is self.layers[-1] else math.sqrt(2), generator=generator)
            nn.init.zeros_(layer.bias)
        self._work = np.empty((2, max(sizes), BLOCK), np.float32)
        self._spaces: dict[int, tuple[Any, ...]] = {}

    @cached_property
    def _parameters_of_layers(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        weights, biases = ([getattr(layer, name) for layer in self.layers] for name in ("weight", "bias"))
        return tuple(weight.detach().numpy() for weight in weights), tuple(bias.detach().numpy() for bias in biases)

    @cached_property
    def _slopes_of_layers(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        layers = tuple(self.layers)
        return tuple(layer.weight.grad.numpy() for layer in layers), tuple(layer.bias.grad.numpy() for layer in layers)

    def forward(self, inputs: Tensor) -> Tensor:
        """(.., sizes[0]) to (.., sizes[-1]), without a gradient; `descend` may follow."""
        flat = inputs.detach().reshape(-1, self.sizes[0]).contiguous().numpy()
        outputs = np.empty((len(flat), self.sizes[-1]), np.float32)
        self._values = self._space(-(-len(flat) // BLOCK))
        forward(flat, *self._parameters_of_layers, self._tanh, self._values, outputs)
        return torch.from_numpy(outputs).reshape(*inputs.shape[:-1], -1)

    def _space(self, blocks: int) -> tuple[Any, ...]:
        """Memory for the values of all layers; kept, as the system takes longer to give it than the arithmetic in it."""
        if blocks not in self._spaces:
            self._spaces[blocks] = tuple(np.empty((blocks, size, BLOCK), np.float32) for size in self.sizes)
        return self._spaces[blocks]

    def descend(self, slope: Tensor, onward: bool = False) -> Tensor | None:
        """Adds the gradient to that of the parameters, from the slopes (.., sizes[-1]) of a loss in the outputs of the last call; the
        slopes in the inputs if they are to go onward."""
        flat = slope.detach().reshape(-1, self.sizes[-1]).contiguous().numpy()
        inputs = np.empty((len(flat) if onward else 0, self.sizes[0]), np.float32)
        weights, _ = self._parameters_of_layers
        backward(flat, weights, self._tanh, self._values, self._work, *self._slopes_of_layers, inputs)
        return torch.from_numpy(inputs).reshape(*slope.shape[:-1], -1) if onward else None
