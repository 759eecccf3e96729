"""All that training needs to go on as if it had never stopped.

Checkpoints are taken between rollouts. What goes on inside an environment is not kept: at every checkpoint all environments begin
new episodes, from a seed that follows from the learner's seed and its steps. A run that goes on and a run that is resumed do
the same, so their weights are equal bit by bit (with the same PyTorch, on the same type of machine).
"""

from pathlib import Path
from typing import Any

from serl.agents.learning import files
from serl.agents.learning.errors import PolicyFileError
from serl.agents.learning.ppo import PPO

KIND = "checkpoint"
WEIGHT, MOMENT = "network.", "optimiser."


def save(learner: PPO, facts: dict[str, Any], path: Path) -> None:
    """Weights, optimiser, chance and steps of a learner, and facts of the caller's."""
    tensors = {WEIGHT + name: tensor for name, tensor in learner.network.state_dict().items()}
    tensors |= {MOMENT + name: tensor for name, tensor in learner.optimiser.state().items()}
    own = {"steps": learner.steps, "random": learner.random.bit_generator.state}
    files.write(path, KIND, tensors, {"learner": own, "training": facts})


def restore(learner: PPO, path: Path) -> dict[str, Any]:
    """Puts a learner of the same settings back to where it was saved; the caller's facts. PolicyFileError for other networks."""
    tensors, facts = files.read(path, KIND)
    weights = {name.removeprefix(WEIGHT): value for name, value in tensors.items() if name.startswith(WEIGHT)}
    try:
        learner.network.load_state_dict(weights)
    except RuntimeError as error:
        raise PolicyFileError(f"{path}: holds another network than the settings say ({error})") from None
    moments = {name.removeprefix(MOMENT): value for name, value in tensors.items() if name.startswith(MOMENT)}
    learner.optimiser.restore(moments)
    learner.steps = facts["learner"]["steps"]
    learner.random.bit_generator.state = facts["learner"]["random"]
    training: dict[str, Any] = facts["training"]
    return training
