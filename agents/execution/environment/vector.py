"""The gymnasium VectorEnv: N parent orders at once, over any ExecutionMarket.

Actions, all in [0, 1] but the offset: `market` (share of what remains, traded at once), `limit` (share, offset) and `hybrid`
(market share, limit share, offset). `paced` is hybrid in multiples of the even slice, what remains over the decisions that are left: 0 to
FASTEST of them; its middle is a TWAP, so that learning need not find one first. An offset of -1 .. 1 stands for that many times offset_ticks ticks plus
offset_bps of the mid, behind the own touch. What is
left at the end of the window crosses the book (forced completion); AFI says how much that was.
"""

from collections.abc import Callable
from typing import Any, Protocol

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from serl.agents.execution.environment.account import Accounts, mids
from serl.agents.execution.environment.market import ExecutionMarket
from serl.agents.execution.environment.observation import Layout, Observer, Scales
from serl.agents.execution.environment.records import CHILD
from serl.agents.execution.environment.rewards import PriceAdvantage
from serl.exchange.errors import ConfigError
from serl.exchange.records import Rows

LAYOUT, SCALES = Layout(), Scales()
ACTIONS = {"market": 1, "limit": 2, "hybrid": 3, "paced": 3}
FASTEST = 2.0
"""Even slices that an action of 1 stands for in mode `paced`."""


class Sampler(Protocol):
    """Where episodes come from."""

    def sample(self, random: np.random.Generator, count: int) -> Rows:
        """(count,) EPISODE rows."""


Reward = Callable[["ExecutionVectorEnv", Rows, Any], Any]
"""(environment, FILL rows of the step, (N,) whether it is the last) -> (N,) rewards; see rewards.py."""
PRICE_ADVANTAGE = PriceAdvantage()


class ExecutionVectorEnv(VectorEnv):  # type: ignore[misc]
    """See the module. `reset(seed)` determines every episode that follows."""

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(
        self, market: ExecutionMarket, sampler: Sampler, *, actions: str = "market", layout: Layout = LAYOUT,
        scales: Scales = SCALES, offset_ticks: float = 5.0, offset_bps: float = 0.0, fee_bps: float = 0.0,
        reward: Reward = PRICE_ADVANTAGE, agents: int = 1,
    ) -> None:  # fmt: skip
        """agents: how many neighbouring environments share a parent order; for policies that talk."""
        if actions not in ACTIONS:
            raise ConfigError(f"actions: one of {', '.join(ACTIONS)} is due, got {actions!r}")
        self.market, self.sampler, self.actions = market, sampler, actions
        self.offset_ticks, self.offset_bps = offset_ticks, offset_bps
        self.num_envs, self.agents = market.count, agents
        self.accounts = Accounts(market.count, fee_bps)
        self.observer = Observer(market.count, layout, scales)
        self.layout = layout
        self._everyone = np.arange(self.num_envs)
        self._reward = reward
        self._np_random: np.random.Generator | None = None
        low = np.zeros(ACTIONS[actions], np.float32)
        if actions != "market":
            low[-1] = -1.0
        self.single_action_space = gymnasium.spaces.Box(low, np.ones_like(low))
        self.single_observation_space = gymnasium.spaces.Box(-10.0, 10.0, (layout.size,), np.float32)
        self.action_space = gymnasium.vector.utils.batch_space(self.single_action_space, self.num_envs)
        self.observation_space = gymnasium.vector.utils.batch_space(self.single_observation_space, self.num_envs)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """New episodes everywhere; options {"episodes": EPISODE rows} names them instead of sampling."""
        if seed is not None:
            self.np_random = np.random.Generator(np.random.PCG64(seed))
        given = (options or {}).get("episodes")
        self._begin(self._everyone, given)
        return self.observe(), {}

    def _begin(self, which: Any, episodes: Rows | None = None) -> None:
        if episodes is None:
            episodes = self.sampler.sample(self.np_random, len(which))
        self.market.reset(which, episodes)
        self.accounts.begin(which, episodes, self.market.frames)
        self.observer.begin(which, self.market.frames)

    def observe(self, which: Any = None) -> Any:
        """(N, layout.size) now; with `which` of these environments only."""
        return self.observer.observe(self.market.frames, self.market.fills, self.accounts, which)

    def split(self, actions: Any) -> tuple[Any, Any, Any]:
        """(market share, limit share, offset in ticks) of (N, k) actions."""
        actions = np.asarray(actions, np.float64).reshape(self.num_envs, -1)
        nothing = np.zeros(self.num_envs)
        if self.actions == "market":
            return actions[:, 0], nothing, nothing
        offset = np.rint(actions[:, -1] * self._reach_ticks())
        if self.actions == "limit":
            return nothing, actions[:, 0], offset
        shares = actions[:, :2]
        if self.actions == "paced":
            left = self.accounts.episodes["steps"] - self.accounts.parents["step"]
            shares = np.minimum(1.0, FASTEST * shares / left[:, None])
        return shares[:, 0], shares[:, 1], offset

    def _reach_ticks(self) -> Any:
        """(N,) what an offset of 1 is."""
        return self.offset_ticks + np.nan_to_num(self.offset_bps * 1e-4 * mids(self.market.frames))

    def decide(self, actions: Any) -> tuple[Rows, Any]:
        """One decision of every parent order, no new episodes: (FILL rows, (N,) whether it was the last); forced completion included."""
        accounts, market = self.accounts, self.market
        children = accounts.children(*self.split(actions), market.frames)
        market.step(children, accounts.ends_ns())
        fills = market.fills.copy()
        accounts.settle(fills, market.frames)
        self.observer.note(market.frames)
        accounts.parents["step"] += 1
        last = accounts.parents["step"] == accounts.episodes["steps"]
        if np.any(last):
            self._complete(last, fills)
        return fills, last

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """One decision of every parent order. info: `results` (see Accounts.results) and `done` of those that ended,
        `final_obs` before the next episode began."""
        accounts = self.accounts
        fills, last = self.decide(actions)
        done = last  # also with nothing left to trade: its benchmark is the VWAP of the whole window
        rewards = np.asarray(self._reward(self, fills, done), np.float64)
        observations = self.observe()
        info: dict[str, Any] = {}
        if np.any(done):
            which = np.flatnonzero(done)
            info = {"done": done, "results": accounts.results(), "final_obs": observations.copy()}
            self._begin(which)
            observations[which] = self.observe(which)
        return observations, rewards, done, np.zeros(self.num_envs, bool), info

    def _complete(self, last: Any, fills: Rows) -> None:
        """Forced completion: what is left crosses the book right after the window."""
        accounts, market = self.accounts, self.market
        accounts.parents["unfilled_lots"][last] = accounts.parents["remaining_lots"][last]
        forced = np.zeros(self.num_envs, CHILD)
        forced["market_lots"][last] = accounts.parents["remaining_lots"][last]
        market.force(np.flatnonzero(last), forced[last])
        more = market.fills[last]
        fills["lots"][last] += more["lots"]
        fills["notional"][last] += more["notional"]
        parents = accounts.parents
        parents["remaining_lots"][last] -= more["lots"]
        parents["notional"][last] += more["notional"]
        parents["fees"][last] += more["notional"] * accounts.fee_bps * 1e-4
