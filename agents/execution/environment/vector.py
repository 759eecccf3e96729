"""The gymnasium VectorEnv: works N parent orders at once, in any ExecutionMarket.

Action modes, with all numbers in [0, 1] except the offset: `market` (share of the remaining quantity to take at once), `limit` (share,
offset) and `hybrid` (market share, limit share, offset). `paced` is like hybrid, but its shares are multiples, 0 to PACED_SLICES_MAX, of the even
slice (remaining quantity over remaining decisions). The middle of its box, where learning starts, takes one even slice and rests another at the
touch: this is a TWAP only where resting orders are never filled, and elsewhere finishes earlier. An offset in [-1, 1] is multiplied by
offset_ticks ticks plus offset_bps of the mid; it is measured from the same-side touch away from the mid. The remainder at the end of the window
crosses the book (forced completion); AFI is its share.
"""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv

from serl.agents.execution.environment.account import Accounts, mids
from serl.agents.execution.environment.layout import Layout
from serl.agents.execution.environment.market import ExecutionMarket
from serl.agents.execution.environment.observation import Observer, Scales
from serl.agents.execution.environment.records import CHILD, EPISODE
from serl.agents.execution.environment.rewards import PriceAdvantage
from serl.exchange.errors import ConfigError
from serl.exchange.records import Rows

if TYPE_CHECKING:
    from serl.agents.execution.environment.forecasts import Forecasts

LAYOUT, SCALES = Layout(), Scales()
ACTIONS = {"market": 1, "limit": 2, "hybrid": 3, "paced": 3}
PACED_SLICES_MAX = 2.0
"""Number of even slices that an action of 1 means in mode `paced`."""


class Sampler(Protocol):
    """Draws episodes."""

    def sample(self, random: np.random.Generator, count: int) -> Rows:
        """(count,) EPISODE rows."""


Reward = Callable[["ExecutionVectorEnv", Rows, Any], Any]
"""Maps (environment, FILL rows of the step, (N,) whether it is the last step) to (N,) rewards; see rewards.py."""
PRICE_ADVANTAGE = PriceAdvantage()


def shaped(actions: Any, shape: tuple[int, ...]) -> Any:
    """Converts actions to floats of a shape. Raises ConfigError if their number differs."""
    numbers = np.asarray(actions, np.float64)
    if numbers.size != math.prod(shape):
        raise ConfigError(
            f"actions: expected numbers of shape {shape}, got {numbers.shape}; see the environment's action_space"
        )
    return numbers.reshape(shape)


def numbers_of(actions: Any, shape: tuple[int, ...]) -> Any:
    """Like `shaped`, but also raises ConfigError for NaN, from which no order can be made."""
    numbers = shaped(actions, shape)
    if np.isnan(numbers).any():
        raise ConfigError("actions: expected numbers, got NaN; check what the policy computes")
    return numbers


def given_episodes(options: dict[str, Any] | None, count: int) -> Rows | None:
    """The option `episodes` of `reset`. Raises ConfigError unless it has one EPISODE row for each of `count` environments."""
    episodes = (options or {}).get("episodes")
    if episodes is None:
        return None
    if not isinstance(episodes, np.ndarray) or episodes.dtype != EPISODE or episodes.shape != (count,):
        got = (
            f"shape {episodes.shape}, {episodes.dtype}" if isinstance(episodes, np.ndarray) else type(episodes).__name__
        )
        raise ConfigError(
            f"episodes: expected EPISODE rows of shape ({count},), got {got:.120}; give one for each environment"
        )
    return episodes


def seeded(seed: Any) -> np.random.Generator:
    """The generator of a seed, which may be a sequence of integers. Raises ConfigError for a seed that is negative or no integer."""
    try:
        return np.random.Generator(np.random.PCG64(seed))
    except (ValueError, TypeError):
        raise ConfigError(f"seed: expected an integer from 0 on, got {seed!r:.120}; give another") from None


def check_started(is_started: bool) -> None:
    """Raises ResetNeeded unless episodes have started: before that there is no market to trade in."""
    if not is_started:
        raise ResetNeeded("expected a reset before the first step of an episode, got none; call reset")


class ExecutionVectorEnv(VectorEnv):
    """See the module. `reset(seed=...)` determines all following episodes."""

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(
        self, market: ExecutionMarket, sampler: Sampler, *, actions: str = "market", layout: Layout = LAYOUT,
        scales: Scales = SCALES, offset_ticks: float = 5.0, offset_bps: float = 0.0, fee_bps: float = 0.0,
        reward: Reward = PRICE_ADVANTAGE, agents: int = 1, forecasts: "Forecasts | None" = None,
    ) -> None:  # fmt: skip
        """forecasts: forecasts of the market's days, with the layout's horizons. agents: how many consecutive environments share a parent order; for
        policies that communicate."""
        if actions not in ACTIONS:
            raise ConfigError(f"actions: expected one of {', '.join(ACTIONS)}, got {actions!r}")
        self.market, self.sampler, self.actions = market, sampler, actions
        self.offset_ticks, self.offset_bps = offset_ticks, offset_bps
        self.num_envs, self.agents = market.count, agents
        self.accounts = Accounts(market.count, fee_bps)
        self.observer, self.forecasts = Observer(market.count, layout, scales, forecasts), forecasts
        self.layout = layout
        self._all_envs = np.arange(self.num_envs)
        self.reward = reward
        self._np_random: np.random.Generator | None = None
        self._is_started = False
        low = np.zeros(ACTIONS[actions], np.float32)
        if actions != "market":
            low[-1] = -1.0
        self.single_action_space = gymnasium.spaces.Box(low, np.ones_like(low))
        self.single_observation_space = gymnasium.spaces.Box(-10.0, 10.0, (layout.size,), np.float32)
        self.action_space = gymnasium.vector.utils.batch_space(self.single_action_space, self.num_envs)
        self.observation_space = gymnasium.vector.utils.batch_space(self.single_observation_space, self.num_envs)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts new episodes in all environments. The option {"episodes": EPISODE rows} sets them instead of sampling."""
        if seed is not None:
            self.np_random = seeded(seed)
        self._start_episodes(self._all_envs, given_episodes(options, self.num_envs))
        return self.observe(), {}

    def _start_episodes(self, which: Any, episodes: Rows | None = None) -> None:
        if episodes is None:
            episodes = self.sampler.sample(self.np_random, len(which))
        elif np.any(odd := np.abs(episodes["sign"]) != 1):
            raise ConfigError(f"sign: expected 1 (sell) or -1 (buy), got {episodes['sign'][odd][0]}")
        self.market.reset(which, episodes)
        self.accounts.begin(which, episodes, self.market.frames)
        self.observer.begin(which, self.market.frames)
        self._is_started = True

    def observe(self, which: Any = None) -> Any:
        """(N, layout.size) current observations, or those of environments `which`."""
        return self.observer.observe(self.market.frames, self.market.fills, self.accounts, which)

    def split_actions(self, actions: Any) -> tuple[Any, Any, Any]:
        """(market share, limit share, offset in ticks) from (N, k) actions."""
        actions = numbers_of(actions, (self.num_envs, ACTIONS[self.actions]))
        zeros = np.zeros(self.num_envs)
        if self.actions == "market":
            return actions[:, 0], zeros, zeros
        offset = np.rint(actions[:, -1] * self.offset_unit_ticks())
        if self.actions == "limit":
            return zeros, actions[:, 0], offset
        shares = actions[:, :2]
        if self.actions == "paced":
            steps_left = self.accounts.episodes["steps"] - self.accounts.parents["step"]
            shares = np.minimum(1.0, PACED_SLICES_MAX * shares / steps_left[:, None])
        return shares[:, 0], shares[:, 1], offset

    def offset_unit_ticks(self) -> Any:
        """(N,) ticks that an offset of 1 means."""
        return self.offset_ticks + np.nan_to_num(self.offset_bps * 1e-4 * mids(self.market.frames))

    def step_without_reset(self, actions: Any) -> tuple[Rows, Any]:
        """Executes one decision of every parent order without starting new episodes. Returns (FILL rows including forced completion, (N,) whether the
        decision was the last)."""
        check_started(self._is_started)
        accounts, market = self.accounts, self.market
        children = accounts.children(*self.split_actions(actions), market.frames)
        market.step(children, accounts.ends_ns())
        fills = market.fills.copy()
        accounts.settle(fills, market.frames)
        self.observer.record_step(market.frames)
        accounts.parents["step"] += 1
        last = accounts.parents["step"] == accounts.episodes["steps"]
        if np.any(last):
            self._force_completion(last, fills)
        return fills, last

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Executes one decision of every parent order. For orders that ended, info has `done`, `results` (see Accounts.results) and `final_obs`, the
        last observation before the next episode."""
        accounts = self.accounts
        fills, last = self.step_without_reset(actions)
        done = last  # not earlier, even if the order is filled, because its benchmark is the VWAP of the whole window
        rewards = np.asarray(self.reward(self, fills, done), np.float64)
        observations = self.observe()
        info: dict[str, Any] = {}
        if np.any(done):
            which = np.flatnonzero(done)
            info = {"done": done, "results": accounts.results(), "final_obs": observations.copy()}
            self._start_episodes(which)
            observations[which] = self.observe(which)
        return observations, rewards, done, np.zeros(self.num_envs, bool), info

    def _force_completion(self, last: Any, fills: Rows) -> None:
        """Completes the order: the remaining quantity crosses the book right after the window."""
        accounts, market = self.accounts, self.market
        accounts.parents["unfilled_lots"][last] = accounts.parents["remaining_lots"][last]
        forced = np.zeros(self.num_envs, CHILD)
        forced["market_lots"][last] = accounts.parents["remaining_lots"][last]
        market.force(np.flatnonzero(last), forced[last])
        final = market.fills[last]
        for name in ("lots", "notional", "fee_microticks"):
            fills[name][last] += final[name]
        accounts.add_forced(last, final)
