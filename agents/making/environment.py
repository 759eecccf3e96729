"""The gymnasium VectorEnv of market making: N market makers, each alone among the simulated traders of its market.

Each decision sets a bid and an ask for the next interval: an action in [-1, 1] for each side is a distance from the mid of 0 to `offset_ticks`
ticks. A side that would take the inventory beyond its limit is not quoted. At the end of its window a market maker cancels its quotes and
trades its position away at the market's price. The reward is the change of its wealth at the mid, less `inventory_penalty` times the squared
inventory (in quotes) for each second, in units of one tick on one quote (`quote_lots`).
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from serl.agents.execution.environment.vector import Sampler
from serl.agents.making.accounts import SECOND_NS, Ledger
from serl.agents.making.config import MakingConfig
from serl.agents.making.market import MakingMarket
from serl.agents.making.observation import FEATURES, Observer
from serl.agents.making.records import QUOTE
from serl.exchange.kernel.state import ASK, BID
from serl.exchange.records import Rows


class MakingVectorEnv(VectorEnv):  # type: ignore[misc]
    """See the module. `reset(seed=...)` determines all following episodes. Units of observations as in `observation.py`."""

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(self, market: MakingMarket, sampler: Sampler, config: MakingConfig) -> None:
        self.market, self.sampler, self.config = market, sampler, config
        self.num_envs = market.count
        self.ledger = Ledger(self.num_envs)
        self.observer = Observer(self.num_envs, config)
        self.episodes: Rows = sampler.sample(np.random.default_rng(0), self.num_envs)
        self.step_numbers = np.zeros(self.num_envs, np.int64)
        self._all = np.arange(self.num_envs)
        self._np_random: np.random.Generator | None = None
        self.single_action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.single_observation_space = gymnasium.spaces.Box(-10.0, 10.0, (len(FEATURES),), np.float32)
        self.action_space = gymnasium.vector.utils.batch_space(self.single_action_space, self.num_envs)
        self.observation_space = gymnasium.vector.utils.batch_space(self.single_observation_space, self.num_envs)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts new episodes in all environments; options {"episodes": EPISODE rows} sets them instead of sampling."""
        if seed is not None:
            self.np_random = np.random.Generator(np.random.PCG64(seed))
        self._start(self._all, (options or {}).get("episodes"))
        return self.observe(), {}

    def _start(self, which: Any, episodes: Rows | None = None) -> None:
        if episodes is None:
            episodes = self.sampler.sample(self.np_random, len(which))
        self.market.reset(which, episodes)
        self.episodes[which] = episodes
        self.step_numbers[which] = 0
        self.ledger.begin(which, self.market.frames)
        self.observer.begin(which, self.ledger.mid)

    @property
    def inventory(self) -> Any:
        """(N,) positions in quotes of `quote_lots`."""
        return self.market.positions["lots"] / self.config.quote_lots

    @property
    def remaining_s(self) -> Any:
        """(N,) seconds until the window ends."""
        left = self.episodes["steps"] - self.step_numbers
        return left * self.episodes["interval_ns"] / SECOND_NS

    def observe(self) -> Any:
        """(N, features) float32."""
        share_left = 1.0 - self.step_numbers / np.maximum(1, self.episodes["steps"])
        return self.observer.observe(self.market.frames, self.market.positions, self.ledger.mid, share_left)

    def quotes(self, offsets_ticks: Any) -> Rows:
        """QUOTE rows for (N, 2) distances from the mid, of bid and ask: away from it to whole ticks, and never beyond the other side's best."""
        config, frames, mid = self.config, self.market.frames, self.ledger.mid
        rows = np.zeros(self.num_envs, QUOTE)
        best_bid, best_ask = frames["bid_ticks"][:, 0], frames["ask_ticks"][:, 0]
        bid, ask = np.floor(mid - offsets_ticks[:, BID]), np.ceil(mid + offsets_ticks[:, ASK])
        bid = np.where(best_ask > 0, np.minimum(bid, best_ask - 1), bid)
        ask = np.where(best_bid > 0, np.maximum(ask, best_bid + 1), ask)
        rows["price_ticks"][:, BID] = np.minimum(bid, ask - 1)
        rows["price_ticks"][:, ASK] = ask
        held = self.market.positions["lots"]
        room = np.stack([config.inventory_lots_max - held, config.inventory_lots_max + held], 1)
        rows["lots"] = np.where(rows["price_ticks"] > 0, np.clip(room, 0, config.quote_lots), 0)
        return rows

    def offsets(self, actions: Any) -> Any:
        """(N, 2) distances from the mid, in ticks, of (N, 2) actions."""
        actions = np.clip(np.asarray(actions, np.float64).reshape(self.num_envs, 2), -1.0, 1.0)
        return (actions + 1) / 2 * self.config.offset_ticks

    def actions_of(self, offsets_ticks: Any) -> Any:
        """(N, 2) actions for distances from the mid, at most `offset_ticks`."""
        return np.clip(2 * np.asarray(offsets_ticks) / self.config.offset_ticks - 1, -1.0, 1.0)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """One decision of each market maker. info: for those whose window ended, `done`, `results` (see Ledger.results) and `final_obs`."""
        market, config = self.market, self.config
        self.step_numbers += 1
        until_ns = self.episodes["start_ns"] + self.step_numbers * self.episodes["interval_ns"]
        market.step(self.quotes(self.offsets(actions)), until_ns)
        lots = market.fills["lots"].astype(float)
        done = self.step_numbers == self.episodes["steps"]
        if np.any(done):
            market.flatten(np.flatnonzero(done))
            lots[done] += market.fills["lots"][done]
        change = self.ledger.record(market.frames, market.positions, lots)
        penalty = config.inventory_penalty * self.inventory**2 * self.episodes["interval_ns"] / SECOND_NS
        rewards = change / config.quote_lots - penalty
        self.observer.record(market.frames, self.ledger.mid)
        observations = self.observe()
        info: dict[str, Any] = {}
        if np.any(done):
            which = np.flatnonzero(done)
            info = {"done": done, "results": self.ledger.results(market.positions), "final_obs": observations.copy()}
            self._start(which)
            observations[which] = self.observe()[which]
        return observations, rewards, done, np.zeros(self.num_envs, bool), info

    def close_extras(self, **_options: Any) -> None:
        """Stops the market's threads."""
        self.market.close()
