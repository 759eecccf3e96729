"""Markets of simulated traders with an agent in each that quotes or takes positions; see `DynamicMarket`, whose markets, seeds and cache these are."""

from typing import Any

import numpy as np

from serl.agents.execution.environment.dynamic import DynamicMarket
from serl.agents.execution.environment.market_state import Buffers, MarketState
from serl.agents.execution.environment.own_orders import NOW
from serl.agents.positions.records import DECISION, POSITION
from serl.agents.positions.step import advance
from serl.agents.traders.population import PopulationConfig
from serl.exchange.records import Rows


class PositionMarket(DynamicMarket):
    """N markets; `step` takes DECISION rows. Of an EPISODE its day (the seed) and its window count.

    Attributes:
        positions: (N,) POSITION, what the agents have; cash and fees since the day's open.
    """

    order_dtype = DECISION

    def __init__(self, population: PopulationConfig, count: int, **options: Any) -> None:
        super().__init__(population, count, **options)
        self.positions = np.zeros(count, POSITION)

    def flatten(self, which: Any) -> None:
        """Cancels the quotes of markets `which`, and sells or buys their whole positions at once."""
        decisions = np.zeros(len(which), DECISION)
        decisions["takes"] = 1
        self.force(which, decisions)

    def _step_one(self, env: int, children: Rows, index: int, until_ns: int, buffers: Buffers) -> None:
        own, decision, latency_ns = self._env_states[env], children[index], self.latency_ns
        held = self.positions[env]
        takes = decision["takes"] and decision["target_lots"] != held["lots"]
        sends = held["open_lots"].any() or decision["lots"].any() or takes

        def run(market: MarketState, limit_ns: int) -> int:
            return int(advance(
                market.crowd.traders, market.market.state, buffers.row, self._env_states, env, children, index, until_ns, limit_ns,
                latency_ns, buffers.events, self.frames, self.fills, self.positions, *market.kept,
            ))  # fmt: skip

        sends_last = bool(sends and own[NOW] + latency_ns >= until_ns)
        self._states[env].step(buffers.events, self._envs, env, until_ns, run, sends_last)
