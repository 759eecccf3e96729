"""Several execution agents in one market, as a PettingZoo ParallelEnv. They share a parent order or have one each, and may communicate.

An action is an execution action of the vector environment, followed by a message of numbers in [-1, 1] that the other agents receive at the end
of their next observation. Messages cost nothing and have no fixed meaning.
"""

from typing import Any

import gymnasium
import numpy as np
from pettingzoo import ParallelEnv

from serl.agents.execution.environment.replay import ReplayMarket
from serl.agents.execution.environment.vector import (
    PRICE_ADVANTAGE,
    ExecutionVectorEnv,
    Reward,
    Sampler,
    check_started,
    numbers_of,
    seeded,
)
from serl.agents.execution.environment.windows import split_lots
from serl.exchange.errors import ConfigError
from serl.exchange.records import Rows

WINDOW = ("day", "start_ns", "interval_ns", "steps")


class ExecutionParallelEnv(ParallelEnv[str, Any, Any]):
    """K agents, named agent_0, agent_1 and so on, in a replay market with one book.

    shared: split one parent order as evenly as whole lots allow (at least one lot each), and give every agent the reward of the whole order.
    Otherwise each agent has its own order, in the same window, and its own reward. All agents finish together. options: those of
    ExecutionVectorEnv.
    """

    metadata = {"name": "serl_execution_v0", "render_modes": [], "is_parallelizable": True}  # noqa: RUF012

    def __init__(
        self, market: ReplayMarket, sampler: Sampler, *, shared: bool = True, message_size: int = 2,
        reward: Reward = PRICE_ADVANTAGE, **options: Any,
    ) -> None:  # fmt: skip
        if market.agents != market.count:
            raise ConfigError(f"expected a replay market with one book, got {market.count // market.agents} books")
        if message_size < 0:
            raise ConfigError(f"message_size: expected 0 or more, got {message_size}")
        self.vector = ExecutionVectorEnv(market, sampler, **options)
        self.shared, self.message_size, self._lot_multiples = shared, message_size, market.lot_multiples
        self.possible_agents = [f"agent_{number}" for number in range(market.agents)]
        self.agents: list[str] = []
        self.render_mode: str | None = None
        self._reward = reward
        self._random: np.random.Generator | None = None
        self._messages = np.zeros((market.agents, message_size), np.float32)
        actions, observations = self.vector.single_action_space, self.vector.single_observation_space
        sent, received = np.ones(message_size, np.float32), np.ones((market.agents - 1) * message_size, np.float32)
        self._action_size = int(actions.shape[0])
        action_bounds = (np.concatenate((actions.low, -sent)), np.concatenate((actions.high, sent)))
        observation_bounds = (
            np.concatenate((observations.low, -received)), np.concatenate((observations.high, received))
        )  # fmt: skip
        self.action_spaces = {agent: gymnasium.spaces.Box(*action_bounds) for agent in self.possible_agents}
        self.observation_spaces = {agent: gymnasium.spaces.Box(*observation_bounds) for agent in self.possible_agents}

    def action_space(self, agent: str) -> Any:
        """The same for all agents."""
        return self.action_spaces[agent]

    def observation_space(self, agent: str) -> Any:
        """The same for all agents."""
        return self.observation_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        """Starts new parent orders, without messages. The option {"episodes": EPISODE rows, one per agent} sets them instead of sampling."""
        if seed is not None or self._random is None:
            self._random = seeded(seed)
        self.agents = list(self.possible_agents)
        self._messages[:] = 0
        episodes = (options or {}).get("episodes")
        self.vector.reset(options={"episodes": self._sample_orders() if episodes is None else episodes})
        return self._observe(), {agent: {} for agent in self.agents}

    def _sample_orders(self) -> Rows:
        """(K,) EPISODE rows in the same window."""
        count, sampler, random = len(self.possible_agents), self.vector.sampler, self._random
        assert random is not None, "reset sets the generator"
        if not self.shared:
            rows = sampler.sample(random, count).copy()
            while np.any(other := rows["day"] != rows["day"][0]):  # sizes depend on the day's volume
                rows[other] = sampler.sample(random, int(other.sum()))
            for name in WINDOW:
                rows[name] = rows[name][0]
            return rows
        rows = np.repeat(sampler.sample(random, 1), count)
        lot = int(self._lot_multiples[rows["day"][0]])
        rows["qty_lots"] = split_lots(np.maximum(rows["qty_lots"][:1], count * lot), count, lot)
        return rows

    def step(self, actions: dict[str, Any]) -> tuple[Any, Any, Any, Any, Any]:
        """Executes one decision of every agent. At the end, infos have the `results` of each agent's own order; see Accounts.results. Raises ConfigError
        unless every agent has an action, before anything is executed."""
        check_started(bool(self.agents))
        if missing := [agent for agent in self.agents if agent not in actions]:
            raise ConfigError(f"actions: expected one of each agent, got none of {', '.join(missing)}")
        table = np.stack(
            [numbers_of(actions[agent], (self._action_size + self.message_size,)) for agent in self.agents]
        )
        fills, last = self.vector.step_without_reset(table[:, : self._action_size])
        self._messages[:] = np.clip(table[:, self._action_size :], -1, 1)
        rewards = np.asarray(self._reward(self.vector, fills, last), np.float64)
        if self.shared:
            qty = self.vector.accounts.episodes["qty_lots"]
            rewards[:] = rewards @ qty / qty.sum()
        agents, done = self.agents, bool(last[0])
        infos: dict[str, dict[str, Any]] = {agent: {} for agent in agents}
        if done:
            results = self.vector.accounts.results()
            for index, agent in enumerate(agents):
                infos[agent]["results"] = {name: float(values[index]) for name, values in results.items()}
        observations = self._observe()
        self.agents = [] if done else agents
        return (
            observations, {agent: float(rewards[index]) for index, agent in enumerate(agents)},
            dict.fromkeys(agents, done), dict.fromkeys(agents, False), infos,
        )  # fmt: skip

    def _observe(self) -> dict[str, Any]:
        """Each agent's own observation, followed by the last messages of the others in order."""
        own = self.vector.observe()
        return {
            agent: np.concatenate((own[index], np.delete(self._messages, index, axis=0).ravel()))
            for index, agent in enumerate(self.possible_agents)
        }

    def render(self) -> None:
        """Does nothing; reports have plots."""

    def close(self) -> None:
        """Does nothing; there are no resources to release."""
