"""Several execution agents in one market, as a PettingZoo ParallelEnv: they share a parent order or have one each, and they may talk.

An action is the execution action of the vector environment, then a message of numbers in [-1, 1], which the others find at the end of
their next observation. Messages cost nothing and mean nothing but what the agents make of them.
"""

from typing import Any

import gymnasium
import numpy as np
from pettingzoo import ParallelEnv

from serl.agents.execution.environment.shared import SharedReplayMarket
from serl.agents.execution.environment.vector import PRICE_ADVANTAGE, ExecutionVectorEnv, Reward, Sampler
from serl.exchange.errors import ConfigError
from serl.exchange.records import Rows

WINDOW = ("day", "start_ns", "interval_ns", "steps")


class ExecutionParallelEnv(ParallelEnv[str, Any, Any]):  # type: ignore[misc]
    """K agents, named agent_0 and so on, over a shared replay market of one book.

    shared: one parent order is divided into shares as equal as whole lots allow (at least a lot each), and everybody's reward is that of
    the whole order. Otherwise every agent has an order of its own, of the same window, and its own reward. All end together.
    `options` are those of ExecutionVectorEnv.
    """

    metadata = {"name": "serl_execution_v0", "render_modes": [], "is_parallelizable": True}  # noqa: RUF012

    def __init__(
        self, market: SharedReplayMarket, sampler: Sampler, *, shared: bool = True, message_size: int = 2,
        reward: Reward = PRICE_ADVANTAGE, **options: Any,
    ) -> None:  # fmt: skip
        if market.agents != market.count:
            raise ConfigError(f"a shared replay market of one book is due, got {market.count // market.agents} books")
        if message_size < 0:
            raise ConfigError(f"message_size: 0 or more is due, got {message_size}")
        self.vector = ExecutionVectorEnv(market, sampler, **options)
        self.shared, self.message_size = shared, message_size
        self.possible_agents = [f"agent_{number}" for number in range(market.agents)]
        self.agents: list[str] = []
        self.render_mode = None
        self._reward = reward
        self._random: np.random.Generator | None = None
        self._messages = np.zeros((market.agents, message_size), np.float32)
        acting, seen = self.vector.single_action_space, self.vector.single_observation_space
        words, heard = np.ones(message_size, np.float32), np.ones((market.agents - 1) * message_size, np.float32)
        self._acting = int(acting.shape[0])
        action = (np.concatenate((acting.low, -words)), np.concatenate((acting.high, words)))
        sight = (np.concatenate((seen.low, -heard)), np.concatenate((seen.high, heard)))
        self.action_spaces = {agent: gymnasium.spaces.Box(*action) for agent in self.possible_agents}
        self.observation_spaces = {agent: gymnasium.spaces.Box(*sight) for agent in self.possible_agents}

    def action_space(self, agent: str) -> Any:
        """The same for all."""
        return self.action_spaces[agent]

    def observation_space(self, agent: str) -> Any:
        """The same for all."""
        return self.observation_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        """New parent orders and silence; options {"episodes": EPISODE rows, one an agent} names them."""
        if seed is not None or self._random is None:
            self._random = np.random.Generator(np.random.PCG64(seed))
        self.agents = list(self.possible_agents)
        self._messages[:] = 0
        given = (options or {}).get("episodes")
        self.vector.reset(options={"episodes": self._orders() if given is None else given})
        return self._observe(), {agent: {} for agent in self.agents}

    def _orders(self) -> Rows:
        """(K,) EPISODE rows of one window."""
        count, sampler, random = len(self.possible_agents), self.vector.sampler, self._random
        assert random is not None, "a reset comes first"
        if not self.shared:
            rows = sampler.sample(random, count).copy()
            for name in WINDOW:
                rows[name] = rows[name][0]
            return rows
        rows = np.repeat(sampler.sample(random, 1), count)
        each, more = divmod(int(rows["qty_lots"][0]), count)
        rows["qty_lots"] = np.maximum(1, each + (np.arange(count) < more))
        return rows

    def step(self, actions: dict[str, Any]) -> tuple[Any, Any, Any, Any, Any]:
        """One decision of every agent. infos at the end: `results` of one's own order, see Accounts.results."""
        table = np.stack([np.asarray(actions[agent], np.float64) for agent in self.agents])
        fills, last = self.vector.decide(table[:, : self._acting])
        self._messages[:] = np.clip(table[:, self._acting :], -1, 1)
        rewards = np.asarray(self._reward(self.vector, fills, last), np.float64)
        if self.shared:
            qty = self.vector.accounts.episodes["qty_lots"]
            rewards[:] = rewards @ qty / qty.sum()
        agents, over = self.agents, bool(last[0])
        infos: dict[str, dict[str, Any]] = {agent: {} for agent in agents}
        if over:
            results = self.vector.accounts.results()
            for place, agent in enumerate(agents):
                infos[agent]["results"] = {name: float(values[place]) for name, values in results.items()}
        observations = self._observe()
        self.agents = [] if over else agents
        return (
            observations, {agent: float(rewards[place]) for place, agent in enumerate(agents)},
            dict.fromkeys(agents, over), dict.fromkeys(agents, False), infos,
        )  # fmt: skip

    def _observe(self) -> dict[str, Any]:
        """One's own observation, then the last messages of the others in their order."""
        own = self.vector.observe()
        return {
            agent: np.concatenate((own[place], np.delete(self._messages, place, axis=0).ravel()))
            for place, agent in enumerate(self.possible_agents)
        }

    def render(self) -> None:
        """Nothing: the reports draw."""

    def close(self) -> None:
        """Nothing is held."""
