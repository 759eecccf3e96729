"""Multilayer perceptrons."""

import itertools
import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from serl.agents.learning.activations import tanh_in_place
from serl.agents.learning.network_config import Activation


class Perceptron(nn.Module):
    """Linear layers of the given sizes with an activation between them. Initial weights are orthogonal (gain sqrt 2, `gain` in the last
    layer), biases 0."""

    def __init__(self, sizes: list[int], activation: Activation, gain: float, generator: torch.Generator) -> None:
        super().__init__()
        self._tanh = activation == "tanh"
        self.layers = nn.ModuleList(nn.Linear(*pair) for pair in itertools.pairwise(sizes))
        for layer in self.layers:
            nn.init.orthogonal_(layer.weight, gain if layer is self.layers[-1] else math.sqrt(2), generator=generator)
            nn.init.zeros_(layer.bias)

    def forward(self, inputs: Tensor) -> Tensor:
        """(.., first size) to (.., last size)."""
        parameters = (number for layer in self.layers for number in (layer.weight, layer.bias))
        outputs: Tensor = _Layers.apply(self._tanh, inputs.flatten(0, -2), *parameters)
        return outputs.view(*inputs.shape[:-1], -1)


class _Layers(Function):
    """Passes (B, size) inputs through layers with a weight and a bias each. One function for all layers saves much of autograd's work."""

    @staticmethod
    def forward(ctx: Any, tanh: bool, inputs: Tensor, *parameters: Tensor) -> Tensor:
        """See the class."""
        weights, biases = parameters[::2], parameters[1::2]
        values = [inputs]
        for place, (weight, bias) in enumerate(zip(weights, biases, strict=True), start=1):
            sums = torch.addmm(bias, values[-1], weight.t())
            if place < len(weights):
                tanh_in_place(sums) if tanh else sums.relu_()
            values.append(sums)
        ctx.tanh = tanh
        ctx.save_for_backward(*values[:-1], *weights)
        return values[-1]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients with respect to inputs and parameters."""
        count = len(ctx.saved_tensors) // 2
        values, weights = ctx.saved_tensors[:count], ctx.saved_tensors[count:]
        found = list[Tensor | None]()
        for place in reversed(range(count)):
            found = [gradient.t() @ values[place], gradient.sum(0), *found]
            if place:
                slope = torch.ops.aten.tanh_backward if ctx.tanh else torch.ops.aten.threshold_backward
                gradient = slope(gradient @ weights[place], values[place], *(() if ctx.tanh else (0,)))
        return None, gradient @ weights[0] if ctx.needs_input_grad[1] else None, *found
