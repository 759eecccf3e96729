"""Markets of simulated traders, each with an agent that quotes or takes positions. Markets, seeds and cache are those of `DynamicMarket`."""

from typing import Any, Protocol

import numpy as np

from serl.agents.execution.environment.dynamic import DynamicMarket
from serl.agents.execution.environment.own_orders import CURSOR, RESTING
from serl.agents.positions.records import DECISION, POSITION
from serl.agents.positions.step import advance
from serl.agents.traders.population import PopulationConfig
from serl.exchange.records import Rows


class AgentMarket(Protocol):
    """N markets, as an environment with positions needs them. Arrays have one row per market and are updated in place."""

    count: int
    frames: Rows
    fills: Rows
    positions: Rows

    def reset(self, which: Any, episodes: Rows) -> None:
        """Moves markets `which` to the start of EPISODE rows."""

    def step(self, children: Rows, until_ns: Any) -> None:
        """Sends the decisions of all agents and runs each market to its time."""

    def flatten(self, which: Any) -> None:
        """Closes the positions of markets `which`."""

    def close(self) -> None:
        """Stops the threads."""


class PositionMarket(DynamicMarket):
    """N markets; `step` takes DECISION rows. Only the day (the seed) and the window of an EPISODE are used.

    Attributes:
        positions: (N,) POSITION of the agents; cash and fees count from the day's open.
    """

    order_dtype = DECISION
    compiled_step = staticmethod(advance)

    def __init__(self, population: PopulationConfig, count: int, **options: Any) -> None:
        super().__init__(population, count, **options)
        self.positions: Rows = np.zeros(count, POSITION)
        self._own = self.positions

    def flatten(self, which: Any) -> None:
        """Cancels the quotes of markets `which`, and closes their whole positions at once."""
        decisions = np.zeros(len(which), DECISION)
        decisions["takes"] = 1
        self.force(which, decisions)

    def _sends(self, env: int, decision: Any) -> bool:
        """See DynamicMarket."""
        quotes = self._env_states[env, [RESTING, CURSOR]]  # not those of `positions`, which a reset does not change
        takes = decision["takes"] and decision["target_lots"] != self.positions["lots"][env]
        return bool(quotes.any() or decision["lots"].any() or takes)
