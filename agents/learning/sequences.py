"""Categorical policies that remember their episode, and clipped updates of them with an adaptive KL penalty."""

import dataclasses
import math

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from serl.agents.learning.baseline import RivalConfig
from serl.agents.learning.errors import DivergedError


class ClippedConfig(RivalConfig):
    """Settings of clipped updates; clip, entropy and KL as in OPD's."""

    units: int = Field(64, gt=0, description="of the GRU and of the layer after it")
    learning_rate: float = Field(1e-3, gt=0)
    epochs: int = Field(4, gt=0)
    minibatches: int = Field(2, gt=0, description="parts of the N orders, a gradient step each")
    clip: float = Field(0.3, gt=0)
    entropy: float = Field(0.01, ge=0)
    value_weight: float = Field(0.5, ge=0)
    kl_weight: float = Field(0.2, ge=0, description="at the beginning")
    kl_target: float = Field(0.01, gt=0)
    gradient_norm_max: float = Field(0.5, gt=0)


class Recurrent(nn.Module):  # type: ignore[misc]
    """A GRU over the steps of an order; a layer that sees it and the inputs of now; log-probabilities of actions and a value."""

    def __init__(self, inputs: int, actions: int, units: int, generator: torch.Generator) -> None:
        super().__init__()
        self.units = units
        self.memory = nn.GRU(inputs, units)
        self.hidden = nn.Linear(units + inputs, units)
        self.policy, self.value = nn.Linear(units, actions), nn.Linear(units, 1)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -(units**-0.5), units**-0.5, generator=generator)
        with torch.no_grad():
            self.policy.weight.mul_(0.01)
            self.policy.bias.zero_()

    def nothing(self, count: int) -> Tensor:
        """(1, count, units) what an order begins with."""
        return torch.zeros(1, count, self.units)

    def forward(self, inputs: Tensor, memory: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(T, B, size) inputs to (T, B, actions) log-probabilities, (T, B) values, the memory after them."""
        remembered, after = self.memory(inputs, memory)
        hidden = torch.tanh(self.hidden(torch.cat([remembered, inputs], -1)))
        return functional.log_softmax(self.policy(hidden), -1), self.value(hidden).squeeze(-1), after

    @torch.no_grad()
    def step(self, inputs: Tensor, memory: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """`forward` of one step: (B, size) to (B, actions), (B,) and the memory after it."""
        log_probs, values, after = self(inputs.unsqueeze(0), memory)
        return log_probs[0], values[0], after


def sample(log_probs: Tensor, random: np.random.Generator) -> Tensor:
    """(B,) actions: the largest of log p plus Gumbel noise is distributed like p."""
    noise = -np.log(-np.log(random.uniform(1e-7, 1 - 1e-7, tuple(log_probs.shape))))
    return (log_probs + torch.from_numpy(noise)).argmax(-1)


def rewards_to_go(rewards: Tensor, segment: int) -> Tensor:
    """(T, B) sums of (T, B) rewards from each step to the end of its segment; T is a multiple of `segment`."""
    parts = rewards.reshape(-1, segment, rewards.shape[1])
    return parts.flip(1).cumsum(1).flip(1).reshape(rewards.shape)


@dataclasses.dataclass
class Trace:
    """What N orders did over T steps, (T, N, ..) each."""

    inputs: Tensor
    actions: Tensor
    log_probs: Tensor
    """Of all actions, when they were chosen."""
    values: Tensor
    returns: Tensor
    """Rewards to go: discount and trace are 1."""
    alive: Tensor
    """1 where the action mattered, 0 where there was nothing to trade."""
    taught: Tensor | None = None
    """Actions of a teacher in the same states."""

    @classmethod
    def of(cls, steps: list[tuple[Tensor, ...]], rewards: Tensor, segment: int) -> "Trace":
        """From (inputs, actions, log_probs, values, alive[, taught]) of each step."""
        inputs, actions, log_probs, values, alive, *taught = (
            torch.stack(column) for column in zip(*steps, strict=True)
        )
        return cls(
            inputs, actions, log_probs, values, rewards_to_go(rewards, segment), alive.float(), *taught
        )  # fmt: skip

    def part(self, which: Tensor) -> "Trace":
        """Of some of the orders."""
        return Trace(*(None if value is None else value[:, which] for value in vars(self).values()))


class Clipped:
    """Proximal policy optimisation (arXiv 1707.06347) of a Recurrent with both its penalties: the clip, and beta KL(old | new), beta x 1.5 when
    the KL divergence is above twice the target, x .5 when it is below half of it."""

    def __init__(self, network: Recurrent, config: ClippedConfig) -> None:
        self.network, self.config, self.kl_weight = network, config, config.kl_weight
        self._optimiser = torch.optim.Adam(network.parameters(), lr=config.learning_rate)

    def learn(self, trace: Trace, random: np.random.Generator, teaching: float = 0.0) -> dict[str, float]:
        """All epochs, with `teaching` x the negative log-likelihood of what was taught; statistics of the last epoch."""
        gains = trace.returns - trace.values
        known = gains[trace.alive > 0]
        if len(known) < 2:
            return {}
        gains = (gains - known.mean()) / (known.std() + 1e-8)
        measured: list[Tensor] = []
        for _ in range(self.config.epochs):
            measured = []
            for part in self._parts(trace, random):
                loss, terms = self._loss(trace.part(part), gains[:, part], teaching)
                self._descend(loss)
                measured.append(terms)
        policy, value, entropy, kl = torch.stack(measured).mean(0).tolist()
        self.kl_weight *= 1.5 if kl > 2 * self.config.kl_target else 0.5 if kl < 0.5 * self.config.kl_target else 1.0
        return {"policy_loss": policy, "value_loss": value, "entropy": entropy, "kl": kl}

    def imitate(self, trace: Trace, random: np.random.Generator) -> dict[str, float]:
        """All epochs, down the negative log-likelihood of the trace's actions, and to the value of what they brought."""
        losses: list[float] = []
        for _ in range(self.config.epochs):
            losses = []
            for part in self._parts(trace, random):
                some = trace.part(part)
                log_probs, values, _ = self.network(some.inputs, self.network.nothing(len(part)))
                loss = _mean(_chosen(log_probs, some.actions).neg(), some.alive)
                self._descend(loss + self.config.value_weight * _mean((values - some.returns).square(), some.alive))
                losses.append(loss.item())
        return {"imitation_loss": float(np.mean(losses))}

    def _parts(self, trace: Trace, random: np.random.Generator) -> tuple[Tensor, ...]:
        order = torch.from_numpy(random.permutation(trace.actions.shape[1]))
        parts: tuple[Tensor, ...] = order.tensor_split(min(self.config.minibatches, len(order)))
        return parts

    def _loss(self, trace: Trace, gains: Tensor, teaching: float) -> tuple[Tensor, Tensor]:
        config, alive = self.config, trace.alive
        log_probs, values, _ = self.network(trace.inputs, self.network.nothing(trace.actions.shape[1]))
        ratios = (_chosen(log_probs, trace.actions) - _chosen(trace.log_probs, trace.actions)).exp()
        clipped = ratios.clamp(1 - config.clip, 1 + config.clip)
        policy = -_mean(torch.minimum(gains * ratios, gains * clipped), alive)
        value = _mean((values - trace.returns).square(), alive)
        entropy = -_mean((log_probs.exp() * log_probs).sum(-1), alive)
        kl = _mean((trace.log_probs.exp() * (trace.log_probs - log_probs)).sum(-1), alive)
        loss = policy + config.value_weight * value - config.entropy * entropy + self.kl_weight * kl
        if trace.taught is not None:
            loss = loss - teaching * _mean(_chosen(log_probs, trace.taught), alive)
        return loss, torch.stack([policy, value, entropy, kl]).detach()

    def _descend(self, loss: Tensor) -> None:
        self._optimiser.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.network.parameters(), self.config.gradient_norm_max)
        if not math.isfinite(norm):
            raise DivergedError("the gradient is not finite; take a smaller learning rate")
        self._optimiser.step()


def _chosen(log_probs: Tensor, actions: Tensor) -> Tensor:
    return log_probs.gather(-1, actions.unsqueeze(-1)).squeeze(-1)


def _mean(values: Tensor, alive: Tensor) -> Tensor:
    """Where it matters."""
    return (values * alive).sum() / alive.sum().clamp(min=1)
