"""A training run of a baseline in a folder. An interruption saves the policy, but only PPO runs can be resumed."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from gymnasium.vector import VectorEnv

from serl.agents.learning.baseline import Baseline, BaselinePolicy
from serl.agents.learning.early_stopping import validation_scorer
from serl.agents.learning.errors import DivergedError, LearningError
from serl.agents.learning.halop import HALOP
from serl.agents.learning.macmic import MacMic
from serl.agents.learning.opd import OPD
from serl.agents.learning.parallel_training import parallel_learner
from serl.agents.learning.training import POLICY, Training, TrainingConfig
from serl.cluster import LOCAL
from serl.exchange.errors import ConfigError

BASELINES: dict[str, Callable[[VectorEnv, Any], Baseline]] = {"opd": OPD, "halop": HALOP, "macmic": MacMic}


class BaselineTraining:
    """A run in a folder, in one environment."""

    def __init__(
        self, config: TrainingConfig, envs: Sequence[VectorEnv], folder: Path, metadata: dict[str, Any] | None = None
    ) -> None:
        if len(envs) != 1:
            raise ConfigError(
                f"dynamic: expected one market for {config.algorithm}, got {len(envs)}; leave `dynamic` out or use ppo"
            )
        self.config, self.folder, self._metadata = config, folder, metadata or {}
        self.learner = BASELINES[config.algorithm](envs[0], config.learner)
        self._initial = {name: tensor.clone() for name, tensor in self.policy().network.state_dict().items()}

    def start_from(self, path: Path) -> None:
        """Raises LearningError, because only PPO can start from a policy."""
        raise LearningError(f"start_from: expected algorithm ppo, got {self.config.algorithm}; leave {path} out")

    def resume(self) -> None:
        """Raises LearningError, because runs of baselines have no checkpoints."""
        raise LearningError(
            f"{self.folder}: only runs of ppo can be resumed, got {self.config.algorithm}; start a new run"
        )

    def run(self, report: Callable[[dict[str, Any]], None] = lambda statistics: None) -> BaselinePolicy:
        """Trains to the end and calls `report` with the statistics of every update. Saves the policy at the end, and, once it has learnt, when
        interrupted and, as it was before, after a DivergedError."""
        try:
            while self.learner.steps < self.config.learner.steps:
                report({**self.learner.update(), "steps": self.learner.steps})
        except DivergedError as error:
            raise DivergedError(f"step {self.learner.steps:,}: {error}") from None
        finally:
            if self.has_learnt:
                self.policy().save(self.folder / POLICY)
        return self.policy()

    @property
    def has_learnt(self) -> bool:
        """Whether the policy no longer has its initial weights, as it has while OPD's teacher learns or HALOP warms up."""
        now = self.policy().network.state_dict()
        return not all(torch.equal(tensor, now[name]) for name, tensor in self._initial.items())

    def policy(self) -> BaselinePolicy:
        """The current policy."""
        metadata = {
            "name": self.config.name, "seed": self.config.learner.seed, "steps": self.learner.steps, **self._metadata,
        }  # fmt: skip
        return self.learner.policy(metadata)


def build_training(
    config: TrainingConfig,
    envs: Sequence[VectorEnv],
    folder: Path,
    metadata: dict[str, Any] | None = None,
    on: str = LOCAL,
) -> Training | BaselineTraining:
    """Builds a run of the selected algorithm. on: where PPO collects rollouts; see `serl.cluster`."""
    learner = parallel_learner(config, envs, on)
    if config.algorithm != "ppo":
        return BaselineTraining(config, envs, folder, metadata)
    score = validation_scorer(config.market, config.early_stopping) if config.early_stopping else None
    return Training(config, envs, folder, metadata, learner, score)
