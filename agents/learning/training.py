"""A training run: settings, its folder, checkpoints, the policy that comes out of it.

A folder holds `config.yaml`, `checkpoint.safetensors` (see checkpoint.py), `policy.safetensors` and the logs for TensorBoard.
"""

from collections.abc import Callable, Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import yaml
from gymnasium.vector import VectorEnv
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from serl.agents.execution.environment.interface import Interface
from serl.agents.learning import checkpoint
from serl.agents.learning.baseline import RivalConfig
from serl.agents.learning.environments import Scenario
from serl.agents.learning.errors import DivergedError
from serl.agents.learning.halop import HALOPConfig
from serl.agents.learning.hybrid import HybridConfig, Weights
from serl.agents.learning.macmic import MacMicConfig
from serl.agents.learning.market_config import MarketConfig, first_of
from serl.agents.learning.network_config import NetworkConfig
from serl.agents.learning.opd import OPDConfig
from serl.agents.learning.policy import Policy
from serl.agents.learning.ppo import PPO
from serl.agents.learning.ppo_config import PPOConfig
from serl.exchange.errors import ConfigError

CONFIG, CHECKPOINT, POLICY = "config.yaml", "checkpoint.safetensors", "policy.safetensors"


class TrainingConfig(BaseModel):
    """Everything `serl train` needs to know."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field("ppo", pattern=r"^[A-Za-z0-9._-]{1,64}$")
    algorithm: Literal["ppo", "opd", "halop", "macmic"] = "ppo"
    market: MarketConfig = MarketConfig()
    dynamic: MarketConfig | None = Field(
        None, description="a second market for hybrid training; `market` is the static one"
    )
    hybrid: HybridConfig = HybridConfig()
    ppo: PPOConfig = PPOConfig()
    opd: OPDConfig = OPDConfig()
    halop: HALOPConfig = HALOPConfig()
    macmic: MacMicConfig = MacMicConfig()
    network: NetworkConfig = NetworkConfig()
    checkpoint_updates: int = Field(20, gt=0, description="updates between checkpoints")

    @property
    def learner(self) -> PPOConfig | RivalConfig:
        """Settings of the algorithm that is used."""
        settings: PPOConfig | RivalConfig = getattr(self, self.algorithm)
        return settings


def load_config(source: Path) -> TrainingConfig:
    """Settings of a YAML file, or those that come with serl under a name; ConfigError says which is wrong."""
    shipped = files("serl.configs").joinpath("training")
    named = shipped.joinpath(f"{source}.yaml")
    try:
        if not source.exists() and not named.is_file():
            names = sorted(item.name.removesuffix(".yaml") for item in shipped.iterdir() if item.name.endswith(".yaml"))
            raise ConfigError(f"{source}: neither a file nor one of {', '.join(names)}")
        text = source.read_text() if source.exists() else named.read_text()
        return TrainingConfig(**(yaml.safe_load(text) or {}))
    except (OSError, yaml.YAMLError, TypeError) as error:
        raise ConfigError(f"{source}: cannot be read as settings of training ({error})") from None
    except ValidationError as error:
        raise ConfigError(f"{source}: {first_of(error)}") from None


def save_config(config: TrainingConfig, folder: Path) -> None:
    """Writes the settings into the folder of a run."""
    text = yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False)
    (folder / CONFIG).write_text(text)


def environments(config: TrainingConfig) -> tuple[list[VectorEnv], dict[str, Any]]:
    """The environments of settings, and the facts about their data."""
    markets = [config.market, *([config.dynamic] if config.dynamic else [])]
    scenarios = [Scenario(market) for market in markets]
    return list(Scenario.same_scales(scenarios)), {"data": [scenario.describe() for scenario in scenarios]}


class Training:
    """A run in a folder, over one environment or two (static, dynamic)."""

    def __init__(
        self, config: TrainingConfig, envs: Sequence[VectorEnv], folder: Path, facts: dict[str, Any] | None = None,
        learner: PPO | None = None,
    ) -> None:  # fmt: skip
        for env in envs[1:]:
            Interface.of(envs[0]).require(Interface.of(env), "the second environment")
        self.config, self.folder = config, folder
        self.learner = learner or PPO(envs, config.ppo, config.network)
        self.weights = Weights(config.hybrid) if len(envs) == 2 else None
        self.updates = 0
        self._interface, self._facts = Interface.of(envs[0]), facts or {}

    def resume(self) -> None:
        """Goes back to the folder's checkpoint; PolicyFileError if there is none of these settings."""
        kept = checkpoint.restore(self.learner, self.folder / CHECKPOINT)
        self.updates = kept["updates"]
        if self.weights:
            self.weights.now[:] = kept["weights"]

    def run(self, report: Callable[[dict[str, Any]], None] = lambda statistics: None) -> Policy:
        """Trains to the end; `report` is told the statistics of every update. DivergedError leaves `diverged.safetensors`, the
        last finite weights, in the folder. The policy is saved at each checkpoint, on an interruption and at the end."""
        try:
            for statistics in self.updates_to(self.config.ppo.steps):
                report(statistics)
        except DivergedError as error:
            path = self.folder / "diverged.safetensors"
            self._checkpoint(path)
            raise DivergedError(f"{error}; the weights before it are in {path}") from None
        finally:
            self.policy().save(self.folder / POLICY)
        return self.policy()

    def updates_to(self, steps: int) -> Iterator[dict[str, Any]]:
        """Learns until so many steps are done: statistics of every update. Then there is a checkpoint."""
        learner, total, begun = self.learner, self.config.ppo.steps, False
        while learner.steps < steps:
            if not begun or self.updates % self.config.checkpoint_updates == 0:
                self._checkpoint(self.folder / CHECKPOINT)
                learner.begin()
                begun = True
            weights = self.weights.at(learner.steps / total) if self.weights else [1.0]
            statistics = learner.update(weights)
            self.updates += 1
            if self.weights:
                self.weights.learn(statistics["losses"])
                statistics["static_weight"] = weights[0]
            yield {**statistics, "steps": learner.steps}
        self._checkpoint(self.folder / CHECKPOINT)

    def _checkpoint(self, path: Path) -> None:
        facts = {"updates": self.updates, "weights": list(self.weights.now) if self.weights else []}
        checkpoint.save(self.learner, facts, path)

    def policy(self) -> Policy:
        """As of now."""
        facts = {
            "name": self.config.name, "seed": self.config.ppo.seed, "steps": self.learner.steps, **self._facts,
        }  # fmt: skip
        return Policy(self.learner.network, self._interface, facts)
