"""A training run: its settings, folder and checkpoints, and the policy that it trains.

The folder holds `config.yaml`, `checkpoint.safetensors` (see checkpoint.py), `policy.safetensors` and the TensorBoard logs.
"""

from collections.abc import Callable, Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import yaml
from gymnasium.vector import VectorEnv
from pydantic import Field, ValidationError

from serl.agents.execution.environment.interface import Interface
from serl.agents.learning import checkpoint
from serl.agents.learning.adversary import AdversaryConfig, AdversaryWeights
from serl.agents.learning.baseline import BaselineConfig
from serl.agents.learning.early_stopping import EarlyStopping, StoppingConfig
from serl.agents.learning.environments import Scenario
from serl.agents.learning.errors import DivergedError, PolicyFileError
from serl.agents.learning.halop import HALOPConfig
from serl.agents.learning.hybrid import HybridConfig, MarketWeights
from serl.agents.learning.macmic import MacMicConfig
from serl.agents.learning.market_config import MarketConfig, with_overrides
from serl.agents.learning.network_config import NetworkConfig
from serl.agents.learning.opd import OPDConfig
from serl.agents.learning.policy import Policy, load_policy
from serl.agents.learning.ppo import PPO
from serl.agents.learning.ppo_config import PPOConfig
from serl.agents.learning.settings import SAVED, LearningSettings
from serl.exchange.errors import ConfigError
from serl.exchange.invalid import FileName, describe_invalid
from serl.exchange.yaml_text import parse_yaml

CONFIG, CHECKPOINT, POLICY = "config.yaml", "checkpoint.safetensors", "policy.safetensors"


class TrainingConfig(LearningSettings):
    """All settings of `serl train`."""

    name: FileName = "ppo"
    algorithm: Literal["ppo", "opd", "halop", "macmic"] = "ppo"
    market: MarketConfig = MarketConfig()
    dynamic: MarketConfig | None = Field(
        None, description="a second market for hybrid training; `market` is then the static one"
    )
    hybrid: HybridConfig = HybridConfig()
    adversary: AdversaryConfig | None = Field(
        None, description="ppo in a dynamic market: an adversary weighs variants of its population"
    )
    ppo: PPOConfig = PPOConfig()
    opd: OPDConfig = OPDConfig()
    halop: HALOPConfig = HALOPConfig()
    macmic: MacMicConfig = MacMicConfig()
    network: NetworkConfig = NetworkConfig()
    checkpoint_updates: int = Field(20, gt=0, description="updates between checkpoints")
    early_stopping: StoppingConfig | None = Field(
        None, description="ppo: the stopping time is chosen on validation orders"
    )
    start_from: Path | None = Field(
        None, description="ppo: a policy file, or the folder of a run, whose weights are the first ones"
    )

    @property
    def learner(self) -> PPOConfig | BaselineConfig:
        """Settings of the selected algorithm."""
        settings: PPOConfig | BaselineConfig = getattr(self, self.algorithm)
        return settings


def load_config(source: Path) -> TrainingConfig:
    """Loads settings from a YAML file, or those shipped with serl under a name. Raises ConfigError for an invalid setting."""
    shipped = files("serl.configs").joinpath("training")
    named = shipped.joinpath(f"{source}.yaml")
    if not source.exists() and not named.is_file():
        names = sorted(item.name.removesuffix(".yaml") for item in shipped.iterdir() if item.name.endswith(".yaml"))
        raise ConfigError(f"{source}: expected a YAML file or one of {', '.join(names)}, got neither; check the name")
    config = _parse(source, lambda: source.read_bytes() if source.exists() else named.read_bytes())
    if config.early_stopping and config.algorithm != "ppo":
        raise ConfigError(f"{source}: early_stopping: expected algorithm ppo, got {config.algorithm}; leave it out")
    return config


def load_saved_config(folder: Path) -> TrainingConfig:
    """Loads the settings of a run's folder, also if an older version of serl wrote them. Raises ConfigError if they cannot be read."""
    path = folder / CONFIG
    return _parse(path, path.read_bytes, context=SAVED)


def _parse(source: Path, read: Callable[[], bytes], context: Any = None) -> TrainingConfig:
    try:
        return TrainingConfig.model_validate(parse_yaml(read()) or {}, context=context)
    except OSError as error:
        got = "no such file" if isinstance(error, FileNotFoundError) else error.strerror
        raise ConfigError(
            f"{source}: expected a YAML file with settings of training, got {got}; check the path"
        ) from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{source}: expected a YAML file with settings of training, got {error}") from None
    except ValidationError as error:
        raise ConfigError(f"{source}: {describe_invalid(error, TrainingConfig, most=1)}") from None


def save_config(config: TrainingConfig, folder: Path) -> None:
    """Writes the settings to a run's folder."""
    text = yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False)
    (folder / CONFIG).write_text(text)


def environments(config: TrainingConfig) -> tuple[list[VectorEnv], dict[str, Any]]:
    """The environments of the settings, and metadata about their data."""
    scenarios = [Scenario(market) for market in markets(config)]
    return list(Scenario.build_envs(scenarios)), {"data": [scenario.describe() for scenario in scenarios]}


def markets(config: TrainingConfig) -> list[MarketConfig]:
    """The market of each environment of the settings."""
    return _variants(config) if config.adversary else [config.market, *([config.dynamic] if config.dynamic else [])]


def _variants(config: TrainingConfig) -> list[MarketConfig]:
    """The markets among which the adversary chooses, with the environments divided among them. Raises ConfigError if that is not possible."""
    assert config.adversary is not None
    market, count = config.market, len(config.adversary.variants)
    if config.algorithm != "ppo" or config.dynamic or market.kind != "dynamic":
        raise ConfigError(
            f"adversary: expected ppo in one dynamic market, got {config.algorithm} in a {market.kind} one"
            f"{' and a second' if config.dynamic else ''}; leave `adversary` out"
        )
    if market.environments % count:
        raise ConfigError(
            f"market.environments: expected a multiple of the {count} variants of the adversary, got {market.environments}"
        )
    shared = {"environments": market.environments // count}
    return [
        with_overrides(market, shared | {"population_changes": market.population_changes | changes})
        for changes in config.adversary.variants.values()
    ]


def learnt_policy(
    env: VectorEnv, config: PPOConfig, network: NetworkConfig, name: str = "learnt", start: Policy | None = None
) -> Policy:
    """Trains a policy with PPO in any environment with a `Box` of actions, without a folder. start: a policy whose weights to start from."""
    learner = PPO([env], config, network)
    if start is not None:
        learner.network.load_state_dict(start.network.state_dict())
    learner.reset()
    while learner.steps < config.steps:
        learner.update()
    return Policy(learner.network, Interface.from_env(env), {"seed": config.seed, "steps": learner.steps}, name)


def fingerprints(metadata: dict[str, Any], interface: Interface) -> list[str]:
    """Fingerprints of a run's data, and its forecaster, because files may change while a run is interrupted."""
    return [*(str(one.get("fingerprint")) for one in metadata.get("data", [])), interface.forecaster]


def require_same_data(saved: dict[str, Any], data: list[str], path: Path) -> None:
    """Raises PolicyFileError unless the training state of a checkpoint has these fingerprints; older checkpoints have none."""
    if saved.get("data", data) != data:
        raise PolicyFileError(
            f"{path}: expected the data that the run began with, {saved['data']}, got {data}; restore the files of its settings, or start a new run"
        )


class Training:
    """A PPO run in a folder, in one environment, two (static, dynamic), or the variants of an adversary."""

    def __init__(
        self, config: TrainingConfig, envs: Sequence[VectorEnv], folder: Path, metadata: dict[str, Any] | None = None,
        learner: PPO | None = None, score: Callable[[Policy], float] | None = None,
    ) -> None:  # fmt: skip
        """score: the score for early stopping; see `validation_scorer`."""
        for env in envs[1:]:
            Interface.from_env(envs[0]).require(Interface.from_env(env), "the second environment")
        self.config, self.folder = config, folder
        if learner is None and config.ppo.rollout_parts > 1:
            raise ConfigError(
                f"ppo.rollout_parts: expected 1 except for `serl train`, got {config.ppo.rollout_parts}; leave it out"
            )
        self.learner = learner or PPO(envs, config.ppo, config.network)
        self.weights: AdversaryWeights | MarketWeights | None = None
        if config.adversary:
            self.weights = AdversaryWeights(config.adversary)
        elif len(envs) == 2:
            self.weights = MarketWeights(config.hybrid)
        self.updates = 0
        self._interface, self._metadata = Interface.from_env(envs[0]), metadata or {}
        self._learnt_before: list[dict[str, Any]] = []
        """Training data of the policy whose weights the run started from, and of the policies before it."""
        self.stopping: EarlyStopping | None = None
        if config.early_stopping:
            if score is None:
                raise ConfigError("early_stopping: expected a score of policies, got none; leave early_stopping out")
            self.stopping = EarlyStopping(config.early_stopping, lambda: score(self.policy()))

    def start_from(self, path: Path) -> None:
        """Starts from the weights of a policy file or a run's folder. Raises LayoutMismatchError if the policy has other observations or actions, and
        PolicyFileError if it has another network."""
        policy, network = load_policy(path / POLICY if path.is_dir() else path), self.learner.network
        if not isinstance(policy, Policy):
            raise PolicyFileError(
                f"{path}: expected a trained network to start from, got {policy.name}, which has none"
            )
        if type(policy) is not Policy or policy.team is not None:  # such weights have another meaning
            what = "corrects a rule" if policy.team is None else "observes the messages of a team"
            raise PolicyFileError(
                f"{path}: expected a network that decides alone to start from, got {policy.name}, which {what}; give another policy"
            )
        policy.interface.require(self._interface, "the settings")
        if policy.network.to_json() != network.to_json():
            raise PolicyFileError(
                f"{path}: expected the network of the settings, {network.to_json()}, got {policy.network.to_json()}; change `network`"
            )
        network.load_state_dict(policy.network.state_dict())
        self._learnt_before = policy.metadata.get("data", [])

    def resume(self) -> None:
        """Restores the folder's checkpoint. Raises PolicyFileError if there is none that fits these settings and data."""
        path = self.folder / CHECKPOINT
        saved, best = checkpoint.restore(self.learner, path)
        require_same_data(saved, self._data, path)
        self._learnt_before = saved.get("learnt_before", [])
        self.updates = saved["updates"]
        if self.weights:
            self.weights.values[:] = saved["weights"]
        if self.stopping:
            self.stopping.restore(saved["stopping"], best)

    def run(self, report: Callable[[dict[str, Any]], None] = lambda statistics: None) -> Policy:
        """Trains to the end and calls `report` with the statistics of every update. Saves the policy at the end and when interrupted; with early
        stopping, the best one. A DivergedError leaves the last finite weights in `diverged.safetensors`."""
        try:
            for statistics in self.train_until(self.config.ppo.steps):
                report(statistics)
        except DivergedError as error:
            path = self.folder / "diverged.safetensors"
            self._write_checkpoint(path)
            raise DivergedError(f"{error}; the last finite weights are in {path}") from None
        finally:
            policy = self._best_policy()
            policy.save(self.folder / POLICY)
        return policy

    def train_until(self, steps: int) -> Iterator[dict[str, Any]]:
        """Trains until `steps` environment steps are done or early stopping ends training, then writes a checkpoint. Yields the statistics of every
        update."""
        learner, total, started = self.learner, self.config.ppo.steps, False
        while learner.steps < steps:
            if not started or self.updates % self.config.checkpoint_updates == 0:
                self._save_checkpoint()
                if self.stopping and self.stopping.finished:
                    return
                learner.reset()
                started = True
            weights = self.weights.at(learner.steps / total) if self.weights else [1.0]
            statistics = learner.update(weights)
            self.updates += 1
            if self.weights:
                self.weights.update(statistics)
                names = (
                    [f"{name}_weight" for name in self.config.adversary.variants]
                    if self.config.adversary
                    else ["static_weight"]
                )
                statistics |= dict(zip(names, weights, strict=False))
            if self.stopping:
                statistics["validation_bps"] = self.stopping.last_bps
            yield {**statistics, "steps": learner.steps}
        self._save_checkpoint()

    def _save_checkpoint(self) -> None:
        """With early stopping, also scores the policy. This takes a while, so the checkpoint is written before it too. A policy that does not learn
        yet is scored only at the start: otherwise it would use up the patience."""
        self._write_checkpoint(self.folder / CHECKPOINT)
        if self.stopping and not 0 < self.learner.steps <= self.config.ppo.critic_first_steps:
            self.stopping.at_checkpoint(self.learner.steps, self.learner.network.state_dict())
            self._write_checkpoint(self.folder / CHECKPOINT)

    def _write_checkpoint(self, path: Path) -> None:
        training: dict[str, Any] = {
            "updates": self.updates,
            "weights": list(self.weights.values) if self.weights else [],
            "data": self._data,
            "learnt_before": self._learnt_before,
        }
        best: dict[str, Any] = {}
        if self.stopping:
            training["stopping"], best = self.stopping.state, self.stopping.weights
        checkpoint.save(self.learner, training, path, best)

    @property
    def _data(self) -> list[str]:
        return fingerprints(self._metadata, self._interface)

    def _best_policy(self) -> Policy:
        """The best policy of early stopping, whose weights replace the learner's; without early stopping, the current one."""
        if self.stopping is None or not self.stopping.weights:
            return self.policy()
        self.learner.network.load_state_dict(self.stopping.weights)
        return self.policy(self.stopping.best_steps)

    def policy(self, steps: int | None = None) -> Policy:
        """The current policy. steps: the number of steps after which the learner had it; by default the steps so far."""
        metadata = {
            "name": self.config.name, "seed": self.config.ppo.seed, "steps": self.learner.steps if steps is None else steps,
            **({"started_from": str(self.config.start_from)} if self.config.start_from else {}), **self._metadata,
        }  # fmt: skip
        if self._learnt_before:  # the weights have also seen these data
            metadata["data"] = [*self._metadata.get("data", []), *self._learnt_before]
        return Policy(self.learner.network, self._interface, metadata)
