"""Multilayer perceptrons with gradients written by hand.

For networks as small as those of execution policies, autograd and PyTorch's tanh (several times slower than NumPy's) take longer than
the arithmetic.
"""

import itertools
import math
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

Activation = Literal["tanh", "relu"]


def _activate(values: Tensor, activation: Activation) -> None:
    if activation == "tanh":
        array = values.numpy()
        np.tanh(array, out=array)
    else:
        values.clamp_(min=0)


def _before(slope: Tensor, values: Tensor, activation: Activation) -> Tensor:
    """Slopes before an activation, from those after it and its values."""
    if activation == "tanh":
        return torch.ops.aten.tanh_backward(slope, values)
    return torch.ops.aten.threshold_backward(slope, values, 0)


class Perceptron(nn.Module):  # type: ignore[misc]
    """Layers of the given sizes, orthogonal initial weights (gain sqrt 2, `gain` in the last), biases 0."""

    def __init__(self, sizes: list[int], activation: Activation, gain: float, generator: torch.Generator) -> None:
        super().__init__()
        self.activation = activation
        self.layers = nn.ModuleList(nn.Linear(*pair) for pair in itertools.pairwise(sizes))
        for layer in self.layers:
            nn.init.orthogonal_(layer.weight, gain if layer is self.layers[-1] else math.sqrt(2), generator=generator)
            nn.init.zeros_(layer.bias)
        self._linears = tuple(self.layers)

    @torch.no_grad()
    def forward(self, inputs: Tensor) -> Tensor:
        """(.., sizes[0]) to (.., sizes[-1]), without a gradient."""
        outputs = self.run(inputs.reshape(-1, inputs.shape[-1]))[-1]
        return outputs.reshape(*inputs.shape[:-1], -1)

    @torch.no_grad()
    def run(self, inputs: Tensor) -> list[Tensor]:
        """The inputs (B, sizes[0]) and the values of every layer, the outputs last."""
        values, last = [inputs], self._linears[-1]
        for linear in self._linears:
            after = torch.addmm(linear.bias, values[-1], linear.weight.t())
            if linear is not last:
                _activate(after, self.activation)
            values.append(after)
        return values

    @torch.no_grad()
    def descend(self, values: list[Tensor], slope: Tensor, onward: bool) -> Tensor | None:
        """Adds the gradient to that of the parameters, from what `run` gave and the slopes of a loss in the outputs; the slopes in the
        inputs if they are to go onward."""
        for place in range(len(self._linears) - 1, -1, -1):
            linear = self._linears[place]
            linear.weight.grad.addmm_(slope.t(), values[place])
            linear.bias.grad.add_(slope.sum(0))
            if place > 0:
                slope = _before(slope @ linear.weight, values[place], self.activation)
        return slope @ self._linears[0].weight if onward else None
