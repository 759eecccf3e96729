"""Checkpoints: everything that training needs to continue as if it had not stopped.

Checkpoints are taken between updates and do not contain the state of the environments. PPO's environments start new episodes at every
checkpoint, with seeds derived from the learner's seed and steps; a baseline draws new orders at every update. So an uninterrupted run and
a resumed one do the same, and their weights are equal bit for bit (with the same PyTorch, on the same type of machine).
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
from torch import Tensor

from serl.agents.learning import files
from serl.agents.learning.errors import PolicyFileError
from serl.agents.learning.state import named, part

KIND, BEST = "checkpoint", "best."


class Learner(Protocol):
    """What learns in a training run."""

    steps: int
    random: np.random.Generator

    def state_dict(self) -> dict[str, Tensor]:
        """Everything that the next update depends on, besides the environments, `steps` and `random`. The weights of PPO's network are `network.…`."""

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restores what `state_dict` returned. Raises RuntimeError or KeyError if it is that of another learner."""


def save(
    learner: Learner, training: dict[str, Any], path: Path, best: Mapping[str, Tensor] = MappingProxyType({})
) -> None:
    """Writes the state, the random generator and the steps of a learner, the best weights so far if training uses early stopping, and the caller's own
    JSON."""
    state = {"steps": learner.steps, "random": learner.random.bit_generator.state}
    files.write(path, KIND, learner.state_dict() | named(BEST, best), {"learner": state, "training": training})


def restore(learner: Learner, path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Restores a learner with the same settings; returns the caller's JSON and the best weights. Raises PolicyFileError if the networks differ."""
    tensors, metadata = files.read(path, KIND)
    try:
        learner.load_state_dict({name: tensor for name, tensor in tensors.items() if not name.startswith(BEST)})
    except (RuntimeError, KeyError) as error:
        raise PolicyFileError(
            f"{path}: expected the network of the settings, got another network ({error}); use the settings of the run"
        ) from None
    learner.steps = metadata["learner"]["steps"]
    learner.random.bit_generator.state = metadata["learner"]["random"]
    training: dict[str, Any] = metadata["training"]
    return training, part(BEST, tensors)
