"""Oracle policy distillation (Fang et al., Universal Trading for Order Execution with Oracle Policy Distillation, AAAI 2021).

Settings are those of qlib's implementation: actions are {0, 1/4, 1/2, 3/4, 1} of the parent order, capped by the remaining quantity; PPO has clip
.3, gamma and lambda 1, entropy .01 and an adaptive KL penalty. First, a teacher that observes the future of the window learns. Then a student
that observes only the present learns with PPO, plus a loss of weight .01 to choose the teacher's action in the same state.

The future is found by running the market through the window without our order (`baseline.oracle_foresight`), which works in every market. It is
exact only where we have no impact (bars, static book).
"""

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from gymnasium.vector import VectorEnv
from pydantic import Field
from torch import Tensor

from serl.agents.execution.environment.interface import Interface
from serl.agents.execution.environment.vector import ExecutionVectorEnv
from serl.agents.learning.baseline import (
    BaselinePolicy,
    Floats,
    Foresight,
    decisions_per_order,
    oracle_foresight,
    require_execution_env,
    require_finite,
)
from serl.agents.learning.sequences import (
    RecurrentActorCritic,
    RecurrentPPO,
    RecurrentPPOConfig,
    Trajectory,
    sample_actions,
)
from serl.agents.learning.settings import SAVED
from serl.agents.learning.state import named, part
from serl.exchange.errors import ConfigError
from serl.exchange.records import Rows

MINUTE_NS = 60_000_000_000


class OPDConfig(RecurrentPPOConfig):
    """Settings of the algorithm."""

    renamed: ClassVar[dict[str, str]] = {"teaching": "distillation_weight"}

    fractions: tuple[float, ...] = Field(
        (0.0, 0.25, 0.5, 0.75, 1.0), min_length=2, description="of the parent order, one per action"
    )
    teacher_share: float = Field(
        0.5, ge=0, lt=1, description="share of the steps at the start in which only the teacher learns"
    )
    distillation_weight: float = Field(0.01, ge=0, description="weight of the loss on the teacher's actions")
    penalty_bps: float = Field(100.0, ge=0, description="cost of squared fractions of the order traded in a minute")


def capped_shares(env: ExecutionVectorEnv, fractions: Floats) -> Floats:
    """(N, 1) actions that trade (N,) fractions of the parent orders, capped by the remaining quantity."""
    remaining, qty = env.accounts.parents["remaining_lots"], env.accounts.episodes["qty_lots"]
    result: Floats = np.minimum(1.0, fractions * qty / np.maximum(remaining, 1))[:, None]
    return result


class OPDPolicy(BaselinePolicy):
    """The student."""

    kind = "opd"

    @classmethod
    def from_file(cls, tensors: dict[str, Tensor], metadata: dict[str, Any]) -> "OPDPolicy":
        """See BaselinePolicy."""
        config, interface = (
            OPDConfig.model_validate(metadata["settings"], context=SAVED),
            Interface.from_json(metadata["interface"]),
        )
        network = RecurrentActorCritic(len(interface.names), len(config.fractions), config.units, torch.Generator())
        network.load_state_dict(tensors)
        return cls(network, config, interface, metadata)

    def reset(self, count: int) -> None:
        """See BaselinePolicy."""
        self._state = self.network.initial_state(count)

    def act(self, env: ExecutionVectorEnv, observations: Any) -> Floats:
        """See BaselinePolicy."""
        self._state[:, torch.from_numpy(env.accounts.parents["step"] == 0)] = 0
        log_probs, _, self._state = self.network.step(torch.as_tensor(observations), self._state)
        return capped_shares(env, np.array(self.config.fractions)[log_probs.argmax(-1).numpy()])


def _require_student_learns(config: OPDConfig, update_steps: int) -> None:
    """Raises ConfigError unless an update is left for the student: otherwise the student, which is the policy, would silently keep its initial weights."""
    teacher = math.ceil(config.teacher_share * config.steps / update_steps)
    if math.ceil(config.steps / update_steps) <= teacher:
        raise ConfigError(
            f"OPD: expected steps for an update of the student after the teacher's, of {update_steps:,} steps each, got {config.steps:,}; give at least "
            f"{(teacher + 1) * update_steps:,}, or a smaller teacher_share"
        )


class OPD:
    """Teacher and student in one environment. The seed determines everything."""

    def __init__(self, env: VectorEnv, config: OPDConfig) -> None:
        torch.set_num_threads(config.threads)
        self.env, self.config, self.steps = require_execution_env(env, "market", "OPD"), config, 0
        self.random = np.random.Generator(np.random.PCG64(config.seed))
        window = decisions_per_order(self.env.sampler.sample(np.random.Generator(np.random.PCG64(0)), 1))
        _require_student_learns(config, window * self.env.num_envs)
        observed, actions = env.single_observation_space.shape[0], len(config.fractions)
        generator = torch.Generator().manual_seed(config.seed)
        self.teacher = RecurrentActorCritic(observed + 2 * window, actions, config.units, generator)
        self.student = RecurrentActorCritic(observed, actions, config.units, generator)
        self._learners = {network: RecurrentPPO(network, config) for network in (self.teacher, self.student)}

    def state_dict(self) -> dict[str, Tensor]:
        """See checkpoint.Learner."""
        return named("teacher.", self._learners[self.teacher].state_dict()) | named(
            "student.", self._learners[self.student].state_dict()
        )

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """See checkpoint.Learner."""
        self._learners[self.teacher].load_state_dict(part("teacher.", state))
        self._learners[self.student].load_state_dict(part("student.", state))

    def update(self) -> dict[str, Any]:
        """Works N orders and learns from them, with the teacher during its share of the steps, then with the student."""
        random, config = self.random, self.config
        network = self.teacher if self.steps < config.teacher_share * config.steps else self.student
        trajectory, advantages = self.rollout(network, self.env.sampler.sample(random, self.env.num_envs))
        statistics = self._learners[network].learn(trajectory, random, config.distillation_weight)
        self.steps += trajectory.actions.numel()
        return {
            **statistics, "return": float(np.nanmean(advantages)), "episodes": len(advantages),
            "teacher": float(network is self.teacher),
        }  # fmt: skip

    def rollout(self, network: RecurrentActorCritic, episodes: Rows, greedy: bool = False) -> tuple[Trajectory, Floats]:
        """Works N EPISODE rows; returns (trajectory, (N,) PA in bps). Actions are sampled, or the most probable ones if `greedy`."""
        env, fractions = self.env, np.array(self.config.fractions)
        future = oracle_foresight(env, episodes)
        benchmark, steps, rewards = future.vwap(), [], []
        observations, _ = env.reset(options={"episodes": episodes})
        states = {one: one.initial_state(len(episodes)) for one in (network, self.teacher)}
        for step in range(decisions_per_order(episodes)):
            teacher_inputs = torch.from_numpy(np.hstack([observations, self._future_inputs(future, episodes, step)]))
            inputs = teacher_inputs if network is self.teacher else torch.from_numpy(observations)
            teacher_log_probs, _, teacher_state = self.teacher.step(teacher_inputs, states[self.teacher])
            log_probs, values, states[network] = network.step(inputs, states[network])
            states[self.teacher] = teacher_state
            actions = log_probs.argmax(-1) if greedy else sample_actions(log_probs, self.random)
            mask = torch.from_numpy(env.accounts.parents["remaining_lots"] > 0)
            fills, _ = env.step_without_reset(capped_shares(env, fractions[actions.numpy()]))
            reward = self._rewards(fills, benchmark)
            rewards.append(torch.from_numpy(reward).float())
            steps.append((inputs, actions, log_probs, values, mask, teacher_log_probs.argmax(-1)))
            observations = env.observe()
            require_finite("a reward or an observation", reward, observations)
        trajectory = Trajectory.from_steps(steps, torch.stack(rewards), len(steps))
        if network is self.teacher:
            trajectory.teacher_actions = None
        return trajectory, env.accounts.results()["pa_bps"]

    def _future_inputs(self, future: Foresight, episodes: Rows, step: int) -> Any:
        """(N, 2 S) prices of the coming steps relative to the current mid, positive if favourable, and volumes; 0 beyond the end."""
        scales, now = self.env.observer.scales, future.mids[:, step, None]
        steps_left = future.lots.shape[1] - step
        inputs = np.zeros((len(episodes), 2, step + steps_left), np.float32)
        gains = episodes["sign"][:, None] * (future.vwaps[:, step:] / now - 1) * 1e4
        inputs[:, 0, :steps_left] = np.clip(gains / scales.move_bps, -10, 10)
        inputs[:, 1, :steps_left] = np.log1p(future.lots[:, step:] / scales.volume_lots)
        return inputs.reshape(len(episodes), -1)

    def _rewards(self, fills: Rows, benchmark: Floats) -> Floats:
        """(PA_t v_t / Q - penalty sum of (v / Q)^2) / 100; the sum is over the minutes of a step, with the child order spread evenly."""
        episodes = self.env.accounts.episodes
        share = fills["lots"] / episodes["qty_lots"]
        price = fills["notional"] / np.maximum(fills["lots"], 1)
        advantage = episodes["sign"] * (price / benchmark - 1) * 1e4
        minutes = np.maximum(1.0, episodes["interval_ns"] / MINUTE_NS)
        rewards: Floats = (advantage * share - self.config.penalty_bps * share**2 / minutes) / 100
        return rewards

    def policy(self, metadata: dict[str, Any]) -> OPDPolicy:
        """The current student."""
        return OPDPolicy(self.student, self.config, Interface.from_env(self.env), metadata)


POLICY = OPDPolicy
"""Reads policy files of this kind."""
