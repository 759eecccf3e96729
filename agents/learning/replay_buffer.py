"""What learners off the policy learn from: their last decisions."""

import numpy as np
import torch
from torch import Tensor


class Past:
    """The last decisions, in a ring: state, offset, pick, reward, next state, whether the order goes on."""

    def __init__(self, size: int, state: int) -> None:
        self._columns = [torch.zeros(size, *shape) for shape in ((state,), (), (), (), (state,), ())]
        self.count = 0
        """Decisions ever put in."""

    def add(self, *columns: Tensor) -> None:
        """(N, ..) each."""
        size = len(self._columns[0])
        rows = torch.arange(self.count, self.count + len(columns[0])) % size
        for kept, new in zip(self._columns, columns, strict=True):
            kept[rows] = new.float()
        self.count += len(rows)

    def sample(self, random: np.random.Generator, count: int) -> list[Tensor]:
        """(count, ..) each."""
        rows = torch.from_numpy(random.integers(min(self.count, len(self._columns[0])), size=count))
        return [kept[rows] for kept in self._columns]
