"""HALOP-style limit-price placement with a hybrid action (after Pan et al., IJCAI 2022, arXiv 2207.11152).

Only the abstract and the introduction of the paper were available to us, not its network sizes and losses. Nothing here reproduces its results.

At every decision an even slice of the remaining quantity rests at one price until the next decision; the remainder at the end crosses the
book. The price is chosen in two stages. A continuous actor (soft actor-critic, Haarnoja et al., arXiv 1801.01290: squashed Gaussian, twin
critics, learned temperature) proposes an offset from the same-side touch in bps, which selects the candidate ticks c - k .. c + k. A duelling
double DQN (arXiv 1511.06581, 1509.06461) picks one of the candidates; it observes the tick size in bps and the queue at each candidate. For
the critics, the choice of the DQN is part of the market. Both stages learn from one replay buffer.
"""

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from gymnasium.vector import VectorEnv
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from serl.agents.execution.environment.account import mids
from serl.agents.execution.environment.interface import Interface
from serl.agents.execution.environment.vector import ExecutionVectorEnv
from serl.agents.learning.baseline import (
    BaselineConfig,
    BaselinePolicy,
    Floats,
    decisions_per_order,
    gain_on_twap,
    require_execution_env,
    require_finite,
)
from serl.agents.learning.replay_buffer import ReplayBuffer, draw_weights, layers, require_learning
from serl.agents.learning.settings import SAVED
from serl.agents.learning.state import adam_state, load_adam_state, named, part
from serl.agents.torch_adam import Adam
from serl.exchange.errors import ConfigError

LOG_STD_MIN, LOG_STD_MAX = -5.0, 1.0
TICK_UNIT_BPS = 5.0
"""Unit of the tick size in a state, bps."""


class HALOPConfig(BaselineConfig):
    """Settings of the algorithm."""

    renamed: ClassVar[dict[str, str]] = {"discount": "gamma", "averaging": "tau"}

    candidates: int = Field(2, gt=0, description="k: the DQN picks one of 2 k + 1 ticks")
    scope_bps: float = Field(
        10.0, gt=0, description="largest offset of the actor from the same-side touch, in either direction"
    )
    hidden: int = Field(64, gt=0, description="units of each of two layers")
    learning_rate: float = Field(1e-3, gt=0)
    gamma: float = Field(0.99, ge=0, le=1, description="discount factor")
    reward_scale: float = Field(0.1, gt=0, description="factor applied to rewards, in bps, before learning")
    tau: float = Field(
        0.01,
        gt=0,
        le=1,
        description="Polyak averaging: share of the new weights in the target networks per gradient step",
    )
    buffer: int = Field(200_000, gt=0, description="transitions in the replay buffer")
    batch: int = Field(256, gt=0)
    warm_up: int = Field(2_000, gt=0, description="random decisions before learning starts")
    gradient_steps: int = Field(1, gt=0, description="after each decision of all environments")
    exploring_share: float = Field(
        0.5, gt=0, le=1, description="share of the steps over which the DQN's epsilon decays"
    )
    exploring_min: float = Field(0.05, ge=0, le=1, description="smallest epsilon")
    entropy_target: float = -1.0
    gradient_norm_max: float = Field(10.0, gt=0)


class HALOPNetwork(nn.Module):
    """Actor, twin critics and DQN. A state is an observation, the queue at each of 2 R + 1 ticks around the same-side touch, and the tick size
    in bps."""

    def __init__(self, observation_size: int, ticks: int, config: HALOPConfig, generator: torch.Generator) -> None:
        super().__init__()
        if config.candidates > ticks:
            raise ConfigError(
                f"HALOP: expected candidates of at most market.offset_ticks ({ticks}), got {config.candidates}; increase offset_ticks"
            )
        self.ticks, self.config = ticks, config
        state_size, choices, hidden = observation_size + 2 * ticks + 2, 2 * config.candidates + 1, config.hidden
        self.actor = layers(state_size, hidden, 2)
        self.critics = nn.ModuleList(layers(state_size + 1, hidden, 1) for _ in range(2))
        self.dqn = layers(state_size + 1 + choices, hidden, choices + 1)
        draw_weights(self, generator)

    def sample_offset(self, states: Tensor, noise: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """(B,) offsets in (-1, 1) and their log-probabilities; without noise the central offset."""
        mean, raw = self.actor(states).unbind(-1)
        log_std = LOG_STD_MIN + (LOG_STD_MAX - LOG_STD_MIN) * torch.sigmoid(raw)
        noise = torch.zeros_like(mean) if noise is None else noise
        latent = mean + log_std.exp() * noise
        log_derivative = 2 * (math.log(2) - latent - functional.softplus(-2 * latent))
        log_prob = -0.5 * noise.square() - log_std - 0.5 * math.log(2 * math.pi) - log_derivative
        return torch.tanh(latent), log_prob

    def centre(self, states: Tensor, offsets: Tensor) -> Tensor:
        """(B,) central candidate in whole ticks behind the same-side touch, such that all candidates are within R."""
        most = self.ticks - self.config.candidates
        tick_bps = states[:, -1] * TICK_UNIT_BPS
        return torch.round(offsets * self.config.scope_bps / tick_bps).clamp(-most, most).long()

    def q_values(self, states: Tensor, offsets: Tensor) -> Tensor:
        """(2, B) values of the twin critics."""
        inputs = torch.cat([states, offsets.unsqueeze(-1)], -1)
        return torch.stack([critic(inputs).squeeze(-1) for critic in self.critics])

    def candidate_values(self, states: Tensor, offsets: Tensor) -> Tensor:
        """(B, 2 k + 1) DQN values of the candidates: V + A - mean A."""
        k, centre = self.config.candidates, self.centre(states, offsets)
        candidates = centre.unsqueeze(-1) + self.ticks + torch.arange(-k, k + 1)
        queued = states[:, -2 * self.ticks - 2 : -1].gather(1, candidates)
        inputs = torch.cat([states, centre.unsqueeze(-1) / self.ticks, queued], -1)
        value, advantage = self.dqn(inputs).split([1, 2 * k + 1], -1)
        result: Tensor = value + advantage - advantage.mean(-1, keepdim=True)
        return result

    def states(self, env: ExecutionVectorEnv, observations: Any) -> Tensor:
        """(N, ..) current states of an environment."""
        frames, sign = env.market.frames, env.accounts.episodes["sign"]
        sells = sign[:, None] > 0
        prices = np.where(sells, frames["ask_ticks"], frames["bid_ticks"])
        lots = np.where(sells, frames["ask_lots"], frames["bid_lots"])
        ticks = prices[:, :1] + sign[:, None] * np.arange(-self.ticks, self.ticks + 1)
        queued = ((prices[:, None, :] == ticks[:, :, None]) * lots[:, None, :]).sum(-1)
        tick_size = 1e4 / np.nan_to_num(mids(frames), nan=1e4) / TICK_UNIT_BPS
        parts = [observations, np.log1p(queued / env.observer.scales.depth_lots), tick_size[:, None]]
        return torch.from_numpy(np.hstack(parts).astype(np.float32))

    def actions(self, env: ExecutionVectorEnv, states: Tensor, offsets: Tensor, candidates: Tensor) -> Floats:
        """(N, 2) actions of mode `limit`: an even slice of the remaining quantity at the chosen candidate."""
        steps_left = env.accounts.episodes["steps"] - env.accounts.parents["step"]
        offset = (self.centre(states, offsets) + candidates - self.config.candidates).numpy() / self.ticks
        return np.stack([1.0 / steps_left, offset], axis=1)


class HALOPPolicy(BaselinePolicy):
    """Chooses the actor's central offset and the best candidate around it."""

    kind = "halop"

    @classmethod
    def from_file(cls, tensors: dict[str, Tensor], metadata: dict[str, Any]) -> "HALOPPolicy":
        """See BaselinePolicy."""
        config, interface = (
            HALOPConfig.model_validate(metadata["settings"], context=SAVED),
            Interface.from_json(metadata["interface"]),
        )
        network = HALOPNetwork(len(interface.names), int(interface.offset_ticks), config, torch.Generator())
        network.load_state_dict(tensors)
        return cls(network, config, interface, metadata)

    @torch.no_grad()
    def act(self, env: ExecutionVectorEnv, observations: Any) -> Floats:
        """See BaselinePolicy."""
        states = self.network.states(env, observations)
        offsets, _ = self.network.sample_offset(states)
        return self.network.actions(env, states, offsets, self.network.candidate_values(states, offsets).argmax(-1))


class HALOP:
    """A learner over one environment. The seed determines everything."""

    def __init__(self, env: VectorEnv, config: HALOPConfig) -> None:
        require_learning("HALOP", config.steps, config.warm_up)
        torch.set_num_threads(config.threads)
        self.env, self.config, self.steps = require_execution_env(env, "limit", "HALOP"), config, 0
        self.random = np.random.Generator(np.random.PCG64(config.seed))
        observed, ticks = env.single_observation_space.shape[0], int(self.env.offset_ticks)
        self.network, self._target = (
            HALOPNetwork(observed, ticks, config, torch.Generator().manual_seed(config.seed)) for _ in range(2)
        )
        self.temperature = torch.zeros((), requires_grad=True)
        """Logarithm of the temperature."""
        state_size = observed + 2 * ticks + 2
        self.buffer = ReplayBuffer(config.buffer, state_size, 0, 0, 0, state_size, 0)
        """State, offset, candidate, reward, next state, whether the order continues."""
        groups = [self.network.actor, self.network.critics, self.network.dqn]
        self._groups = [list(group.parameters()) for group in groups] + [[self.temperature]]
        self._optimiser = Adam([{"params": group} for group in self._groups], lr=config.learning_rate)

    def state_dict(self) -> dict[str, Tensor]:
        """See checkpoint.Learner."""
        networks = named("network.", self.network.state_dict()) | named("target.", self._target.state_dict())
        learnt = named("optimiser.", adam_state(self._optimiser)) | {"temperature": self.temperature.detach()}
        return networks | learnt | named("buffer.", self.buffer.state_dict())

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """See checkpoint.Learner."""
        self.network.load_state_dict(part("network.", state))
        self._target.load_state_dict(part("target.", state))
        load_adam_state(self._optimiser, part("optimiser.", state))
        with torch.no_grad():
            self.temperature.copy_(state["temperature"])
        self.buffer.load_state_dict(part("buffer.", state))

    def update(self) -> dict[str, Any]:
        """Works N orders from start to end, with gradient steps after every decision."""
        env, losses = self.env, []
        episodes = env.sampler.sample(self.random, env.num_envs)
        observations, _ = env.reset(options={"episodes": episodes})
        states = self.network.states(env, observations)
        for _ in range(decisions_per_order(episodes)):
            states = self._step(states)
            self.steps += env.num_envs
            if self.buffer.count >= self.config.warm_up:
                losses += [self._gradient_step() for _ in range(self.config.gradient_steps)]
        names = ("critic_loss", "dqn_loss", "actor_loss")
        statistics = dict(zip(names, np.mean(losses, 0).tolist(), strict=True)) if losses else {}
        statistics["temperature"] = self.temperature.detach().exp().item()
        advantages = env.accounts.results()["pa_bps"]
        return {**statistics, "return": float(np.nanmean(advantages)), "episodes": len(advantages)}

    @torch.no_grad()
    def _step(self, states: Tensor) -> Tensor:
        """Makes one decision of all orders and adds it to the replay buffer; returns the next states."""
        env, config, network, random = self.env, self.config, self.network, self.random
        count, choices = env.num_envs, 2 * config.candidates + 1
        offsets, _ = network.sample_offset(states, self._noise(count))
        epsilon = max(config.exploring_min, 1 - self.steps / (config.exploring_share * config.steps))
        if self.buffer.count < config.warm_up:
            offsets, epsilon = torch.from_numpy(random.uniform(-1, 1, count).astype(np.float32)), 1.0
        explore = torch.from_numpy(random.random(count) < epsilon)
        candidates = network.candidate_values(states, offsets).argmax(-1)
        candidates = torch.where(explore, torch.from_numpy(random.integers(choices, size=count)), candidates)
        actions, before = network.actions(env, states, offsets, candidates), mids(env.market.frames)
        slices = env.accounts.parents["remaining_lots"] * actions[:, 0]
        fills, last = env.step_without_reset(actions)
        rewards, observations = self._rewards(fills, slices, before), env.observe()
        require_finite("a reward or an observation", rewards, observations)
        next_states = network.states(env, observations)
        self.buffer.add(states, offsets, candidates, torch.from_numpy(rewards), next_states, torch.from_numpy(~last))
        return next_states

    def _rewards(self, fills: Any, slices: Floats, before: Floats) -> Floats:
        """The gain of each decision over selling (buying) its slice at the mid, in bps of an even slice. Like `gain_on_twap`, but without marking
        to market what older slices left over, because moves on it are independent of the price chosen now."""
        episodes, after = self.env.accounts.episodes, mids(self.env.market.frames)
        unfilled = np.maximum(slices - fills["lots"], 0)
        even = episodes["qty_lots"] / episodes["steps"]
        return self.config.reward_scale * gain_on_twap(episodes["sign"], even, fills, unfilled, before, after)

    def _noise(self, count: int) -> Tensor:
        return torch.from_numpy(self.random.standard_normal(count, np.float32))

    def _gradient_step(self) -> tuple[float, float, float]:
        """Takes one gradient step of critics, DQN, actor and temperature, then updates the target networks; returns the losses of the first three."""
        config, network, target = self.config, self.network, self._target
        states, offsets, candidates, rewards, next_states, not_done = self.buffer.sample(self.random, config.batch)
        temperature = self.temperature.detach().exp()
        with torch.no_grad():
            next_offsets, next_log_prob = network.sample_offset(next_states, self._noise(config.batch))
            soft_value = target.q_values(next_states, next_offsets).min(0).values - temperature * next_log_prob
            best = network.candidate_values(next_states, next_offsets).argmax(-1, keepdim=True)
            double_value = target.candidate_values(next_states, next_offsets).gather(1, best).squeeze(1)
            critic_target, dqn_target = (
                rewards + config.gamma * not_done * value for value in (soft_value, double_value)
            )
        critic_loss = (network.q_values(states, offsets) - critic_target).square().mean(1).sum()
        values = network.candidate_values(states, offsets).gather(1, candidates.long().unsqueeze(1)).squeeze(1)
        dqn_loss = (values - dqn_target).square().mean()
        proposed, log_prob = network.sample_offset(states, self._noise(config.batch))
        for parameter in network.critics.parameters():
            parameter.requires_grad_(False)
        actor_loss = (temperature * log_prob - network.q_values(states, proposed).min(0).values).mean()
        temperature_loss = -(self.temperature * (log_prob.detach() + config.entropy_target)).mean()
        for parameter in network.critics.parameters():
            parameter.requires_grad_(True)
        self._optimiser.zero_grad()
        (critic_loss + dqn_loss + actor_loss + temperature_loss).backward()
        norms = [nn.utils.clip_grad_norm_(group, config.gradient_norm_max) for group in self._groups]
        require_finite("the gradient", [float(norm) for norm in norms])
        self._optimiser.step()
        with torch.no_grad():
            for slow, fast in zip(target.parameters(), network.parameters(), strict=True):
                slow.lerp_(fast, config.tau)
        return float(critic_loss.detach()), float(dqn_loss.detach()), float(actor_loss.detach())

    def policy(self, metadata: dict[str, Any]) -> HALOPPolicy:
        """The current policy."""
        return HALOPPolicy(self.network, self.config, Interface.from_env(self.env), metadata)


POLICY = HALOPPolicy
"""Reads policy files of this kind."""
