"""The replay buffer of off-policy learners."""

import numpy as np
import torch
from torch import Tensor


class ReplayBuffer:
    """A ring buffer of the last transitions: state, offset, candidate, reward, next state, whether the order continues."""

    def __init__(self, size: int, state_size: int) -> None:
        self._columns = [torch.zeros(size, *shape) for shape in ((state_size,), (), (), (), (state_size,), ())]
        self.count = 0
        """Transitions ever added."""

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
