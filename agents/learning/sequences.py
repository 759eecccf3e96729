"""Recurrent categorical policies, and PPO for them with an adaptive KL penalty."""

import dataclasses
import math
from collections.abc import Mapping

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from serl.agents.learning.baseline import BaselineConfig
from serl.agents.learning.errors import DivergedError
from serl.agents.learning.state import adam_state, load_adam_state, named, part
from serl.agents.torch_adam import Adam


class RecurrentPPOConfig(BaselineConfig):
    """Settings of recurrent PPO; clip, entropy and KL have OPD's values."""

    units: int = Field(64, gt=0, description="of the GRU and of the layer behind it")
    learning_rate: float = Field(1e-3, gt=0)
    epochs: int = Field(4, gt=0)
    minibatches: int = Field(2, gt=0, description="per epoch; each consists of whole orders")
    clip: float = Field(0.3, gt=0)
    entropy: float = Field(0.01, ge=0, description="weight of the entropy bonus")
    value_weight: float = Field(0.5, ge=0, description="weight of the value loss")
    kl_weight: float = Field(0.2, ge=0, description="initial weight of the KL penalty")
    kl_target: float = Field(0.01, gt=0)
    gradient_norm_max: float = Field(0.5, gt=0)


class RecurrentActorCritic(nn.Module):
    """A GRU over the steps of an order, then a layer on its output and the current inputs. Returns log-probabilities of actions and a value."""

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

    def initial_state(self, count: int) -> Tensor:
        """(1, count, units) memory at the start of an order."""
        return torch.zeros(1, count, self.units)

    def forward(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Maps (T, B, size) inputs to (T, B, actions) log-probabilities, (T, B) values and the memory after them."""
        features, after = self.memory(inputs, state)
        hidden = torch.tanh(self.hidden(torch.cat([features, inputs], -1)))
        return functional.log_softmax(self.policy(hidden), -1), self.value(hidden).squeeze(-1), after

    @torch.no_grad()
    def step(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Like `forward`, for one step: maps (B, size) to (B, actions), (B,) and the memory after it."""
        log_probs, values, after = self(inputs.unsqueeze(0), state)  # pyrefly: ignore[not-callable]  # a Module is Any here
        return log_probs[0], values[0], after


def sample_actions(log_probs: Tensor, random: np.random.Generator) -> Tensor:
    """Samples (B,) actions: the argmax of log p plus Gumbel noise is distributed like p."""
    noise = -np.log(-np.log(random.uniform(1e-7, 1 - 1e-7, tuple(log_probs.shape))))
    return (log_probs + torch.from_numpy(noise)).argmax(-1)


def rewards_to_go(rewards: Tensor, segment_steps: int) -> Tensor:
    """(T, B) sums of (T, B) rewards from each step to the end of its segment; T is a multiple of `segment_steps`."""
    segments = rewards.reshape(-1, segment_steps, rewards.shape[1])
    return segments.flip(1).cumsum(1).flip(1).reshape(rewards.shape)


@dataclasses.dataclass
class Trajectory:
    """T steps of N orders, (T, N, ..) each."""

    inputs: Tensor
    actions: Tensor
    log_probs: Tensor
    """Log-probabilities of all actions, at the time of the choice."""
    values: Tensor
    returns: Tensor
    """Rewards to go, because gamma and lambda are 1."""
    mask: Tensor
    """1 where the action mattered, 0 where there was nothing to trade."""
    teacher_actions: Tensor | None = None
    """Actions of a teacher in the same states."""

    @classmethod
    def from_steps(cls, steps: list[tuple[Tensor, ...]], rewards: Tensor, segment_steps: int) -> "Trajectory":
        """Builds a trajectory from (inputs, actions, log_probs, values, mask[, teacher_actions]) of each step."""
        inputs, actions, log_probs, values, mask, *teacher_actions = (
            torch.stack(column) for column in zip(*steps, strict=True)
        )
        returns = rewards_to_go(rewards, segment_steps)
        return cls(inputs, actions, log_probs, values, returns, mask.float(), *teacher_actions)

    def select(self, orders: Tensor) -> "Trajectory":
        """The trajectory of some of the orders."""
        return Trajectory(*(None if value is None else value[:, orders] for value in vars(self).values()))


class RecurrentPPO:
    """Proximal policy optimisation (arXiv 1707.06347) of a recurrent network with both the clipped objective and the KL penalty
    beta KL(old | new). beta grows by 1.5 when the KL divergence exceeds twice its target and is halved below half of it."""

    def __init__(self, network: RecurrentActorCritic, config: RecurrentPPOConfig) -> None:
        self.network, self.config, self.kl_weight = network, config, config.kl_weight
        self._optimiser = Adam(network.parameters(), lr=config.learning_rate)

    def state_dict(self) -> dict[str, Tensor]:
        """The network, its optimiser and the weight of the KL penalty."""
        kl_weight = {"kl_weight": torch.tensor(self.kl_weight, dtype=torch.float64)}
        return (
            named("network.", self.network.state_dict()) | named("optimiser.", adam_state(self._optimiser)) | kl_weight
        )

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restores what `state_dict` returned."""
        self.network.load_state_dict(part("network.", state))
        load_adam_state(self._optimiser, part("optimiser.", state))
        self.kl_weight = state["kl_weight"].item()

    def learn(
        self, trajectory: Trajectory, random: np.random.Generator, distillation_weight: float = 0.0
    ) -> dict[str, float]:
        """Runs all epochs; adds `distillation_weight` x the negative log-likelihood of the teacher's actions to the loss. Returns the
        statistics of the last epoch."""
        advantages = trajectory.returns - trajectory.values
        used = advantages[trajectory.mask > 0]
        if len(used) < 2:
            return {}
        advantages = (advantages - used.mean()) / (used.std() + 1e-8)
        losses: list[Tensor] = []
        for _ in range(self.config.epochs):
            losses = []
            for orders in self._minibatches(trajectory, random):
                loss, terms = self._loss(trajectory.select(orders), advantages[:, orders], distillation_weight)
                self._gradient_step(loss)
                losses.append(terms)
        policy, value, entropy, kl = torch.stack(losses).mean(0).tolist()
        self.kl_weight *= 1.5 if kl > 2 * self.config.kl_target else 0.5 if kl < 0.5 * self.config.kl_target else 1.0
        return {"policy_loss": policy, "value_loss": value, "entropy": entropy, "kl": kl}

    def imitate(self, trajectory: Trajectory, random: np.random.Generator) -> dict[str, float]:
        """Runs all epochs on the negative log-likelihood of the trajectory's actions, and fits the values to their returns."""
        losses: list[float] = []
        for _ in range(self.config.epochs):
            losses = []
            for orders in self._minibatches(trajectory, random):
                part = trajectory.select(orders)
                log_probs, values, _ = self.network(part.inputs, self.network.initial_state(len(orders)))
                loss = _masked_mean(_log_prob_of(log_probs, part.actions).neg(), part.mask)
                value_loss = _masked_mean((values - part.returns).square(), part.mask)
                self._gradient_step(loss + self.config.value_weight * value_loss)
                losses.append(loss.item())
        return {"imitation_loss": float(np.mean(losses))}

    def _minibatches(self, trajectory: Trajectory, random: np.random.Generator) -> tuple[Tensor, ...]:
        """Indices of the orders in each minibatch."""
        order = torch.from_numpy(random.permutation(trajectory.actions.shape[1]))
        minibatches: tuple[Tensor, ...] = order.tensor_split(min(self.config.minibatches, len(order)))
        return minibatches

    def _loss(self, batch: Trajectory, advantages: Tensor, distillation_weight: float) -> tuple[Tensor, Tensor]:
        """(loss, its policy, value, entropy and KL terms)."""
        config, mask = self.config, batch.mask
        log_probs, values, _ = self.network(batch.inputs, self.network.initial_state(batch.actions.shape[1]))
        ratios = (_log_prob_of(log_probs, batch.actions) - _log_prob_of(batch.log_probs, batch.actions)).exp()
        clipped = ratios.clamp(1 - config.clip, 1 + config.clip)
        policy = -_masked_mean(torch.minimum(advantages * ratios, advantages * clipped), mask)
        value = _masked_mean((values - batch.returns).square(), mask)
        entropy = -_masked_mean((log_probs.exp() * log_probs).sum(-1), mask)
        kl = _masked_mean((batch.log_probs.exp() * (batch.log_probs - log_probs)).sum(-1), mask)
        loss = policy + config.value_weight * value - config.entropy * entropy + self.kl_weight * kl
        if batch.teacher_actions is not None:
            loss = loss - distillation_weight * _masked_mean(_log_prob_of(log_probs, batch.teacher_actions), mask)
        return loss, torch.stack([policy, value, entropy, kl]).detach()

    def _gradient_step(self, loss: Tensor) -> None:
        self._optimiser.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.network.parameters(), self.config.gradient_norm_max)
        if not math.isfinite(norm):
            raise DivergedError(f"the gradient is not finite ({norm}); use a smaller learning rate")
        self._optimiser.step()


def _log_prob_of(log_probs: Tensor, actions: Tensor) -> Tensor:
    """Log-probability of each action."""
    return log_probs.gather(-1, actions.unsqueeze(-1)).squeeze(-1)


def _masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Mean over the steps in which the action mattered."""
    return (values * mask).sum() / mask.sum().clamp(min=1)
