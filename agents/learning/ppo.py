"""Proximal policy optimisation (Schulman et al. 2017, arXiv 1707.06347) with the clipped objective, in vector environments."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box
from gymnasium.vector import VectorEnv
from torch import Tensor

from serl.agents.learning.adam import Adam
from serl.agents.learning.errors import DivergedError, LearningError
from serl.agents.learning.network_config import NetworkConfig
from serl.agents.learning.networks import ActorCritic
from serl.agents.learning.parallel_rollouts import ParallelCollector
from serl.agents.learning.ppo_config import PPOConfig
from serl.agents.learning.rollout import Batch, Collector, Rollout
from serl.agents.learning.state import named, part

MakeCollector = Callable[[int, ActorCritic], ParallelCollector]


def _mean(values: Any) -> float:
    return float(values.mean()) if len(values) else math.nan


def _require_box(env: VectorEnv) -> None:
    """Raises LearningError unless the actions of an environment are numbers between bounds."""
    space = env.single_action_space
    if not isinstance(space, Box) or not space.is_bounded():
        raise LearningError(
            f"PPO: expected actions in a Box with finite bounds, got {space}; choose continuous actions in the environment's settings, or wrap it"
        )


class PPO:
    """A learner in one or more vector environments with equal observations and actions. The seed determines everything."""

    def __init__(
        self,
        envs: Sequence[VectorEnv],
        config: PPOConfig,
        network: NetworkConfig,
        make_collector: MakeCollector | None = None,
    ) -> None:
        """make_collector: makes a collector of an environment's parts, given its number, to use instead of collecting in `envs`."""
        torch.set_num_threads(config.threads)
        self.config, self.envs = config, list(envs)
        for env in envs:
            _require_box(env)
        box, space = envs[0].single_action_space, envs[0].single_observation_space
        self.network = self._build_network(network, space.shape[0], box.low, box.high)
        self.optimiser = Adam(self.network.vector, self.network.gradient, self.network.group_sizes)
        self.random = np.random.Generator(np.random.PCG64(config.seed))
        self.collectors = [
            Collector(env, self.network, config.reward_scale)
            if make_collector is None
            else make_collector(number, self.network)
            for number, env in enumerate(envs)
        ]
        if any(config.rollout_steps * collector.num_envs < 2 for collector in self.collectors):
            raise LearningError(
                "rollout_steps: expected at least 2 samples in a rollout, whose advantages are normalised, got 1 step of 1 environment; "
                "raise rollout_steps or environments"
            )
        self.steps = 0
        """Environment steps so far, over all environments."""

    def _build_network(self, config: NetworkConfig, observation_size: int, low: Any, high: Any) -> Any:
        """Actor and critic for actions between `low` and `high`."""
        return ActorCritic(config, observation_size, low, high, self.config.seed)

    def state_dict(self) -> dict[str, Tensor]:
        """See checkpoint.Learner."""
        return named("network.", self.network.state_dict()) | named("optimiser.", self.optimiser.state_dict())

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """See checkpoint.Learner."""
        self.network.load_state_dict(part("network.", state))
        self.optimiser.load_state_dict(part("optimiser.", state))

    def reset(self) -> None:
        """Starts a new episode in every environment, with seeds derived from the learner's seed and its steps so far."""
        for index, collector in enumerate(self.collectors):
            seed = np.random.SeedSequence([self.config.seed, self.steps, index]).generate_state(1)
            collector.reset(int(seed[0]))

    def update(self, weights: Sequence[float] | None = None) -> dict[str, Any]:
        """Collects a rollout from every environment whose weight is above 0 and learns from the rollouts.

        Returns statistics; `losses` and `returns` have the mean loss and episode return of each environment, NaN if it has none. Raises DivergedError,
        which names the step.
        """
        config = self.config
        weights = [1.0] * len(self.collectors) if weights is None else weights
        used = [(self.collectors[index], weight) for index, weight in enumerate(weights) if weight > 0]
        for collector, _ in used:
            collector.begin(config.rollout_steps, config.gamma, config.gae_lambda)
        try:
            rollouts = [
                collector.collect(config.rollout_steps, self.random, config.gamma, config.gae_lambda)
                for collector, _ in used
            ]
            statistics = self.learn(rollouts, [weight for _, weight in used])
        except DivergedError as error:
            raise DivergedError(f"step {self.steps:,}: {error}") from None
        self.steps += sum(config.rollout_steps * collector.num_envs for collector, _ in used)
        losses = np.full(len(weights), np.nan)
        losses[[index for index, weight in enumerate(weights) if weight > 0]] = statistics.pop("losses")
        ended = [
            collector.episode_returns if weight > 0 else np.zeros(0)
            for collector, weight in zip(self.collectors, weights, strict=True)
        ]
        returns = np.array([_mean(values) for values in ended])
        all_ended = np.concatenate(ended)
        return {
            **statistics,
            "losses": losses,
            "returns": returns,
            "return": _mean(all_ended),
            "episodes": len(all_ended),
        }

    @property
    def learning_rates(self) -> tuple[float, float]:
        """Current learning rates of actor and critic."""
        config = self.config
        factor = 1.0 if config.schedule == "constant" else max(0.0, 1 - self.steps / config.steps)
        actor = 0.0 if self.steps < config.critic_first_steps else config.actor_learning_rate
        return actor * factor, config.critic_learning_rate * factor

    def learn(self, rollouts: Sequence[Rollout], weights: Sequence[float]) -> dict[str, Any]:
        """Runs all epochs. Each gradient step minimises the weighted sum of the losses of one minibatch from every rollout. Returns the
        statistics of the last epoch."""
        samples = self.config.rollout_steps if self.network.memory is not None else 1
        count = max(1, round(rollouts[0].size * samples / self.config.minibatch))
        # with a memory, the size is in whole environments; a single sample has no deviation by which to divide its advantage
        least = math.ceil(2 / samples)
        count = min(count, *(max(1, rollout.size // least) for rollout in rollouts))
        losses: list[list[Tensor]] = [[] for _ in rollouts]
        for epoch in range(self.config.epochs):
            shuffled = [rollout.minibatches(self.random, count) for rollout in rollouts]
            for minibatches in zip(*shuffled, strict=True):
                for minibatch, weight, own_losses in zip(minibatches, weights, losses, strict=True):
                    found = self.accumulate_gradients(minibatch, weight)
                    if epoch == self.config.epochs - 1:
                        own_losses.append(found)
                self._optimiser_step()
        means = np.array([torch.stack(own_losses).mean(0).numpy() for own_losses in losses])
        names = ("policy_loss", "value_loss", "entropy", "kl")
        return {"losses": means[:, 0], **dict(zip(names, np.average(means[:, 1:], 0, weights).tolist(), strict=True))}

    def accumulate_gradients(self, batch: Batch, weight: float = 1.0) -> Tensor:
        """Adds the gradient of weight x loss to the gradients of the parameters; returns `_losses`."""
        losses = self._losses(batch)
        (weight * losses[0]).backward()
        return losses.detach()

    def _losses(self, batch: Batch) -> Tensor:
        """(total loss, policy loss, value loss, entropy, approximate KL divergence from the policy that collected the rollout). The total is

        loss = mean(-min(r A, clip(r) A) + value_weight (V - R)^2 - entropy H), where r is the probability ratio and A are the advantages
        normalised to mean 0 and deviation 1. Actor and critic share no parameters except the memory in front of them.
        """
        config, network = self.config, self.network
        features = network.encode_sequence(batch.observations, batch.initial_state, batch.episode_starts)
        outputs, values = network.outputs_and_values(features)
        deviation, mean = torch.std_mean(batch.advantages)
        advantages = (batch.advantages - mean) / (deviation + 1e-8)
        log_probs, entropies = network.distribution.log_prob_and_entropy(outputs, network.log_std, batch.latents)
        log_ratios = log_probs - batch.log_probs
        ratios = log_ratios.exp()
        clipped = ratios.clamp(1 - config.clip, 1 + config.clip)
        policy_loss = -torch.minimum(advantages * ratios, advantages * clipped).mean()
        value_loss = (values - batch.returns).square().mean()
        entropy = entropies.mean()
        total = policy_loss + config.value_weight * value_loss - config.entropy * entropy
        return torch.stack([total, policy_loss, value_loss, entropy, (ratios - 1 - log_ratios).mean()])

    def _optimiser_step(self) -> None:
        """Clips the gradient norm and takes a step of Adam."""
        norm = self.optimiser.gradient_norm()
        if not math.isfinite(norm):
            raise DivergedError(
                f"the gradient is not finite ({norm}); use smaller learning rates or a smaller reward_scale"
            )
        self.optimiser.step(self.learning_rates, scale=min(1.0, self.config.gradient_norm_max / (norm + 1e-6)))
