"""Markets of simulated traders with a market maker in each; see `DynamicMarket`, whose markets, seeds and cache these are."""

from typing import Any

import numpy as np

from serl.agents.execution.environment.dynamic import DynamicMarket
from serl.agents.execution.environment.market_state import Buffers, MarketState
from serl.agents.execution.environment.own_orders import NOW
from serl.agents.making.records import POSITION, QUOTE
from serl.agents.making.step import advance
from serl.agents.traders.population import PopulationConfig
from serl.exchange.records import Rows


class MakingMarket(DynamicMarket):
    """N markets; `step` takes QUOTE rows. Of an EPISODE its day (the seed) and its window count.

    Attributes:
        positions: (N,) POSITION, what the market makers have; cash and fees since the day's open.
    """

    order_dtype = QUOTE

    def __init__(self, population: PopulationConfig, count: int, **options: Any) -> None:
        super().__init__(population, count, **options)
        self.positions = np.zeros(count, POSITION)

    def flatten(self, which: Any) -> None:
        """Cancels the quotes of markets `which`, and sells or buys their whole positions at once."""
        quotes = np.zeros(len(which), QUOTE)
        quotes["flatten"] = 1
        self.force(which, quotes)

    def _step_one(self, env: int, children: Rows, index: int, until_ns: int, buffers: Buffers) -> None:
        own, quote, latency_ns = self._env_states[env], children[index], self.latency_ns
        sends = self.positions["open_lots"][env].any() or quote["lots"].any() or quote["flatten"]

        def run(market: MarketState, limit_ns: int) -> int:
            return int(advance(
                market.crowd.traders, market.market.state, buffers.row, self._env_states, env, children, index, until_ns, limit_ns,
                latency_ns, buffers.events, self.frames, self.fills, self.positions, *market.kept,
            ))  # fmt: skip

        sends_last = bool(sends and own[NOW] + latency_ns >= until_ns)
        self._states[env].step(buffers.events, self._envs, env, until_ns, run, sends_last)
