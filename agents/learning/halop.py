"""HALOP-style limit-price placement with a hybrid action (after Pan et al., IJCAI 2022, arXiv 2207.11152).

Only the abstract and the introduction of the paper were read, not its network sizes and losses; nothing here reproduces its numbers.

At every decision an even slice of what is left rests at one price until the next one; what is left at the end crosses. The price is
found in two stages. A continuous actor (soft actor-critic, Haarnoja et al., arXiv 1801.01290: squashed Gaussian, twin critics, a
temperature that keeps an entropy) proposes an offset from the own touch in bps, which *scopes* the candidate ticks c - k .. c + k. A
duelling double DQN (arXiv 1511.06581, 1509.06461) picks one of these; it sees the size of a tick in bps and what is queued at each candidate.
For the critics the pick of the DQN is part of the market. Both learn from one replay memory.
"""

import math
from typing import Any

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
    Floats,
    RivalConfig,
    RivalPolicy,
    gain_on_twap,
    require_finite,
    require_mode,
    window_steps,
)
from serl.agents.learning.replay_buffer import Past
from serl.exchange.errors import ConfigError

LOG_STD_MIN, LOG_STD_MAX = -5.0, 1.0
TICK_UNIT_BPS = 5.0


class HALOPConfig(RivalConfig):
    """Settings of the algorithm."""

    candidates: int = Field(2, gt=0, description="k: the DQN picks one of 2 k + 1 ticks")
    scope_bps: float = Field(
        10.0, gt=0, description="the actor's offset goes from minus this to this, from the own touch"
    )
    hidden: int = Field(64, gt=0, description="units of each of two layers")
    learning_rate: float = Field(1e-3, gt=0)
    discount: float = Field(0.99, ge=0, le=1)
    reward_scale: float = Field(0.1, gt=0, description="what rewards, in bps, are multiplied with before learning")
    averaging: float = Field(
        0.01, gt=0, le=1, description="share of the new weights in the targets' at every gradient step"
    )
    buffer: int = Field(200_000, gt=0, description="decisions kept")
    batch: int = Field(256, gt=0)
    warm_up: int = Field(2_000, gt=0, description="decisions by chance before learning begins")
    gradient_steps: int = Field(1, gt=0, description="after every decision of all environments")
    exploring_share: float = Field(0.5, gt=0, le=1, description="of the steps, over which the DQN's chance goes down")
    exploring_min: float = Field(0.05, ge=0, le=1)
    entropy_target: float = -1.0
    gradient_norm_max: float = Field(10.0, gt=0)


def _layers(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, outputs)
    )


class Scope(nn.Module):  # type: ignore[misc]
    """Actor, twin critics and DQN. A state is an observation, what is queued at each of 2 R + 1 ticks around the own touch, and a tick in bps."""

    def __init__(self, observed: int, ticks: int, config: HALOPConfig, generator: torch.Generator) -> None:
        super().__init__()
        if config.candidates > ticks:
            raise ConfigError(
                f"HALOP: candidates of at most market.offset_ticks ({ticks}) are due, got {config.candidates}"
            )
        self.ticks, self.config = ticks, config
        state, picks, hidden = observed + 2 * ticks + 2, 2 * config.candidates + 1, config.hidden
        self.actor = _layers(state, hidden, 2)
        self.critics = nn.ModuleList(_layers(state + 1, hidden, 1) for _ in range(2))
        self.queue = _layers(state + 1 + picks, hidden, picks + 1)
        for parameter in self.parameters():
            bound = parameter.shape[-1] ** -0.5
            nn.init.uniform_(parameter, -bound, bound, generator=generator)

    def offset(self, states: Tensor, noise: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """(B,) actions in (-1, 1) and their log-probabilities; without noise the centre."""
        mean, raw = self.actor(states).unbind(-1)
        log_std = LOG_STD_MIN + (LOG_STD_MAX - LOG_STD_MIN) * torch.sigmoid(raw)
        noise = torch.zeros_like(mean) if noise is None else noise
        latent = mean + log_std.exp() * noise
        slope = 2 * (math.log(2) - latent - functional.softplus(-2 * latent))
        log_prob = -0.5 * noise.square() - log_std - 0.5 * math.log(2 * math.pi) - slope
        return torch.tanh(latent), log_prob

    def centre(self, states: Tensor, offsets: Tensor) -> Tensor:
        """(B,) whole ticks behind the own touch, such that all candidates are within R."""
        most = self.ticks - self.config.candidates
        tick_bps = states[:, -1] * TICK_UNIT_BPS
        return torch.round(offsets * self.config.scope_bps / tick_bps).clamp(-most, most).long()

    def judge(self, states: Tensor, offsets: Tensor) -> Tensor:
        """(2, B) values of the twin critics."""
        seen = torch.cat([states, offsets.unsqueeze(-1)], -1)
        return torch.stack([critic(seen).squeeze(-1) for critic in self.critics])

    def picks(self, states: Tensor, offsets: Tensor) -> Tensor:
        """(B, 2 k + 1) values of the candidates: V + A - mean A."""
        k, centre = self.config.candidates, self.centre(states, offsets)
        around = centre.unsqueeze(-1) + self.ticks + torch.arange(-k, k + 1)
        queued = states[:, -2 * self.ticks - 2 : -1].gather(1, around)
        seen = torch.cat([states, centre.unsqueeze(-1) / self.ticks, queued], -1)
        value, advantage = self.queue(seen).split([1, 2 * k + 1], -1)
        result: Tensor = value + advantage - advantage.mean(-1, keepdim=True)
        return result

    def states(self, env: ExecutionVectorEnv, observations: Any) -> Tensor:
        """(N, ..) of an environment as it is now."""
        frames, sign = env.market.frames, env.accounts.episodes["sign"]
        sells = sign[:, None] > 0
        prices = np.where(sells, frames["ask_ticks"], frames["bid_ticks"])
        lots = np.where(sells, frames["ask_lots"], frames["bid_lots"])
        wanted = prices[:, :1] + sign[:, None] * np.arange(-self.ticks, self.ticks + 1)
        queued = ((prices[:, None, :] == wanted[:, :, None]) * lots[:, None, :]).sum(-1)
        tick = 1e4 / np.nan_to_num(mids(frames), nan=1e4) / TICK_UNIT_BPS
        seen = [observations, np.log1p(queued / env.observer.scales.depth_lots), tick[:, None]]
        return torch.from_numpy(np.hstack(seen).astype(np.float32))

    def actions(self, env: ExecutionVectorEnv, states: Tensor, offsets: Tensor, picked: Tensor) -> Floats:
        """(N, 2) actions of mode `limit`: an even slice of what is left, at the candidate picked."""
        left = env.accounts.episodes["steps"] - env.accounts.parents["step"]
        place = (self.centre(states, offsets) + picked - self.config.candidates).numpy() / self.ticks
        return np.stack([1.0 / left, place], axis=1)


class HALOPPolicy(RivalPolicy):
    """The centre of the actor's distribution and the best candidate around it."""

    kind = "halop"

    @classmethod
    def of_file(cls, tensors: dict[str, Tensor], facts: dict[str, Any]) -> "HALOPPolicy":
        """See RivalPolicy."""
        config, interface = HALOPConfig(**facts["settings"]), Interface.from_json(facts["interface"])
        network = Scope(len(interface.names), int(interface.offset_ticks), config, torch.Generator())
        network.load_state_dict(tensors)
        return cls(network, config, interface, facts)

    @torch.no_grad()
    def act(self, env: ExecutionVectorEnv, observations: Any) -> Floats:
        """See RivalPolicy."""
        states = self.network.states(env, observations)
        offsets, _ = self.network.offset(states)
        return self.network.actions(env, states, offsets, self.network.picks(states, offsets).argmax(-1))


class HALOP:
    """A learner over one environment; all chance comes from the seed."""

    def __init__(self, env: VectorEnv, config: HALOPConfig) -> None:
        torch.set_num_threads(config.threads)
        self.env, self.config, self.steps = require_mode(env, "limit", "HALOP"), config, 0
        self.random = np.random.Generator(np.random.PCG64(config.seed))
        observed, ticks = env.single_observation_space.shape[0], int(self.env.offset_ticks)
        self.network, self._target = (
            Scope(observed, ticks, config, torch.Generator().manual_seed(config.seed)) for _ in range(2)
        )
        self.temperature = torch.zeros((), requires_grad=True)
        """Logarithm."""
        self.memory = Past(config.buffer, observed + 2 * ticks + 2)
        groups = [self.network.actor, self.network.critics, self.network.queue]
        self._groups = [list(group.parameters()) for group in groups] + [[self.temperature]]
        self._optimiser = torch.optim.Adam([{"params": group} for group in self._groups], lr=config.learning_rate)

    def update(self) -> dict[str, Any]:
        """N orders from beginning to end, with gradient steps after every decision."""
        env, losses = self.env, []
        episodes = env.sampler.sample(self.random, env.num_envs)
        observations, _ = env.reset(options={"episodes": episodes})
        states = self.network.states(env, observations)
        for _ in range(window_steps(episodes)):
            states = self._decide(states)
            self.steps += env.num_envs
            if self.memory.count >= self.config.warm_up:
                losses += [self._learn() for _ in range(self.config.gradient_steps)]
        names = ("critic_loss", "queue_loss", "actor_loss")
        found = dict(zip(names, np.mean(losses, 0).tolist(), strict=True)) if losses else {}
        found["temperature"] = self.temperature.detach().exp().item()
        advantages = env.accounts.results()["pa_bps"]
        return {**found, "return": float(np.nanmean(advantages)), "episodes": len(advantages)}

    @torch.no_grad()
    def _decide(self, states: Tensor) -> Tensor:
        """One decision of all orders, kept in the memory; the states after it."""
        env, config, network, random = self.env, self.config, self.network, self.random
        count, picks = env.num_envs, 2 * config.candidates + 1
        offsets, _ = network.offset(states, self._noise(count))
        chance = max(config.exploring_min, 1 - self.steps / (config.exploring_share * config.steps))
        if self.memory.count < config.warm_up:
            offsets, chance = torch.from_numpy(random.uniform(-1, 1, count).astype(np.float32)), 1.0
        by_chance = torch.from_numpy(random.random(count) < chance)
        picked = network.picks(states, offsets).argmax(-1)
        picked = torch.where(by_chance, torch.from_numpy(random.integers(picks, size=count)), picked)
        actions, before = network.actions(env, states, offsets, picked), mids(env.market.frames)
        slices = env.accounts.parents["remaining_lots"] * actions[:, 0]
        fills, last = env.decide(actions)
        rewards, observations = self._rewards(fills, slices, before), env.observe()
        require_finite("a reward or an observation", rewards, observations)
        after = network.states(env, observations)
        self.memory.add(states, offsets, picked, torch.from_numpy(rewards), after, torch.from_numpy(~last))
        return after

    def _rewards(self, fills: Any, slices: Floats, before: Floats) -> Floats:
        """What a decision gained on selling (buying) its slice at the mid, in bps of an even slice: `gain_on_twap`, but what older slices left
        over is marked to market no more, as its moves say nothing about this price."""
        episodes, after = self.env.accounts.episodes, mids(self.env.market.frames)
        left = np.maximum(slices - fills["lots"], 0)
        even = episodes["qty_lots"] / episodes["steps"]
        return self.config.reward_scale * gain_on_twap(episodes["sign"], even, fills, left, before, after)

    def _noise(self, count: int) -> Tensor:
        return torch.from_numpy(self.random.standard_normal(count, np.float32))

    def _learn(self) -> tuple[float, float, float]:
        """A gradient step of critics, DQN, actor and temperature, then the targets; the losses of the first three."""
        config, network, target = self.config, self.network, self._target
        states, offsets, picked, rewards, after, goes_on = self.memory.sample(self.random, config.batch)
        temperature = self.temperature.detach().exp()
        with torch.no_grad():
            following, log_prob = network.offset(after, self._noise(config.batch))
            soft = target.judge(after, following).min(0).values - temperature * log_prob
            best = network.picks(after, following).argmax(-1, keepdim=True)
            chosen = target.picks(after, following).gather(1, best).squeeze(1)
            wanted, wanted_pick = (rewards + config.discount * goes_on * value for value in (soft, chosen))
        critic = (network.judge(states, offsets) - wanted).square().mean(1).sum()
        values = network.picks(states, offsets).gather(1, picked.long().unsqueeze(1)).squeeze(1)
        queue = (values - wanted_pick).square().mean()
        proposed, log_prob = network.offset(states, self._noise(config.batch))
        for parameter in network.critics.parameters():
            parameter.requires_grad_(False)
        actor = (temperature * log_prob - network.judge(states, proposed).min(0).values).mean()
        heat = -(self.temperature * (log_prob.detach() + config.entropy_target)).mean()
        for parameter in network.critics.parameters():
            parameter.requires_grad_(True)
        self._optimiser.zero_grad()
        (critic + queue + actor + heat).backward()
        norms = [nn.utils.clip_grad_norm_(group, config.gradient_norm_max) for group in self._groups]
        require_finite("the gradient", [float(norm) for norm in norms])
        self._optimiser.step()
        with torch.no_grad():
            for slow, fast in zip(target.parameters(), network.parameters(), strict=True):
                slow.lerp_(fast, config.averaging)
        return float(critic.detach()), float(queue.detach()), float(actor.detach())

    def policy(self, facts: dict[str, Any]) -> HALOPPolicy:
        """As of now."""
        return HALOPPolicy(self.network, self.config, Interface.of(self.env), facts)


POLICY = HALOPPolicy
"""What reads files of this kind."""
