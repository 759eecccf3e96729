"""Oracle policy distillation (Fang et al., Universal Trading for Order Execution with Oracle Policy Distillation, AAAI 2021).

Settings as in qlib's version of it: actions are {0, 1/4, 1/2, 3/4, 1} of the parent order, capped by what is left; PPO with clip .3,
discount and trace 1, entropy .01 and an adaptive KL penalty. A teacher that sees the future of the window learns first; then a student
that sees what everybody sees learns with PPO and, with weight .01, to do what the teacher would do in the student's place.

The future comes from running the market through the window without our order (`rival.foresee`), so it can be shown in every market;
only where we have no impact (bars, static book) is it exactly what will be.
"""

from typing import Any

import numpy as np
import torch
from gymnasium.vector import VectorEnv
from pydantic import Field
from torch import Tensor

from serl.agents.execution.environment.interface import Interface
from serl.agents.execution.environment.vector import ExecutionVectorEnv
from serl.agents.learning.baseline import (
    Floats,
    Foresight,
    RivalPolicy,
    foresee,
    require_finite,
    require_mode,
    window_steps,
)
from serl.agents.learning.sequences import Clipped, ClippedConfig, Recurrent, Trace, sample
from serl.exchange.records import Rows

MINUTE_NS = 60_000_000_000


class OPDConfig(ClippedConfig):
    """Settings of the algorithm."""

    fractions: tuple[float, ...] = Field((0.0, 0.25, 0.5, 0.75, 1.0), min_length=2, description="of the parent order")
    teacher_share: float = Field(0.5, ge=0, lt=1, description="of the steps, in which the teacher alone learns")
    teaching: float = Field(0.01, ge=0, description="weight of the teacher's actions in the student's loss")
    penalty_bps: float = Field(100.0, ge=0, description="weight of squared fractions of the order traded in a minute")


def shares(env: ExecutionVectorEnv, fractions: Floats) -> Floats:
    """(N, 1) actions that trade (N,) fractions of the parent orders, capped by what is left."""
    remaining, qty = env.accounts.parents["remaining_lots"], env.accounts.episodes["qty_lots"]
    result: Floats = np.minimum(1.0, fractions * qty / np.maximum(remaining, 1))[:, None]
    return result


class OPDPolicy(RivalPolicy):
    """The student."""

    kind = "opd"

    @classmethod
    def of_file(cls, tensors: dict[str, Tensor], facts: dict[str, Any]) -> "OPDPolicy":
        """See RivalPolicy."""
        config, interface = OPDConfig(**facts["settings"]), Interface.from_json(facts["interface"])
        network = Recurrent(len(interface.names), len(config.fractions), config.units, torch.Generator())
        network.load_state_dict(tensors)
        return cls(network, config, interface, facts)

    def clear(self, count: int) -> None:
        """See RivalPolicy."""
        self._memory = self.network.nothing(count)

    def act(self, env: ExecutionVectorEnv, observations: Any) -> Floats:
        """See RivalPolicy."""
        self._memory[:, torch.from_numpy(env.accounts.parents["step"] == 0)] = 0
        log_probs, _, self._memory = self.network.step(torch.as_tensor(observations), self._memory)
        return shares(env, np.array(self.config.fractions)[log_probs.argmax(-1).numpy()])


class OPD:
    """Teacher and student over one environment; all chance comes from the seed."""

    def __init__(self, env: VectorEnv, config: OPDConfig) -> None:
        torch.set_num_threads(config.threads)
        self.env, self.config, self.steps = require_mode(env, "market", "OPD"), config, 0
        self.random = np.random.Generator(np.random.PCG64(config.seed))
        window = window_steps(self.env.sampler.sample(np.random.Generator(np.random.PCG64(0)), 1))
        seen, actions = env.single_observation_space.shape[0], len(config.fractions)
        generator = torch.Generator().manual_seed(config.seed)
        self.teacher = Recurrent(seen + 2 * window, actions, config.units, generator)
        self.student = Recurrent(seen, actions, config.units, generator)
        self._learners = {network: Clipped(network, config) for network in (self.teacher, self.student)}

    def update(self) -> dict[str, Any]:
        """N orders by the teacher, or once it has had its share of the steps by the student, and what is learnt from them."""
        random, config = self.random, self.config
        network = self.teacher if self.steps < config.teacher_share * config.steps else self.student
        trace, advantages = self.work(network, self.env.sampler.sample(random, self.env.num_envs))
        statistics = self._learners[network].learn(trace, random, config.teaching)
        self.steps += trace.actions.numel()
        return {
            **statistics, "return": float(np.nanmean(advantages)), "episodes": len(advantages),
            "teacher": float(network is self.teacher),
        }  # fmt: skip

    def work(self, network: Recurrent, episodes: Rows, best: bool = False) -> tuple[Trace, Floats]:
        """Works N EPISODE rows: (what was done, (N,) PA in bps); by samples, or by the most probable actions if `best`."""
        env, fractions = self.env, np.array(self.config.fractions)
        future = foresee(env, episodes)
        benchmark, steps, rewards = future.vwap(), [], []
        observations, _ = env.reset(options={"episodes": episodes})
        memories = {one: one.nothing(len(episodes)) for one in (network, self.teacher)}
        for step in range(window_steps(episodes)):
            told = torch.from_numpy(np.hstack([observations, self._view(future, episodes, step)]))
            inputs = told if network is self.teacher else torch.from_numpy(observations)
            taught, _, memory = self.teacher.step(told, memories[self.teacher])
            log_probs, values, memories[network] = network.step(inputs, memories[network])
            memories[self.teacher] = memory
            actions = log_probs.argmax(-1) if best else sample(log_probs, self.random)
            alive = torch.from_numpy(env.accounts.parents["remaining_lots"] > 0)
            fills, _ = env.decide(shares(env, fractions[actions.numpy()]))
            gained = self._rewards(fills, benchmark)
            rewards.append(torch.from_numpy(gained).float())
            steps.append((inputs, actions, log_probs, values, alive, taught.argmax(-1)))
            observations = env.observe()
            require_finite("a reward or an observation", gained, observations)
        trace = Trace.of(steps, torch.stack(rewards), len(steps))
        if network is self.teacher:
            trace.taught = None
        return trace, env.accounts.results()["pa_bps"]

    def _view(self, future: Foresight, episodes: Rows, step: int) -> Any:
        """(N, 2 S) prices of the steps to come against the mid of now, signed like a gain, and volumes; 0 beyond the end."""
        scales, now = self.env.observer.scales, future.mids[:, step, None]
        left = future.lots.shape[1] - step
        view = np.zeros((len(episodes), 2, step + left), np.float32)
        gains = episodes["sign"][:, None] * (future.vwaps[:, step:] / now - 1) * 1e4
        view[:, 0, :left] = np.clip(gains / scales.move_bps, -10, 10)
        view[:, 1, :left] = np.log1p(future.lots[:, step:] / scales.volume_lots)
        return view.reshape(len(episodes), -1)

    def _rewards(self, fills: Rows, benchmark: Floats) -> Floats:
        """(PA_t v_t / Q - penalty sum of (v / Q)^2) / 100, the sum over the minutes of a step, a child being spread evenly over them."""
        episodes = self.env.accounts.episodes
        share = fills["lots"] / episodes["qty_lots"]
        price = fills["notional"] / np.maximum(fills["lots"], 1)
        advantage = episodes["sign"] * (price / benchmark - 1) * 1e4
        minutes = np.maximum(1.0, episodes["interval_ns"] / MINUTE_NS)
        rewards: Floats = (advantage * share - self.config.penalty_bps * share**2 / minutes) / 100
        return rewards

    def policy(self, facts: dict[str, Any]) -> OPDPolicy:
        """The student as of now."""
        return OPDPolicy(self.student, self.config, Interface.of(self.env), facts)


POLICY = OPDPolicy
"""What reads files of this kind."""
