"""A PPO learner that collects rollouts in parts (`ppo.rollout_parts`), on this machine or on a Ray cluster."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from gymnasium.vector import VectorEnv

from serl.agents.execution.environment.observation import Scales
from serl.agents.learning.environments import Scenario
from serl.agents.learning.market_config import MarketConfig
from serl.agents.learning.networks import ActorCritic
from serl.agents.learning.parallel_rollouts import ParallelCollector, Worker, check_cpus, make_parts
from serl.agents.learning.ppo import PPO
from serl.agents.learning.training import TrainingConfig, markets
from serl.cluster import LOCAL
from serl.exchange.errors import ConfigError


def parallel_learner(config: TrainingConfig, envs: Sequence[VectorEnv], on: str = LOCAL) -> PPO | None:
    """The learner, or None if the settings have only one part. envs: environments of the settings, whose observations and units the parts share.

    Raises ConfigError for settings that cannot be cut into parts, and ClusterError for a cluster with too few CPUs.
    """
    parts = config.ppo.rollout_parts
    if on != LOCAL and (parts == 1 or config.algorithm != "ppo"):
        got = f"{parts} part" if config.algorithm == "ppo" else f"algorithm {config.algorithm}"
        raise ConfigError(f"--on {on}: expected ppo in two or more parts, got {got}; set --parts, or leave --on out")
    if parts == 1:
        return None
    if config.algorithm != "ppo":
        raise ConfigError(f"ppo.rollout_parts: expected 1 for algorithm {config.algorithm}, got {parts}; leave it out")
    of_parts = [_part_of(market, parts) for market in markets(config)]
    if on != LOCAL:
        check_cpus(parts * len(of_parts), on)
    scales: list[Scales] = [env.unwrapped.observer.scales for env in envs]
    space, box = envs[0].single_observation_space, envs[0].single_action_space
    network = partial(ActorCritic, config.network, space.shape[0], box.low, box.high, config.ppo.seed)

    def make_collector(number: int, learnt: ActorCritic) -> ParallelCollector:
        build = partial(_build, of_parts[number], scales[number])
        make = partial(Worker, build, network, config.ppo.reward_scale, config.ppo.threads)
        return ParallelCollector(make_parts([make] * parts, on), learnt, envs[number].num_envs)

    return PPO(envs, config.ppo, config.network, make_collector)


def _part_of(market: MarketConfig, parts: int) -> MarketConfig:
    """One part of a market's environments, for other processes and machines."""
    if market.environments % parts:
        raise ConfigError(
            f"market.environments: expected a multiple of the {parts} parts, got {market.environments}; change one of them"
        )
    return market.absolute().model_copy(update={"environments": market.environments // parts})


def _build(market: MarketConfig, scales: Scales) -> Any:
    return Scenario(market).env(scales)
