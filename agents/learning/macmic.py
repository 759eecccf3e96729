"""MacMic-style execution on two levels (after MacMic, IJCAI 2024).

Only the paper's bibliographic record was read; all that is below the idea (a macro policy that splits the order over intervals, a micro
policy that places icebergs, a warm start from an oracle) is our choice, and nothing here reproduces its numbers.

A window has M intervals of m decisions. At the start of each, the macro policy picks its quantity, a multiple of Q / M; it sees the
observation, the bar of the interval before (return, range, volume) and the micro policy's memory as an embedding of what happened within.
The micro policy picks at every decision how many ticks from the own touch the displayed tip rests. The tip is a child order of a fixed
share of the interval's quantity, shown again at the next decision once it is filled; what an interval has left crosses at its last decision.

The micro reward is the gain on the interval's TWAP at mids (`gain_on_twap`), the macro reward the interval's price advantage over the
window's VWAP; both learn with clipped updates. In the first part of training the macro policy is shown, in place of its own choices, those of
an oracle that knows the intervals' VWAPs and puts as much as it may into the best ones, and learns to imitate it.
"""

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
    Floats,
    Foresight,
    RivalPolicy,
    foresee,
    gain_on_twap,
    require_finite,
    require_mode,
    window_steps,
)
from serl.agents.learning.sequences import Clipped, ClippedConfig, Recurrent, Trace, sample
from serl.exchange.errors import ConfigError
from serl.exchange.records import Rows

BAR, PART = 3, 2
"""How many numbers the macro policy sees of the interval before, and the micro policy of this one."""


class MacMicConfig(ClippedConfig):
    """Settings of the algorithm."""

    interval_steps: int = Field(10, gt=0, description="m: decisions of the micro policy in an interval")
    multiples: tuple[float, ...] = Field((0.0, 0.5, 1.0, 1.5, 2.0), min_length=2, description="of an even slice")
    tip_share: float = Field(0.25, gt=0, le=1, description="of the interval's quantity that is displayed")
    reach_ticks: int = Field(
        3, gt=0, description="prices from so many ticks nearer than the own touch to so many behind it"
    )
    reward_scale: float = Field(0.1, gt=0, description="what both rewards, in bps, are multiplied with before learning")
    warm_share: float = Field(0.25, ge=0, lt=1, description="of the steps, in which the oracle leads")


class TwoLevels(nn.Module):  # type: ignore[misc]
    """The networks of both policies."""

    def __init__(self, observed: int, config: MacMicConfig, generator: torch.Generator) -> None:
        super().__init__()
        seen = observed + BAR + config.units
        self.macro = Recurrent(seen, len(config.multiples), config.units, generator)
        self.micro = Recurrent(observed + PART, 2 * config.reach_ticks + 1, config.units, generator)


Step = tuple[Tensor, ...]
"""Of a Trace: inputs, actions, log_probs, values, alive."""


class Desk:
    """Both policies at work on N orders: by samples if there is a generator, else by the mean multiple and the most probable price.

    The mean, as multiples have an order, and one that is hardly more probable than the others should not decide what is traded.
    """

    def __init__(
        self, network: TwoLevels, config: MacMicConfig, count: int, random: np.random.Generator | None = None
    ) -> None:
        self.network, self.config, self._random = network, config, random
        self._macro, self._micro = network.macro.nothing(count), network.micro.nothing(count)
        self.interval_lots, self._floor_lots = np.zeros(count), np.zeros(count)
        """What the interval is to trade, and what is to be left after it."""
        self._bar, self._volume = np.ones((count, 3)), np.zeros(count)
        """Mid at the start of the interval, highest and lowest mid since; volume since the window's start at the interval's."""

    def act(
        self, env: ExecutionVectorEnv, observations: Any, scheduled: Any = None
    ) -> tuple[Floats, Step | None, Step]:
        """((N, 3) actions of mode `hybrid`, the macro step if an interval begins, the micro step); scheduled: macro actions to take."""
        step, middle = env.accounts.parents["step"], mids(env.market.frames)[:, None]
        begun, opening = step == 0, step % self.config.interval_steps == 0
        self._macro[:, torch.from_numpy(begun)] = 0
        self._micro[:, torch.from_numpy(begun)] = 0
        self._volume[begun], self._bar[begun] = 0, middle[begun]
        self._bar[:, 1] = np.maximum(self._bar[:, 1], middle[:, 0])
        self._bar[:, 2] = np.minimum(self._bar[:, 2], middle[:, 0])
        planned = self._plan(env, observations, opening, scheduled) if opening.any() else None
        self._volume[opening] = env.accounts.parents["market_lots"][opening]
        self._bar[opening] = middle[opening]
        actions, placed = self._place(env, observations)
        return actions, planned, placed

    def due_lots(self, env: ExecutionVectorEnv) -> Floats:
        """(N,) what the interval has left to trade."""
        due: Floats = np.maximum(env.accounts.parents["remaining_lots"] - self._floor_lots, 0)
        return due

    def _plan(self, env: ExecutionVectorEnv, observations: Any, opening: Any, scheduled: Any) -> Step:
        """Quantities of intervals that begin; all that is left for a last one."""
        config, parents, episodes = self.config, env.accounts.parents, env.accounts.episodes
        remaining, scales = parents["remaining_lots"], env.observer.scales
        first, high, low = self._bar.T
        bar = np.stack([
            np.clip((mids(env.market.frames) / first - 1) * 1e4 / scales.move_bps, -10, 10),
            np.clip((high - low) / first * 1e4 / scales.move_bps, 0, 10),
            np.log1p((parents["market_lots"] - self._volume) / scales.volume_lots),
        ], axis=1)  # fmt: skip
        inputs = torch.cat([torch.from_numpy(np.hstack([observations, bar]).astype(np.float32)), self._micro[0]], -1)
        log_probs, values, memory = self.network.macro.step(inputs, self._macro)
        actions = self._choose(log_probs) if scheduled is None else torch.from_numpy(scheduled)
        even = episodes["qty_lots"] * config.interval_steps / episodes["steps"]
        last = parents["step"] + config.interval_steps >= episodes["steps"]
        multiples = torch.tensor(config.multiples)
        chosen = log_probs.exp() @ multiples if self._random is None else multiples[actions]
        wanted = np.where(last, remaining, np.ceil(chosen.numpy() * even))
        wanted = np.minimum(wanted, remaining)
        self.interval_lots = np.where(opening, wanted, self.interval_lots)
        self._floor_lots = np.where(opening, remaining - wanted, self._floor_lots)
        self._macro = torch.where(torch.from_numpy(opening)[None, :, None], memory, self._macro)
        return inputs, actions, log_probs, values, torch.from_numpy((remaining > 0) & ~last)

    def _place(self, env: ExecutionVectorEnv, observations: Any) -> tuple[Floats, Step]:
        """The tip's price; what the interval has left crosses at its last decision."""
        config, parents = self.config, env.accounts.parents
        place, due = parents["step"] % config.interval_steps, self.due_lots(env)
        part = np.stack([1 - place / config.interval_steps, due / np.maximum(self.interval_lots, 1)], axis=1)
        inputs = torch.from_numpy(np.hstack([observations, part]).astype(np.float32))
        log_probs, values, self._micro = self.network.micro.step(inputs, self._micro)
        actions = self._choose(log_probs)
        closing = place == config.interval_steps - 1
        tip = np.minimum(np.ceil(config.tip_share * self.interval_lots), due)
        remaining = np.maximum(parents["remaining_lots"], 1)
        offset = np.clip((actions.numpy() - config.reach_ticks) / env.offset_ticks, -1, 1)
        shares = np.stack(
            [np.where(closing, due, 0) / remaining, np.where(closing, 0, tip) / remaining, offset], axis=1
        )
        return shares, (inputs, actions, log_probs, values, torch.from_numpy((due > 0) & ~closing))

    def _choose(self, log_probs: Tensor) -> Tensor:
        return log_probs.argmax(-1) if self._random is None else sample(log_probs, self._random)


def oracle_schedule(future: Foresight, signs: Any, config: MacMicConfig) -> Any:
    """(N, M) macro actions that put the largest multiple into the intervals with the best VWAPs until all is spent."""
    m, multiples = config.interval_steps, np.array(config.multiples)
    lots = future.lots.reshape(len(signs), -1, m) + 1e-9
    vwaps = (future.vwaps.reshape(lots.shape) * lots).sum(-1) / lots.sum(-1)
    rank = (-signs[:, None] * vwaps).argsort(1).argsort(1)
    parts = np.clip(vwaps.shape[1] - multiples.max() * rank, 0, multiples.max())
    return np.abs(parts[:, :, None] - multiples).argmin(-1)


class MacMicPolicy(RivalPolicy):
    """Both levels."""

    kind = "macmic"

    @classmethod
    def of_file(cls, tensors: dict[str, Tensor], facts: dict[str, Any]) -> "MacMicPolicy":
        """See RivalPolicy."""
        config, interface = MacMicConfig(**facts["settings"]), Interface.from_json(facts["interface"])
        network = TwoLevels(len(interface.names), config, torch.Generator())
        network.load_state_dict(tensors)
        return cls(network, config, interface, facts)

    def clear(self, count: int) -> None:
        """See RivalPolicy."""
        self._desk = Desk(self.network, self.config, count)

    def act(self, env: ExecutionVectorEnv, observations: Any) -> Floats:
        """See RivalPolicy."""
        return self._desk.act(env, observations)[0]


class MacMic:
    """A learner over one environment; all chance comes from the seed."""

    def __init__(self, env: VectorEnv, config: MacMicConfig) -> None:
        torch.set_num_threads(config.threads)
        self.env, self.config, self.steps = require_mode(env, "hybrid", "MacMic"), config, 0
        if config.reach_ticks > self.env.offset_ticks:
            raise ConfigError(
                f"MacMic: reach_ticks of at most market.offset_ticks ({self.env.offset_ticks}) are due, got {config.reach_ticks}"
            )
        self.random = np.random.Generator(np.random.PCG64(config.seed))
        window = window_steps(self.env.sampler.sample(np.random.Generator(np.random.PCG64(0)), 1))
        if window % config.interval_steps:
            raise ConfigError(
                f"MacMic: interval_steps that divide the window's {window} are due, got {config.interval_steps}"
            )
        generator = torch.Generator().manual_seed(config.seed)
        self.network = TwoLevels(env.single_observation_space.shape[0], config, generator)
        self._macro, self._micro = Clipped(self.network.macro, config), Clipped(self.network.micro, config)

    def update(self) -> dict[str, Any]:
        """N orders from beginning to end, and what both levels learn from them."""
        env, random = self.env, self.random
        episodes = env.sampler.sample(random, env.num_envs)
        leads = self.steps < self.config.warm_share * self.config.steps
        schedule = oracle_schedule(foresee(env, episodes), episodes["sign"], self.config) if leads else None
        macro, micro = self._work(episodes, schedule)
        learnt = {
            "macro": self._macro.imitate(macro, random) if leads else self._macro.learn(macro, random),
            "micro": self._micro.learn(micro, random),
        }
        self.steps += micro.actions.numel()
        advantages = env.accounts.results()["pa_bps"]
        named = {f"{level}_{name}": value for level, found in learnt.items() for name, value in found.items()}
        return {**named, "return": float(np.nanmean(advantages)), "episodes": len(advantages), "oracle": float(leads)}

    def _work(self, episodes: Rows, schedule: Any) -> tuple[Trace, Trace]:
        """What both levels did with N EPISODE rows."""
        env, m, count = self.env, self.config.interval_steps, len(episodes)
        steps, sign = window_steps(episodes), episodes["sign"]
        desk = Desk(self.network, self.config, count, self.random)
        observations, _ = env.reset(options={"episodes": episodes})
        macro: list[Step] = []
        micro: list[Step] = []
        rewards: list[Tensor] = []
        filled = np.zeros((2, steps // m, count))
        for step in range(steps):
            scheduled = None if schedule is None else schedule[:, step // m]
            before = mids(env.market.frames)
            actions, planned, placed = desk.act(env, observations, scheduled)
            macro += [] if planned is None else [planned]
            micro.append(placed)
            fills, _ = env.decide(actions)
            filled[:, step // m] += fills["lots"], fills["notional"]
            ahead = desk.due_lots(env) - desk.interval_lots * (1 - (step % m + 1) / m)
            gain = gain_on_twap(sign, desk.interval_lots, fills, ahead, before, mids(env.market.frames))
            observations = env.observe()
            require_finite("a reward or an observation", gain, observations)
            rewards.append(torch.from_numpy(gain * self.config.reward_scale).float())
        plans = torch.from_numpy(self._interval_advantages(*filled) * self.config.reward_scale).float()
        return Trace.of(macro, plans, len(macro)), Trace.of(micro, torch.stack(rewards), m)

    def _interval_advantages(self, lots: Floats, notional: Floats) -> Floats:
        """(M, N) s (notional - lots VWAP) / (VWAP Q) in bps, of (M, N) fills of intervals: adds up to PA."""
        parents, episodes = self.env.accounts.parents, self.env.accounts.episodes
        traded = parents["market_lots"]
        vwap = np.where(traded > 0, parents["market_notional"] / np.maximum(traded, 1), parents["arrival_mid"])
        gain = episodes["sign"] * (notional - lots * vwap)
        result: Floats = gain / (vwap * episodes["qty_lots"]) * 1e4
        return result

    def policy(self, facts: dict[str, Any]) -> MacMicPolicy:
        """As of now."""
        return MacMicPolicy(self.network, self.config, Interface.of(self.env), facts)


POLICY = MacMicPolicy
"""What reads files of this kind."""
