"""Multilayer perceptrons."""

import itertools
import math

import torch
from torch import Tensor, nn

from serl.agents.learning.network_config import Activation


class Perceptron(nn.Module):
    """Linear layers of the given sizes with an activation between them. Initial weights are orthogonal (gain sqrt 2, `gain` in the last
    layer), biases 0."""

    def __init__(self, sizes: list[int], activation: Activation, gain: float, generator: torch.Generator) -> None:
        super().__init__()
        self._activation = torch.tanh if activation == "tanh" else torch.relu
        self.layers = nn.ModuleList(nn.Linear(*pair) for pair in itertools.pairwise(sizes))
        for layer in self.layers:
            nn.init.orthogonal_(layer.weight, gain if layer is self.layers[-1] else math.sqrt(2), generator=generator)
            nn.init.zeros_(layer.bias)

    def forward(self, inputs: Tensor) -> Tensor:
        """(.., first size) to (.., last size)."""
        *hidden, last = self.layers
        for layer in hidden:
            inputs = self._activation(layer(inputs))
        return last(inputs)
