"""Markets of simulated traders with an agent in each that quotes or takes positions; see `DynamicMarket`, whose markets, seeds and cache these are."""

from typing import Any, Protocol

import numpy as np

from serl.agents.execution.environment.dynamic import DynamicMarket
from serl.agents.execution.environment.own_orders import CURSOR, RESTING
from serl.agents.positions.records import DECISION, POSITION
from serl.agents.positions.step import advance
from serl.agents.traders.population import PopulationConfig
from serl.exchange.records import Rows


class AgentMarket(Protocol):
    """What an environment with positions needs of N markets; arrays have a row for each and are updated in place."""

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
    """N markets; `step` takes DECISION rows. Of an EPISODE its day (the seed) and its window count.

    Attributes:
        positions: (N,) POSITION, what the agents have; cash and fees since the day's open.
    """

    order_dtype = DECISION
    compiled_step = staticmethod(advance)

    def __init__(self, population: PopulationConfig, count: int, **options: Any) -> None:
        super().__init__(population, count, **options)
        self.positions: Rows = np.zeros(count, POSITION)
        self._own = self.positions

    def flatten(self, which: Any) -> None:
        """Cancels the quotes of markets `which`, and sells or buys their whole positions at once."""
        decisions = np.zeros(len(which), DECISION)
        decisions["takes"] = 1
        self.force(which, decisions)

    def _sends(self, env: int, decision: Any) -> bool:
        """See DynamicMarket."""
        quotes = self._env_states[env, [RESTING, CURSOR]]  # not those of `positions`, which a reset leaves as they were
        takes = decision["takes"] and decision["target_lots"] != self.positions["lots"][env]
        return bool(quotes.any() or decision["lots"].any() or takes)
