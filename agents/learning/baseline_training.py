"""A run of a rival of PPO in a folder: its policy is kept at every interruption; to go on exactly is for PPO alone."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gymnasium.vector import VectorEnv

from serl.agents.learning.baseline import Rival, RivalPolicy
from serl.agents.learning.errors import DivergedError, LearningError
from serl.agents.learning.halop import HALOP
from serl.agents.learning.macmic import MacMic
from serl.agents.learning.opd import OPD
from serl.agents.learning.training import POLICY, Training, TrainingConfig
from serl.exchange.errors import ConfigError

RIVALS: dict[str, Callable[[VectorEnv, Any], Rival]] = {"opd": OPD, "halop": HALOP, "macmic": MacMic}


class RivalTraining:
    """A run in a folder, over one environment."""

    def __init__(
        self, config: TrainingConfig, envs: Sequence[VectorEnv], folder: Path, facts: dict[str, Any] | None = None
    ) -> None:
        if len(envs) != 1:
            raise ConfigError(f"dynamic: {config.algorithm} learns in one market; leave `dynamic` out or take ppo")
        self.config, self.folder, self._facts = config, folder, facts or {}
        self.learner = RIVALS[config.algorithm](envs[0], config.learner)

    def resume(self) -> None:
        """LearningError: there is nothing to go on from."""
        raise LearningError(f"{self.folder}: only runs of ppo can go on; start a new run of {self.config.algorithm}")

    def run(self, report: Callable[[dict[str, Any]], None] = lambda statistics: None) -> RivalPolicy:
        """Trains to the end; `report` is told the statistics of every update. The policy is saved at the end, on an interruption
        and, as it was before, on a DivergedError."""
        try:
            while self.learner.steps < self.config.learner.steps:
                report({**self.learner.update(), "steps": self.learner.steps})
        except DivergedError as error:
            raise DivergedError(f"step {self.learner.steps:,}: {error}") from None
        finally:
            self.policy().save(self.folder / POLICY)
        return self.policy()

    def policy(self) -> RivalPolicy:
        """As of now."""
        facts = {
            "name": self.config.name, "seed": self.config.learner.seed, "steps": self.learner.steps, **self._facts,
        }  # fmt: skip
        return self.learner.policy(facts)


def training_of(
    config: TrainingConfig, envs: Sequence[VectorEnv], folder: Path, facts: dict[str, Any] | None = None
) -> Training | RivalTraining:
    """The run of the settings' algorithm."""
    kind = Training if config.algorithm == "ppo" else RivalTraining
    return kind(config, envs, folder, facts)
