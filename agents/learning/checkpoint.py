"""Checkpoints: everything that training needs to continue as if it had not stopped.

Checkpoints are taken between rollouts and do not contain the state of the environments. Instead, all environments start new episodes at
every checkpoint, with seeds derived from the learner's seed and steps. So an uninterrupted run and a resumed one do the same, and their
weights are equal bit for bit (with the same PyTorch, on the same type of machine).
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from torch import Tensor

from serl.agents.learning import files
from serl.agents.learning.errors import PolicyFileError
from serl.agents.learning.ppo import PPO

KIND = "checkpoint"
NETWORK, OPTIMISER, BEST = "network.", "optimiser.", "best."
"""Prefixes of tensor names."""


def save(learner: PPO, training: dict[str, Any], path: Path, best: Mapping[str, Tensor] = MappingProxyType({})) -> None:
    """Writes weights, optimiser state, random state and steps of a learner, the best weights so far if training uses early stopping, and the
    caller's own JSON."""
    tensors = {NETWORK + name: tensor for name, tensor in learner.network.state_dict().items()}
    tensors |= {OPTIMISER + name: tensor for name, tensor in learner.optimiser.state_dict().items()}
    tensors |= {BEST + name: tensor for name, tensor in best.items()}
    state = {"steps": learner.steps, "random": learner.random.bit_generator.state}
    files.write(path, KIND, tensors, {"learner": state, "training": training})


def restore(learner: PPO, path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Restores a learner with the same settings; returns the caller's JSON and the best weights. Raises PolicyFileError if the networks differ."""
    tensors, metadata = files.read(path, KIND)
    weights, optimiser, best = (
        {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
        for prefix in (NETWORK, OPTIMISER, BEST)
    )
    try:
        learner.network.load_state_dict(weights)
    except RuntimeError as error:
        raise PolicyFileError(
            f"{path}: expected the network of the settings, got another network ({error}); use the settings of the run"
        ) from None
    learner.optimiser.load_state_dict(optimiser)
    learner.steps = metadata["learner"]["steps"]
    learner.random.bit_generator.state = metadata["learner"]["random"]
    training: dict[str, Any] = metadata["training"]
    return training, best
