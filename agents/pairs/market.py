"""Markets with two symbols, both of which an agent trades."""

from typing import Any

import numpy as np

from serl.agents.pairs.step import TARGETS, advance
from serl.agents.positions.market import PositionMarket
from serl.agents.positions.records import POSITION
from serl.agents.traders.errors import PopulationError
from serl.agents.traders.population import PopulationConfig
from serl.exchange.records import Rows

SYMBOLS = 2


class PairMarket(PositionMarket):
    """N markets; `step` takes TARGETS rows.

    Attributes:
        frames, fills, positions: (N, 2) FRAME, FILL, POSITION of the two symbols.
    """

    order_dtype = TARGETS
    compiled_step = staticmethod(advance)

    def __init__(self, population: PopulationConfig, count: int, **options: Any) -> None:
        super().__init__(population, count, **options)
        self.frames, self.fills = (rows.reshape(count, SYMBOLS) for rows in (self.frames, self.fills))
        self.positions = np.zeros((count, SYMBOLS), POSITION)
        self._own = self.positions

    def check_symbols(self, population: PopulationConfig) -> None:
        """Raises PopulationError unless a population has two symbols whose ticks are worth the same."""
        require_pair(population)

    def flatten(self, which: Any) -> None:
        """Closes the whole positions of markets `which` at once."""
        self.force(which, np.zeros(len(which), TARGETS))

    def _sends(self, env: int, decision: Rows) -> bool:
        """See DynamicMarket."""
        return bool(np.any(decision["target_lots"] != self.positions["lots"][env]))


def require_pair(population: PopulationConfig) -> None:
    """Raises PopulationError unless a population has two symbols whose ticks are worth the same."""
    if len(population.symbols) != SYMBOLS:
        raise PopulationError(
            f"{population.name}: symbols: expected two symbols in an environment of pairs, got {', '.join(population.symbol_names)}; "
            "give a population with two"
        )
    if len(set(map(float, population.tick_sizes))) > 1:
        raise PopulationError(
            f"{population.name}: tick_size: expected the same for both symbols of a pair, got {' and '.join(population.tick_sizes)}; set one"
        )
