"""Adam (Kingma and Ba 2015, arXiv 1412.6980) on all parameters at once.

Parameters become views of one vector and their gradients of another, so that clipping and a step are one pass over a vector each.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from serl.agents.learning import kernels

BETA_FIRST, BETA_SECOND, EPSILON = np.float32(0.9), np.float32(0.999), np.float32(1e-5)


def flatten(parameters: Sequence[nn.Parameter]) -> tuple[Tensor, Tensor]:
    """(values, gradient) of all parameters, which become views of them."""
    values = torch.cat([parameter.detach().flatten() for parameter in parameters])
    gradient = torch.zeros_like(values)
    sizes = [parameter.numel() for parameter in parameters]
    for parameter, own, slope in zip(parameters, values.split(sizes), gradient.split(sizes), strict=True):
        parameter.data, parameter.grad = own.view_as(parameter), slope.view_as(parameter)
    return values, gradient


class Adam:
    """On vectors (n,) of values and their gradient, made up of groups of so many numbers, each with a learning rate of its own."""

    def __init__(self, values: Tensor, gradient: Tensor, groups: Sequence[int]) -> None:
        self._moments = torch.zeros(2, len(values))
        self._vectors = (values.numpy(), gradient.numpy(), *self._moments.numpy())
        self._ends = np.cumsum([0, *groups])
        self._count = 0

    def norm(self) -> float:
        """Euclidean length of the gradient."""
        return float(kernels.norm(self._vectors[1]))

    def step(self, rates: Sequence[float], scale: float = 1.0) -> None:
        """Down `scale` times the gradient, which is 0 afterwards; rates: one a group."""
        self._count += 1
        root_scale = np.float32(1 / math.sqrt(1 - float(BETA_SECOND) ** self._count))
        for place, rate in enumerate(rates):
            part = slice(self._ends[place], self._ends[place + 1])
            unbiased = np.float32(rate / (1 - float(BETA_FIRST) ** self._count))
            kernels.adam(
                *(vector[part] for vector in self._vectors), np.float32(scale),
                BETA_FIRST, BETA_SECOND, unbiased, root_scale, EPSILON,
            )  # fmt: skip

    def state(self) -> dict[str, Tensor]:
        """What `restore` takes."""
        first, second = self._moments
        return {"first": first, "second": second, "count": torch.tensor(self._count)}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Goes on from a state; the parameters are put back by their owner, in place."""
        self._moments.copy_(torch.stack([state["first"], state["second"]]))
        self._count = int(state["count"])
