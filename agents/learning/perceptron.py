"""Multilayer perceptrons with gradients written by hand; kernels.py has the arithmetic."""

import itertools
import math
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from serl.agents.learning import kernels
from serl.agents.learning.kernels import BLOCK
from serl.agents.learning.network_config import Activation


class Perceptron(nn.Module):  # type: ignore[misc]
    """Linear layers of the given sizes with an activation between them. Initial weights are orthogonal (gain sqrt 2, `gain` in the last
    layer), biases 0.

    After the first call, parameters may only change in place. It is not thread-safe."""

    def __init__(self, sizes: list[int], activation: Activation, gain: float, generator: torch.Generator) -> None:
        super().__init__()
        self.sizes, self._tanh = sizes, activation == "tanh"
        self.layers = nn.ModuleList(nn.Linear(*pair) for pair in itertools.pairwise(sizes))
        for layer in self.layers:
            nn.init.orthogonal_(layer.weight, gain if layer is self.layers[-1] else math.sqrt(2), generator=generator)
            nn.init.zeros_(layer.bias)
        self._scratch = np.empty((2, max(sizes), BLOCK), np.float32)
        self._activation_arrays: dict[int, tuple[Any, ...]] = {}

    @cached_property
    def _weights_and_biases(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        layers = tuple(self.layers)
        return tuple(layer.weight.detach().numpy() for layer in layers), tuple(
            layer.bias.detach().numpy() for layer in layers
        )

    @cached_property
    def _weight_and_bias_gradients(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        layers = tuple(self.layers)
        return tuple(layer.weight.grad.numpy() for layer in layers), tuple(layer.bias.grad.numpy() for layer in layers)

    def forward(self, inputs: Tensor) -> Tensor:
        """(.., sizes[0]) to (.., sizes[-1]), outside of autograd; `backward` may follow."""
        flat = inputs.detach().reshape(-1, self.sizes[0]).contiguous().numpy()
        outputs = np.empty((len(flat), self.sizes[-1]), np.float32)
        self._activations = self._activations_for(-(-len(flat) // BLOCK))
        kernels.forward(flat, *self._weights_and_biases, self._tanh, self._activations, outputs)
        return torch.from_numpy(outputs).reshape(*inputs.shape[:-1], -1)

    def _activations_for(self, blocks: int) -> tuple[Any, ...]:
        """Arrays for the activations of all layers; kept between calls, since allocating them takes longer than the arithmetic."""
        if blocks not in self._activation_arrays:
            self._activation_arrays[blocks] = tuple(np.empty((blocks, size, BLOCK), np.float32) for size in self.sizes)
        return self._activation_arrays[blocks]

    def backward(self, output_gradient: Tensor, needs_input_gradient: bool = False) -> Tensor | None:
        """Backpropagates the gradient (.., sizes[-1]) of a loss with respect to the outputs of the last call: adds to the gradients of the
        parameters and, if needed, returns the gradient with respect to the inputs."""
        flat = output_gradient.detach().reshape(-1, self.sizes[-1]).contiguous().numpy()
        input_gradient = np.empty((len(flat) if needs_input_gradient else 0, self.sizes[0]), np.float32)
        weights, _ = self._weights_and_biases
        kernels.backward(
            flat,
            weights,
            self._tanh,
            self._activations,
            self._scratch,
            *self._weight_and_bias_gradients,
            input_gradient,
        )
        if not needs_input_gradient:
            return None
        return torch.from_numpy(input_gradient).reshape(*output_gradient.shape[:-1], -1)
