"""Adam (Kingma and Ba 2015, arXiv 1412.6980) on all parameters at once.

The parameters are views of one vector and their gradients views of another, so that clipping and a step take one pass of compiled code each.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from serl.exchange.compiling import compiled

BETA_FIRST, BETA_SECOND, EPSILON = np.float32(0.9), np.float32(0.999), np.float32(1e-5)


_fast = compiled(fastmath={"contract", "nsz", "reassoc"})
"""Sums may be reordered and fused with products; infinities and NaN are preserved."""


@_fast
def _norm(vector: Any) -> Any:
    """Euclidean norm."""
    total = np.float32(0)
    for n in range(vector.size):
        total += vector[n] * vector[n]
    return np.sqrt(total)


@_fast
def _step(values: Any, gradient: Any, first: Any, second: Any, scale: Any, decay_first: Any, decay_second: Any, learning_rate: Any, root_scale: Any, epsilon: Any) -> None:  # fmt: skip
    """values -= learning_rate m / (root_scale sqrt(v) + epsilon), where m and v are the decaying means of g = scale x gradient and of g².
    Sets the gradient to 0. All numbers are float32."""
    for n in range(values.size):
        g = scale * gradient[n]
        first[n] = decay_first * first[n] + (np.float32(1) - decay_first) * g
        second[n] = decay_second * second[n] + (np.float32(1) - decay_second) * g * g
        values[n] -= learning_rate * first[n] / (root_scale * np.sqrt(second[n]) + epsilon)
        gradient[n] = 0


def flatten(parameters: Sequence[nn.Parameter]) -> tuple[Tensor, Tensor]:
    """(values, gradient) of all parameters as vectors; the parameters become views of them."""
    values = torch.cat([parameter.detach().flatten() for parameter in parameters])
    gradient = torch.zeros_like(values)
    sizes = [parameter.numel() for parameter in parameters]
    for parameter, part, part_gradient in zip(parameters, values.split(sizes), gradient.split(sizes), strict=True):
        parameter.data, parameter.grad = part.view_as(parameter), part_gradient.view_as(parameter)
    return values, gradient


class Adam:
    """Optimises a vector of values (n,) with its gradient (n,). The vector consists of groups of the given sizes, each with its own learning
    rate."""

    def __init__(self, values: Tensor, gradient: Tensor, group_sizes: Sequence[int]) -> None:
        self._moments = torch.zeros(2, len(values))
        self._vectors = (values.numpy(), gradient.numpy(), *self._moments.numpy())
        self._ends = np.cumsum([0, *group_sizes])
        self._count = 0

    def gradient_norm(self) -> float:
        """Euclidean norm of the gradient."""
        return float(_norm(self._vectors[1]))

    def step(self, learning_rates: Sequence[float], scale: float = 1.0) -> None:
        """Updates the values by `scale` times the gradient and sets the gradient to 0; one learning rate per group."""
        self._count += 1
        root_scale = np.float32(1 / math.sqrt(1 - float(BETA_SECOND) ** self._count))
        for group, learning_rate in enumerate(learning_rates):
            part = slice(self._ends[group], self._ends[group + 1])
            unbiased = np.float32(learning_rate / (1 - float(BETA_FIRST) ** self._count))
            _step(
                *(vector[part] for vector in self._vectors), np.float32(scale),
                BETA_FIRST, BETA_SECOND, unbiased, root_scale, EPSILON,
            )  # fmt: skip

    def state_dict(self) -> dict[str, Tensor]:
        """Moments and step count."""
        first, second = self._moments
        return {"first": first, "second": second, "count": torch.tensor(self._count)}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restores moments and step count. The owner of the parameters restores the parameters, in place."""
        self._moments.copy_(torch.stack([state["first"], state["second"]]))
        self._count = int(state["count"])
