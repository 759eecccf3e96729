"""The gymnasium VectorEnv of pairs trading: N agents, each alone among the simulated traders of a market with two symbols.

Each decision is a target position in the spread: a number of lots of the second symbol, and against each lot `hedge_ratio` lots of the first.
Market orders trade the difference. The unit of rewards and inventories is the largest position in the second symbol (`inventory_lots_max`).
"""

from typing import Any

import numpy as np

from serl.agents.execution.environment.vector import Sampler
from serl.agents.pairs.config import PairConfig
from serl.agents.pairs.market import PairMarket
from serl.agents.pairs.observation import FEATURES, PairObserver
from serl.agents.pairs.spread import Spread
from serl.agents.pairs.step import TARGETS
from serl.agents.positions.targets import TargetVectorEnv
from serl.exchange.records import Rows


class PairVectorEnv(TargetVectorEnv):
    """See the module and `TargetVectorEnv`. spread: provides the unit of its observation, and the hedge ratio."""

    def __init__(self, market: PairMarket, sampler: Sampler, config: PairConfig, spread: Spread) -> None:
        self.config, self.spread = config, spread
        self.observer = PairObserver(market.count, config.inventory_lots_max, spread)
        super().__init__(market, sampler, config, self.observer, FEATURES)

    @property
    def inventory(self) -> Any:
        """(N,) positions in the second symbol, in units of `inventory_lots_max`."""
        return self.market.positions["lots"][:, 1] / self.config.inventory_lots_max

    def decisions(self, actions: Any) -> Rows:
        """TARGETS rows; the first symbol's position is rounded to whole lots of the market."""
        rows, lot = np.zeros(self.num_envs, TARGETS), self._lot
        second = self.targets_lots(actions)
        rows["target_lots"][:, 0] = -np.rint(self.spread.hedge_ratio * second / lot).astype(np.int64) * lot
        rows["target_lots"][:, 1] = second
        return rows
