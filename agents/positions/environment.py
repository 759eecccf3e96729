"""The gymnasium VectorEnv of N agents with positions, each alone among the simulated traders of its market.

Each decision becomes a DECISION row; kinds of environments differ in actions and observations. At the end of its window, an agent cancels its
quotes and closes its position at the market's price. The reward is the change of its wealth at the mid, less `inventory_penalty` times the squared
inventory (in units) per second, in units of one tick on `unit_lots`.
"""

from abc import ABC, abstractmethod
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from serl.agents.execution.environment.vector import Sampler, check_started, given_episodes, seeded
from serl.agents.positions.accounts import SECOND_NS, Ledger
from serl.agents.positions.config import PositionConfig
from serl.agents.positions.forecasts import PositionForecasts
from serl.agents.positions.market import AgentMarket
from serl.agents.positions.observation import Observing
from serl.exchange.records import Rows


class PositionVectorEnv(VectorEnv, ABC):
    """See the module. `reset(seed=...)` determines all following episodes.

    features: names of the numbers that `observe` returns, without forecasts. actions: the action space of one agent.
    """

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(
        self, market: AgentMarket, sampler: Sampler, config: PositionConfig, observer: Observing, features: tuple[str, ...],
        actions: gymnasium.Space[Any], closing_steps: int = 0,
    ) -> None:  # fmt: skip
        """closing_steps: number of steps at the end of each window in which nothing is decided."""
        self.market: Any = market
        self.sampler, self._observer = sampler, observer
        self._settings, self._closing_steps = config, closing_steps
        self.num_envs = market.count
        self.ledger = Ledger(market.frames.shape)
        self.episodes: Rows = sampler.sample(np.random.default_rng(0), self.num_envs)
        self.step_numbers = np.zeros(self.num_envs, np.int64)
        self._all = np.arange(self.num_envs)
        self._np_random: np.random.Generator | None = None
        self._is_started = False
        self._forecasts = None if config.forecaster is None else PositionForecasts(config.forecaster, market)
        if self._forecasts is not None:
            features = (*features, *self._forecasts.names)
        self.single_action_space = actions
        self.single_observation_space = gymnasium.spaces.Box(-10.0, 10.0, (len(features),), np.float32)
        self.action_space = gymnasium.vector.utils.batch_space(self.single_action_space, self.num_envs)
        self.observation_space = gymnasium.vector.utils.batch_space(self.single_observation_space, self.num_envs)

    @abstractmethod
    def decisions(self, actions: Any) -> Rows:
        """(N,) DECISION rows for actions in the environment's space."""

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts new episodes in all environments. The option {"episodes": EPISODE rows} sets them instead of sampling."""
        if seed is not None:
            self.np_random = seeded(seed)
        self._start(self._all, given_episodes(options, self.num_envs))
        return self.observe(), {}

    def _start(self, which: Any, episodes: Rows | None = None) -> None:
        if episodes is None:
            episodes = self.sampler.sample(self.np_random, len(which))
        self.market.reset(which, episodes)
        self.episodes[which] = episodes
        self.step_numbers[which] = 0
        self.ledger.begin(which, self.market.frames)
        self._observer.begin(which, self.ledger.mid)
        self._is_started = True

    @property
    def inventory(self) -> Any:
        """(N,) positions in units of `unit_lots`."""
        return self.market.positions["lots"] / self._settings.unit_lots

    @property
    def _decisions(self) -> Any:
        """(N,) number of decisions in each window."""
        return self.episodes["steps"] - self._closing_steps

    @property
    def remaining_s(self) -> Any:
        """(N,) seconds until the window ends."""
        left = self._decisions - self.step_numbers
        return left * self.episodes["interval_ns"] / SECOND_NS

    def observe(self) -> Any:
        """(N, features) float32."""
        share_left = 1.0 - self.step_numbers / np.maximum(1, self._decisions)
        seen = self._observer.observe(self.market.frames, self.market.positions, self.ledger.mid, share_left)
        return seen if self._forecasts is None else np.concatenate([seen, self._forecasts.observe()], axis=1)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Executes one decision of each agent. For agents whose window ended, info has `done`, `results` (see Ledger.results) and `final_obs`."""
        market, decisions = self.market, self.decisions(actions)
        check_started(self._is_started)
        self.step_numbers += 1
        until_ns = self.episodes["start_ns"] + self.step_numbers * self.episodes["interval_ns"]
        market.step(decisions, until_ns)
        lots, held = market.fills["lots"].astype(float), self.inventory  # before positions are closed
        done = self.step_numbers == self.episodes["steps"]
        if np.any(done):
            self.ledger.hold(market.positions)
            market.flatten(np.flatnonzero(done))
            lots[done] += market.fills["lots"][done]
        change = self.ledger.record(market.frames, market.positions, lots)
        penalty = self._settings.inventory_penalty * held**2 * self.episodes["interval_ns"] / SECOND_NS
        rewards = change / self._settings.unit_lots - penalty
        self._observer.record(self.ledger.mid)
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
