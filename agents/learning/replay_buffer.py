"""The replay buffer of off-policy learners, and their common perceptron."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from serl.exchange.errors import ConfigError


def layers(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    """A perceptron with two hidden layers."""
    return nn.Sequential(
        nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, outputs)
    )


def draw_weights(network: nn.Module, generator: torch.Generator) -> None:
    """Draws uniform weights, at most the inverse root of the number of inputs in absolute value."""
    for parameter in network.parameters():
        bound = parameter.shape[-1] ** -0.5
        nn.init.uniform_(parameter, -bound, bound, generator=generator)


def require_learning(name: str, steps: int, warm_up: int) -> None:
    """Raises ConfigError unless learning starts before the last step: otherwise the network would silently keep its initial weights."""
    if warm_up >= steps:
        raise ConfigError(
            f"{name}: expected warm_up, the random decisions before learning starts, to be less than its {steps:,} steps, got {warm_up:,}; set one of them"
        )


class ReplayBuffer:
    """A ring buffer of the last transitions. Columns are given by size, 0 for a single number, and stored as float32."""

    def __init__(self, size: int, *columns: int) -> None:
        self._columns = [torch.zeros(size, column) if column else torch.zeros(size) for column in columns]
        self.count = 0
        """Number of transitions ever added."""

    def add(self, *columns: Tensor) -> None:
        """Adds N transitions, (N, ..) each."""
        size = len(self._columns[0])
        rows = torch.arange(self.count, self.count + len(columns[0])) % size
        for column, new in zip(self._columns, columns, strict=True):
            column[rows] = new.float()
        self.count += len(rows)

    def sample(self, random: np.random.Generator, count: int) -> list[Tensor]:
        """Draws transitions with replacement, (count, ..) each."""
        rows = torch.from_numpy(random.integers(min(self.count, len(self._columns[0])), size=count))
        return [column[rows] for column in self._columns]

    def state_dict(self) -> dict[str, Tensor]:
        """The transitions in the buffer, and how many were ever added."""
        rows = {f"{index}": column[: self.count] for index, column in enumerate(self._columns)}
        return rows | {"count": torch.tensor(self.count)}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restores what `state_dict` returned, in a buffer of the same size."""
        self.count = int(state["count"])
        for index, column in enumerate(self._columns):
            column[: self.count] = state[f"{index}"]
