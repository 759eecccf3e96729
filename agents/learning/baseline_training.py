"""A training run of a baseline in a folder."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from gymnasium.vector import VectorEnv

from serl.agents.execution.environment.interface import Interface
from serl.agents.learning import checkpoint
from serl.agents.learning.baseline import Baseline, BaselinePolicy
from serl.agents.learning.early_stopping import validation_scorer
from serl.agents.learning.errors import DivergedError, LearningError
from serl.agents.learning.halop import HALOP
from serl.agents.learning.macmic import MacMic
from serl.agents.learning.opd import OPD
from serl.agents.learning.parallel_training import parallel_learner
from serl.agents.learning.training import (
    CHECKPOINT,
    POLICY,
    Training,
    TrainingConfig,
    fingerprints,
    require_same_data,
)
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
        self.updates = 0
        self._data = fingerprints(self._metadata, Interface.from_env(envs[0]))
        self._initial = {name: tensor.clone() for name, tensor in self.policy().network.state_dict().items()}

    def start_from(self, path: Path) -> None:
        """Raises LearningError, because only PPO can start from a policy."""
        raise LearningError(f"start_from: expected algorithm ppo, got {self.config.algorithm}; leave {path} out")

    def resume(self) -> None:
        """Restores the folder's checkpoint. Raises PolicyFileError if there is none that fits these settings and data."""
        path = self.folder / CHECKPOINT
        saved, _ = checkpoint.restore(self.learner, path)
        require_same_data(saved, self._data, path)
        self.updates = saved["updates"]

    def run(self, report: Callable[[dict[str, Any]], None] = lambda statistics: None) -> BaselinePolicy:
        """Trains to the end and calls `report` with the statistics of every update. Saves the policy at the end, and, once it has learnt, when
        interrupted and, as it was before, after a DivergedError."""
        try:
            while self.learner.steps < self.config.learner.steps:
                if self.updates % self.config.checkpoint_updates == 0:
                    self._save_checkpoint()
                statistics = self.learner.update()
                self.updates += 1
                report({**statistics, "steps": self.learner.steps})
            self._save_checkpoint()
        except DivergedError as error:
            raise DivergedError(f"step {self.learner.steps:,}: {error}") from None
        finally:
            if self.has_learnt:
                self.policy().save(self.folder / POLICY)
        return self.policy()

    def _save_checkpoint(self) -> None:
        training = {"updates": self.updates, "data": self._data}
        checkpoint.save(self.learner, training, self.folder / CHECKPOINT)

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
