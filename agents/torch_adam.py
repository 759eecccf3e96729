"""PyTorch's Adam without its compiler: `torch.optim` imports that, torch._dynamo, with the first optimiser, which takes more than a second."""

import inspect
from typing import Any

import torch
from torch.optim import Optimizer

_STEP: Any = inspect.unwrap(torch.optim.Adam.step)


class Adam(torch.optim.Adam):
    """The same numbers as `torch.optim.Adam`. Its methods are those from before the decorators that keep the compiler away from them."""

    add_param_group = inspect.unwrap(Optimizer.add_param_group)
    zero_grad = inspect.unwrap(Optimizer.zero_grad)
    state_dict = inspect.unwrap(Optimizer.state_dict)
    load_state_dict = inspect.unwrap(Optimizer.load_state_dict)

    def step(self, closure: Any = None) -> Any:
        """See `torch.optim.Adam`."""
        with torch.no_grad():
            return _STEP(self, closure)
