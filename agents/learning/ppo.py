"""Proximal policy optimisation (Schulman et al. 2017, arXiv 1707.06347), clipped, over vector environments."""

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import torch
from gymnasium.vector import VectorEnv
from torch import Tensor

from serl.agents.learning.adam import Adam
from serl.agents.learning.errors import DivergedError
from serl.agents.learning.network_config import NetworkConfig
from serl.agents.learning.networks import ActorCritic
from serl.agents.learning.ppo_config import PPOConfig
from serl.agents.learning.rollout import Batch, Collector, Rollout


class PPO:
    """A learner in one or more vector environments of the same observations and actions; all chance comes from the seed."""

    def __init__(self, envs: Sequence[VectorEnv], config: PPOConfig, network: NetworkConfig) -> None:
        torch.set_num_threads(1)
        self.config = config
        box, space = envs[0].single_action_space, envs[0].single_observation_space
        self.network = self._network(network, space.shape[0], box.low, box.high)
        self.optimiser = Adam(self.network.vector, self.network.gradient, self.network.groups)
        self._beside = ThreadPoolExecutor(1)
        self.random = np.random.Generator(np.random.PCG64(config.seed))
        self.collectors = [Collector(env, self.network, config.reward_scale) for env in envs]
        self.steps = 0
        """Environment steps so far, of all environments together."""

    def _network(self, config: NetworkConfig, size: int, low: Any, high: Any) -> Any:
        """Actor and critic for observations of this size and actions in this box."""
        return ActorCritic(config, size, low, high, self.config.seed)

    def begin(self) -> None:
        """New episodes everywhere; their seeds follow from the learner's seed and the steps so far."""
        for place, collector in enumerate(self.collectors):
            words = np.random.SeedSequence([self.config.seed, self.steps, place]).generate_state(1)
            collector.begin(int(words[0]))

    def update(self, weights: Sequence[float] | None = None) -> dict[str, Any]:
        """A rollout in every environment whose weight is above 0 and what is learnt from them: statistics, `losses` among
        them (the mean loss of each environment, NaN where none was made). DivergedError says at which step."""
        config = self.config
        weights = [1.0] * len(self.collectors) if weights is None else weights
        used = [(place, weight) for place, weight in enumerate(weights) if weight > 0]
        try:
            rollouts = [
                self.collectors[place].collect(config.rollout_steps, self.random, config.discount, config.trace)
                for place, _ in used
            ]
            statistics = self.learn(rollouts, [weight for _, weight in used])
        except DivergedError as error:
            raise DivergedError(f"step {self.steps:,}: {error}") from None
        self.steps += sum(config.rollout_steps * self.collectors[place].env.num_envs for place, _ in used)
        losses = np.full(len(weights), np.nan)
        losses[[place for place, _ in used]] = statistics.pop("losses")
        finished = np.concatenate([self.collectors[place].finished for place, _ in used])
        mean = float(finished.mean()) if len(finished) else math.nan
        return {**statistics, "losses": losses, "return": mean, "episodes": len(finished)}

    @property
    def rates(self) -> tuple[float, float]:
        """Learning rates of actor and critic now."""
        config = self.config
        left = 1.0 if config.schedule == "constant" else max(0.0, 1 - self.steps / config.steps)
        return config.actor_learning_rate * left, config.critic_learning_rate * left

    def learn(self, rollouts: Sequence[Rollout], weights: Sequence[float]) -> dict[str, Any]:
        """All epochs; a gradient step is down the weighted sum of the losses of one part of every rollout. The statistics are
        those of the last epoch."""
        samples = self.config.rollout_steps if self.network.memory is not None else 1
        parts = max(1, round(rollouts[0].size * samples / self.config.minibatch))
        measured: list[list[Tensor]] = [[] for _ in rollouts]
        for epoch in range(self.config.epochs):
            batches = [rollout.parts(self.random, parts) for rollout in rollouts]
            for together in zip(*batches, strict=True):
                for batch, weight, kept in zip(together, weights, measured, strict=True):
                    terms = self.differentiate(batch, weight)
                    if epoch == self.config.epochs - 1:
                        kept.append(self._measure(*terms))
                self._descend()
        means = np.array([torch.stack(kept).mean(0).numpy() for kept in measured])
        names = ("policy_loss", "value_loss", "entropy", "kl")
        return {"losses": means[:, 0], **dict(zip(names, np.average(means[:, 1:], 0, weights).tolist(), strict=True))}

    def differentiate(self, batch: Batch, weight: float = 1.0) -> tuple[Tensor, ...]:
        """Adds the gradient of weight x loss of a batch to that of the parameters; outputs, log ratios, gains and errors.

        loss = mean(-min(g r, g clip(r)) + value_weight (V - R)^2 - entropy H), r the ratio of probabilities, g the advantages
        brought to mean 0 and deviation 1. Actor and critic have no parameter in common but the memory before them.
        """
        network, onward = self.network, self.network.memory is not None
        features = batch.observations
        if onward:
            features = network.see_sequence(features, batch.memory, batch.starts)
        seen, share = features.detach(), weight / batch.returns.numel()
        judge = partial(self._judge, seen, batch.returns, share, onward)
        judging = self._beside.submit(judge) if self.config.threads > 1 else None
        outputs, log_ratios, gains, acted = self._act(seen, batch, share, onward)
        errors, judged = judging.result() if judging else judge()
        if onward:
            features.backward(acted + judged)
        return outputs, log_ratios, gains, errors

    @torch.no_grad()
    def _act(self, seen: Tensor, batch: Batch, share: float, onward: bool) -> tuple[Tensor, Tensor, Tensor, Any]:
        """Gradient of the actor: outputs, log ratios, gains, and the slopes in what is seen if they go onward."""
        outputs = self.network.actor(seen)
        of_outputs, of_free, log_ratios, gains = self._slopes(outputs, batch, share)
        self.network.free.grad.add_(of_free)
        return outputs, log_ratios, gains, self.network.actor.descend(of_outputs, onward)

    def _slopes(self, outputs: Tensor, batch: Batch, share: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Slopes of the actor's loss in the outputs and the free parameters; log ratios, gains."""
        clip, family, free = self.config.clip, self.network.distribution, self.network.free
        deviation, mean = torch.std_mean(batch.advantages)
        gains = (batch.advantages - mean) / (deviation + 1e-8)
        log_ratios = family.log_prob(outputs, free, batch.latents) - batch.log_probs
        ratios = log_ratios.exp()
        unclipped = torch.where(gains > 0, ratios <= 1 + clip, ratios >= 1 - clip)
        slope = gains * ratios * unclipped * -share
        of_outputs, of_free = family.slopes(outputs, free, batch.latents, slope, -share * self.config.entropy)
        return of_outputs, of_free, log_ratios, gains

    @torch.no_grad()
    def _judge(self, seen: Tensor, returns: Tensor, share: float, onward: bool) -> tuple[Tensor, Any]:
        """Gradient of the critic: errors, and the slopes in what is seen if they go onward."""
        errors = self.network.values(seen) - returns
        slope = errors * (2 * share * self.config.value_weight)
        return errors, self.network.critic.descend(slope.unsqueeze(-1), onward)

    @torch.no_grad()
    def _measure(self, outputs: Tensor, log_ratios: Tensor, gains: Tensor, errors: Tensor) -> Tensor:
        """(total, policy, value, entropy, approximate KL divergence to the policy that acted)."""
        config, ratios = self.config, log_ratios.exp()
        clipped = ratios.clamp(1 - config.clip, 1 + config.clip)
        policy = -torch.minimum(gains * ratios, gains * clipped).mean()
        value = errors.square().mean()
        entropy = self.network.distribution.entropy(outputs, self.network.free).mean()
        total = policy + config.value_weight * value - config.entropy * entropy
        return torch.stack([total, policy, value, entropy, (ratios - 1 - log_ratios).mean()])

    def _descend(self) -> None:
        norm = self.optimiser.norm()
        if not math.isfinite(norm):
            raise DivergedError("the gradient is not finite; take smaller learning rates or a smaller reward_scale")
        self.optimiser.step(self.rates, scale=min(1.0, self.config.gradient_norm_max / (norm + 1e-6)))
