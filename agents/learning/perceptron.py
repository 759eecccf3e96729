"""Multilayer perceptrons with gradients written by hand.

For networks as small as those of execution policies, autograd and PyTorch's tanh (several times slower than NumPy's) take longer than
the arithmetic.
"""

import itertools
import math
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

Activation = Literal["tanh", "relu"]


class _Pass(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(context: Any, inputs: Tensor, activation: Activation, *parameters: Tensor) -> Tensor:
        layers, last = [inputs], len(parameters) // 2 - 1
        for place in range(last + 1):
            weight, bias = parameters[2 * place : 2 * place + 2]
            values = torch.addmm(bias, layers[-1], weight.t())
            if place < last:
                if activation == "tanh":
                    array = values.numpy()
                    np.tanh(array, out=array)
                else:
                    values.clamp_(min=0)
            layers.append(values)
        context.save_for_backward(*layers[:-1], *parameters[::2])
        context.activation = activation
        return layers[-1]

    @staticmethod
    @once_differentiable
    def backward(context: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        saved = context.saved_tensors
        layers, weights = saved[: len(saved) // 2], saved[len(saved) // 2 :]
        gradients: list[Tensor | None] = []
        for place in range(len(layers) - 1, -1, -1):
            gradients[:0] = [slope.t() @ layers[place], slope.sum(0)]
            if place > 0:
                slope = _before(slope @ weights[place], layers[place], context.activation)
        inputs = slope @ weights[0] if context.needs_input_grad[0] else None
        return inputs, None, *gradients


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
        self._in_order = tuple(self.parameters())

    def forward(self, inputs: Tensor) -> Tensor:
        """(.., sizes[0]) to (.., sizes[-1])."""
        outputs = _Pass.apply(inputs.reshape(-1, inputs.shape[-1]), self.activation, *self._in_order)
        return outputs.reshape(*inputs.shape[:-1], -1)
