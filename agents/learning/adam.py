"""Adam (Kingma and Ba 2015, arXiv 1412.6980) on all parameters at once.

Parameters become views of one vector and their gradients of another, so that clipping and a step need a few operations on a
vector instead of a few a parameter.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

BETA_FIRST, BETA_SECOND, EPSILON = 0.9, 0.999, 1e-5


class Adam:
    """Over groups of parameters, each with a learning rate of its own."""

    def __init__(self, groups: Sequence[Sequence[nn.Parameter]]) -> None:
        parameters = [parameter for group in groups for parameter in group]
        self._values = torch.cat([parameter.detach().flatten() for parameter in parameters])
        self.gradient = torch.zeros_like(self._values)
        """Of all parameters; add to it, then `step`."""
        self._first, self._second = torch.zeros_like(self._values), torch.zeros_like(self._values)
        self._count = 0
        self._groups = [sum(parameter.numel() for parameter in group) for group in groups]
        sizes = [parameter.numel() for parameter in parameters]
        parts = zip(parameters, self._values.split(sizes), self.gradient.split(sizes), strict=True)
        for parameter, values, gradient in parts:
            parameter.data, parameter.grad = values.view_as(parameter), gradient.view_as(parameter)

    @torch.no_grad()
    def step(self, rates: Sequence[float]) -> None:
        """Down the gradient, which is 0 afterwards; rates: one a group."""
        self._count += 1
        gradient = self.gradient
        self._first.lerp_(gradient, 1 - BETA_FIRST)
        self._second.mul_(BETA_SECOND).addcmul_(gradient, gradient, value=1 - BETA_SECOND)
        root = self._second.sqrt().mul_(1 / math.sqrt(1 - BETA_SECOND**self._count))
        steps = self._first.div(root.add_(EPSILON)).split(self._groups)
        for values, change, rate in zip(self._values.split(self._groups), steps, rates, strict=True):
            values.sub_(change, alpha=rate / (1 - BETA_FIRST**self._count))
        gradient.zero_()

    def state(self) -> dict[str, Tensor]:
        """What `restore` takes."""
        return {"first": self._first, "second": self._second, "count": torch.tensor(self._count)}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Goes on from a state; the parameters are put back by their owner, in place."""
        self._first.copy_(state["first"])
        self._second.copy_(state["second"])
        self._count = int(state["count"])
