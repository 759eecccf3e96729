"""Markets of simulated traders with an executor and a market maker in each."""

from typing import Any

import numpy as np

from serl.agents.execution.environment.dynamic import DynamicMarket
from serl.agents.execution.environment.records import CHILD, FILL
from serl.agents.league.step import advance
from serl.agents.positions.records import DECISION, POSITION
from serl.agents.traders.errors import PopulationError
from serl.agents.traders.population import PopulationConfig
from serl.exchange.records import Rows

ORDERS = np.dtype([("decides", "<i8"), ("child", CHILD), ("quotes", DECISION)], align=True)
"""The orders of one step: whether the executor decides now, its child orders, and the maker's quotes."""


class LeagueMarket(DynamicMarket):
    """N markets; `step` takes ORDERS rows. Raises `PopulationError` for a market with rules.

    Attributes:
        fills, maker_fills: (N,) FILL of the executors and of the makers.
        positions: (N,) POSITION of the makers.
    """

    order_dtype = ORDERS

    def __init__(self, population: PopulationConfig, count: int, **options: Any) -> None:
        if population.has_rules:
            raise PopulationError(
                f"{population.name}: market: expected a market without rules in a league, got one with rules; give another population"
            )
        super().__init__(population, count, **options)
        self._both_fills = np.zeros((count, 2), FILL)
        self.fills, self.maker_fills = self._both_fills[:, 0], self._both_fills[:, 1]
        self.positions = np.zeros(count, POSITION)
        self._maker_states = np.zeros((count, 6), np.int64)

    def reset(self, which: Any, episodes: Rows) -> None:
        """See DynamicMarket."""
        self._maker_states[which] = 0
        super().reset(which, episodes)

    def _advance(
        self,
        span: tuple[int, int, int],
        which: Any,
        children: Rows,
        until_ns: Any,
        limit_ns: int,
        buffers: Any,
        kept: Any,
    ) -> Any:
        """See DynamicMarket."""
        decides, orders, quotes = (np.ascontiguousarray(children[name]) for name in ("decides", "child", "quotes"))
        return advance(
            self._markets, which, *span, buffers.row, self._env_states, self._maker_states, self._signs, decides, orders, quotes, until_ns,
            self.latency_ns, buffers.events, self.frames, self._both_fills, self.positions, *kept,
        )  # fmt: skip
