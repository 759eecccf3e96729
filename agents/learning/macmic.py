"""MacMic-style execution on two levels (after MacMic, IJCAI 2024).

Only the paper's bibliographic record was available to us. Beyond the idea (a macro policy that splits the order over intervals, a micro
policy that places icebergs, a warm start from an oracle) everything is our choice. Nothing here reproduces its results.

A window has M intervals of m decisions. At the start of each interval, the macro policy picks its quantity, a multiple of Q / M. Its inputs are
the observation, the bar of the previous interval (return, range, volume), and the micro policy's memory as an embedding of what happened in
that interval. At every decision, the micro policy picks how many ticks from the same-side touch the displayed tip rests. The tip is a child order
of a fixed share of the interval's quantity, renewed at every decision. The interval's remainder crosses at its last decision.

The micro reward is the gain over the interval's TWAP at mids (`gain_on_twap`); the macro reward is the interval's price advantage over the
window's VWAP. Both levels learn with PPO. In the first part of training, the macro policy imitates an oracle that knows the intervals' VWAPs
and puts as much as allowed into the best ones; during this part the oracle's choices are traded instead of the policy's.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from gymnasium.vector import VectorEnv
from pydantic import Field
from torch import Tensor, nn

from serl.agents.execution.environment.account import mids
from serl.agents.execution.environment.interface import Interface
from serl.agents.execution.environment.vector import ExecutionVectorEnv
from serl.agents.learning.baseline import (
    BaselinePolicy,
    Floats,
    Foresight,
    decisions_per_order,
    gain_on_twap,
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

MACRO_INPUTS, MICRO_INPUTS = 3, 2
"""Inputs besides the observation: the previous interval's bar for the macro policy, the state of this interval for the micro policy."""


class MacMicConfig(RecurrentPPOConfig):
    """Settings of the algorithm."""

    interval_steps: int = Field(10, gt=0, description="m: decisions per interval")
    multiples: tuple[float, ...] = Field(
        (0.0, 0.5, 1.0, 1.5, 2.0), min_length=2, description="of an even slice, one per macro action"
    )
    tip_share: float = Field(0.25, gt=0, le=1, description="displayed share of the interval's quantity")
    reach_ticks: int = Field(
        3, gt=0, description="the tip rests at most so many ticks before or behind the same-side touch"
    )
    reward_scale: float = Field(0.1, gt=0, description="factor applied to both rewards, in bps, before learning")
    warm_share: float = Field(
        0.25, ge=0, lt=1, description="share of the steps at the start in which the macro policy imitates the oracle"
    )


class MacMicNetwork(nn.Module):
    """The networks of both levels."""

    def __init__(self, observation_size: int, config: MacMicConfig, generator: torch.Generator) -> None:
        super().__init__()
        macro_inputs = observation_size + MACRO_INPUTS + config.units
        self.macro = RecurrentActorCritic(macro_inputs, len(config.multiples), config.units, generator)
        micro_inputs, prices = observation_size + MICRO_INPUTS, 2 * config.reach_ticks + 1
        self.micro = RecurrentActorCritic(micro_inputs, prices, config.units, generator)


Step = tuple[Tensor, ...]
"""One step of a Trajectory: inputs, actions, log_probs, values, mask."""


class TwoLevelTrader:
    """Both levels working N orders. With a random generator they sample; without one they take the mean multiple and the most probable price.

    The multiple is the mean because multiples are ordered, and the most probable one may be hardly more probable than the others.
    """

    def __init__(
        self, network: MacMicNetwork, config: MacMicConfig, count: int, random: np.random.Generator | None = None
    ) -> None:
        self.network, self.config, self._random = network, config, random
        self._macro_state, self._micro_state = network.macro.initial_state(count), network.micro.initial_state(count)
        self.interval_lots, self._final_remaining_lots = np.zeros(count), np.zeros(count)
        """Quantity of the current interval, and the order's remaining quantity at the interval's end."""
        self._bar, self._volume = np.ones((count, 3)), np.zeros(count)
        """First, highest and lowest mid of the interval; market volume from the window's start to the interval's start."""

    def act(
        self, env: ExecutionVectorEnv, observations: Any, scheduled: Any = None
    ) -> tuple[Floats, Step | None, Step]:
        """Returns ((N, 3) actions of mode `hybrid`, the macro step if an interval starts, the micro step). scheduled: macro actions that replace
        the policy's."""
        step, mid = env.accounts.parents["step"], mids(env.market.frames)[:, None]
        first, opening = step == 0, step % self.config.interval_steps == 0
        self._macro_state[:, torch.from_numpy(first)] = 0
        self._micro_state[:, torch.from_numpy(first)] = 0
        self._volume[first], self._bar[first] = 0, mid[first]
        self._bar[:, 1] = np.maximum(self._bar[:, 1], mid[:, 0])
        self._bar[:, 2] = np.minimum(self._bar[:, 2], mid[:, 0])
        macro_step = self._macro_step(env, observations, opening, scheduled) if opening.any() else None
        self._volume[opening] = env.accounts.parents["market_lots"][opening]
        self._bar[opening] = mid[opening]
        actions, micro_step = self._micro_step(env, observations)
        return actions, macro_step, micro_step

    def interval_remaining_lots(self, env: ExecutionVectorEnv) -> Floats:
        """(N,) lots that remain to trade in the interval."""
        remaining: Floats = np.maximum(env.accounts.parents["remaining_lots"] - self._final_remaining_lots, 0)
        return remaining

    def _macro_step(self, env: ExecutionVectorEnv, observations: Any, opening: Any, scheduled: Any) -> Step:
        """Chooses the quantities of intervals that start; the last interval gets everything that remains."""
        config, parents, episodes = self.config, env.accounts.parents, env.accounts.episodes
        remaining, scales = parents["remaining_lots"], env.observer.scales
        first, high, low = self._bar.T
        bar = np.stack([
            np.clip((mids(env.market.frames) / first - 1) * 1e4 / scales.move_bps, -10, 10),
            np.clip((high - low) / first * 1e4 / scales.move_bps, 0, 10),
            np.log1p((parents["market_lots"] - self._volume) / scales.volume_lots),
        ], axis=1)  # fmt: skip
        numbers = torch.from_numpy(np.hstack([observations, bar]).astype(np.float32))
        inputs = torch.cat([numbers, self._micro_state[0]], -1)
        log_probs, values, state = self.network.macro.step(inputs, self._macro_state)
        actions = self._choose(log_probs) if scheduled is None else torch.from_numpy(scheduled)
        even = episodes["qty_lots"] * config.interval_steps / episodes["steps"]
        last = parents["step"] + config.interval_steps >= episodes["steps"]
        multiples = torch.tensor(config.multiples)
        chosen = log_probs.exp() @ multiples if self._random is None else multiples[actions]
        lots = np.where(last, remaining, np.ceil(chosen.numpy() * even))
        lots = np.minimum(lots, remaining)
        self.interval_lots = np.where(opening, lots, self.interval_lots)
        self._final_remaining_lots = np.where(opening, remaining - lots, self._final_remaining_lots)
        self._macro_state = torch.where(torch.from_numpy(opening)[None, :, None], state, self._macro_state)
        return inputs, actions, log_probs, values, torch.from_numpy((remaining > 0) & ~last)

    def _micro_step(self, env: ExecutionVectorEnv, observations: Any) -> tuple[Floats, Step]:
        """Chooses the tip's price; the interval's remainder crosses at its last decision."""
        config, parents = self.config, env.accounts.parents
        interval_step, interval_remaining = parents["step"] % config.interval_steps, self.interval_remaining_lots(env)
        interval = np.stack([
            1 - interval_step / config.interval_steps, interval_remaining / np.maximum(self.interval_lots, 1)
        ], axis=1)  # fmt: skip
        inputs = torch.from_numpy(np.hstack([observations, interval]).astype(np.float32))
        log_probs, values, self._micro_state = self.network.micro.step(inputs, self._micro_state)
        actions = self._choose(log_probs)
        closing = interval_step == config.interval_steps - 1
        tip = np.minimum(np.ceil(config.tip_share * self.interval_lots), interval_remaining)
        remaining = np.maximum(parents["remaining_lots"], 1)
        offset = np.clip((actions.numpy() - config.reach_ticks) / env.offset_ticks, -1, 1)
        market_share = np.where(closing, interval_remaining, 0) / remaining
        limit_share = np.where(closing, 0, tip) / remaining
        mask = torch.from_numpy((interval_remaining > 0) & ~closing)
        return np.stack([market_share, limit_share, offset], axis=1), (inputs, actions, log_probs, values, mask)

    def _choose(self, log_probs: Tensor) -> Tensor:
        return log_probs.argmax(-1) if self._random is None else sample_actions(log_probs, self._random)


def oracle_schedule(future: Foresight, signs: Any, config: MacMicConfig) -> Any:
    """(N, M) macro actions that put the largest multiple into the intervals with the best VWAPs until the order is allocated."""
    m, multiples = config.interval_steps, np.array(config.multiples)
    lots = future.lots.reshape(len(signs), -1, m) + 1e-9
    vwaps = (future.vwaps.reshape(lots.shape) * lots).sum(-1) / lots.sum(-1)
    rank = (-signs[:, None] * vwaps).argsort(1).argsort(1)
    ideal = np.clip(vwaps.shape[1] - multiples.max() * rank, 0, multiples.max())
    return np.abs(ideal[:, :, None] - multiples).argmin(-1)


class MacMicPolicy(BaselinePolicy):
    """A policy of both levels."""

    kind = "macmic"

    @classmethod
    def from_file(cls, tensors: dict[str, Tensor], metadata: dict[str, Any]) -> "MacMicPolicy":
        """See BaselinePolicy."""
        config = MacMicConfig.model_validate(metadata["settings"], context=SAVED)
        interface = Interface.from_json(metadata["interface"])
        network = MacMicNetwork(len(interface.names), config, torch.Generator())
        network.load_state_dict(tensors)
        return cls(network, config, interface, metadata)

    def reset(self, count: int) -> None:
        """See BaselinePolicy."""
        self._trader = TwoLevelTrader(self.network, self.config, count)

    def act(self, env: ExecutionVectorEnv, observations: Any) -> Floats:
        """See BaselinePolicy. Raises ConfigError for windows whose last interval would end before its remainder crosses."""
        steps, m = env.accounts.episodes["steps"], self.config.interval_steps
        if np.any(steps % m):
            raise ConfigError(
                f"{self.name}: expected windows of a multiple of {m} decisions, the intervals that it was trained with, got {steps.max()}; change duration_s "
                "or interval_s"
            )
        return self._trader.act(env, observations)[0]


class MacMic:
    """A learner over one environment. The seed determines everything."""

    def __init__(self, env: VectorEnv, config: MacMicConfig) -> None:
        torch.set_num_threads(config.threads)
        self.env, self.config, self.steps = require_execution_env(env, "hybrid", "MacMic"), config, 0
        if config.reach_ticks > self.env.offset_ticks:
            raise ConfigError(
                f"MacMic: expected reach_ticks of at most market.offset_ticks ({self.env.offset_ticks}), got {config.reach_ticks}; "
                "increase offset_ticks"
            )
        self.random = np.random.Generator(np.random.PCG64(config.seed))
        window = decisions_per_order(self.env.sampler.sample(np.random.Generator(np.random.PCG64(0)), 1))
        if window % config.interval_steps:
            raise ConfigError(
                f"MacMic: expected interval_steps that divide the window's {window} decisions, got {config.interval_steps}"
            )
        generator = torch.Generator().manual_seed(config.seed)
        self.network = MacMicNetwork(env.single_observation_space.shape[0], config, generator)
        self._macro, self._micro = RecurrentPPO(self.network.macro, config), RecurrentPPO(self.network.micro, config)

    def state_dict(self) -> dict[str, Tensor]:
        """See checkpoint.Learner."""
        return named("macro.", self._macro.state_dict()) | named("micro.", self._micro.state_dict())

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """See checkpoint.Learner."""
        self._macro.load_state_dict(part("macro.", state))
        self._micro.load_state_dict(part("micro.", state))

    def update(self) -> dict[str, Any]:
        """Works N orders from start to end; both levels learn from them."""
        env, random = self.env, self.random
        episodes = env.sampler.sample(random, env.num_envs)
        warm = self.steps < self.config.warm_share * self.config.steps
        schedule = oracle_schedule(oracle_foresight(env, episodes), episodes["sign"], self.config) if warm else None
        macro, micro = self._rollout(episodes, schedule)
        statistics = {
            "macro": self._macro.imitate(macro, random) if warm else self._macro.learn(macro, random),
            "micro": self._micro.learn(micro, random),
        }
        self.steps += micro.actions.numel()
        advantages = env.accounts.results()["pa_bps"]
        named = {f"{level}_{name}": value for level, found in statistics.items() for name, value in found.items()}
        return {**named, "return": float(np.nanmean(advantages)), "episodes": len(advantages), "oracle": float(warm)}

    def _rollout(self, episodes: Rows, schedule: Any) -> tuple[Trajectory, Trajectory]:
        """The macro and micro trajectories of N EPISODE rows."""
        env, m, count = self.env, self.config.interval_steps, len(episodes)
        steps, sign = decisions_per_order(episodes), episodes["sign"]
        trader = TwoLevelTrader(self.network, self.config, count, self.random)
        observations, _ = env.reset(options={"episodes": episodes})
        macro: list[Step] = []
        micro: list[Step] = []
        rewards: list[Tensor] = []
        filled = np.zeros((2, steps // m, count))
        for step in range(steps):
            scheduled = None if schedule is None else schedule[:, step // m]
            before = mids(env.market.frames)
            actions, macro_step, micro_step = trader.act(env, observations, scheduled)
            macro += [] if macro_step is None else [macro_step]
            micro.append(micro_step)
            fills, _ = env.step_without_reset(actions)
            filled[:, step // m] += fills["lots"], fills["notional"]
            excess = trader.interval_remaining_lots(env) - trader.interval_lots * (1 - (step % m + 1) / m)
            reward = gain_on_twap(sign, trader.interval_lots, fills, excess, before, mids(env.market.frames))
            observations = env.observe()
            require_finite("a reward or an observation", reward, observations)
            rewards.append(torch.from_numpy(reward * self.config.reward_scale).float())
        macro_rewards = torch.from_numpy(self._interval_advantages(*filled) * self.config.reward_scale).float()
        return (
            Trajectory.from_steps(macro, macro_rewards, len(macro)), Trajectory.from_steps(micro, torch.stack(rewards), m)
        )  # fmt: skip

    def _interval_advantages(self, lots: Floats, notional: Floats) -> Floats:
        """(M, N) s (notional - lots VWAP) / (VWAP Q) in bps, for the fills (M, N) of each interval; the sum over intervals is PA."""
        parents, episodes = self.env.accounts.parents, self.env.accounts.episodes
        traded = parents["market_lots"]
        vwap = np.where(traded > 0, parents["market_notional"] / np.maximum(traded, 1), parents["arrival_mid"])
        gain = episodes["sign"] * (notional - lots * vwap)
        result: Floats = gain / (vwap * episodes["qty_lots"]) * 1e4
        return result

    def policy(self, metadata: dict[str, Any]) -> MacMicPolicy:
        """The current policy."""
        return MacMicPolicy(self.network, self.config, Interface.from_env(self.env), metadata)


POLICY = MacMicPolicy
"""Reads policy files of this kind."""
