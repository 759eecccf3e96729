"""The gymnasium VectorEnv of taking positions: N agents, each alone among the simulated traders of its market.

Each decision is a target position, from -`inventory_lots_max` (short) to `inventory_lots_max` (long); a market order trades the difference.
"""

from typing import Any

import numpy as np

from serl.agents.directional.config import DirectionalConfig
from serl.agents.execution.environment.vector import Sampler
from serl.agents.positions.market import PositionMarket
from serl.agents.positions.observation import Observer, market_features
from serl.agents.positions.records import DECISION
from serl.agents.positions.targets import SPREAD_TICKS, TargetVectorEnv
from serl.exchange.records import Rows

FEATURES = market_features(f"{SPREAD_TICKS:g} ticks", "inventory_lots_max")


class DirectionalVectorEnv(TargetVectorEnv):
    """See the module and `TargetVectorEnv`."""

    def __init__(self, market: PositionMarket, sampler: Sampler, config: DirectionalConfig) -> None:
        limit = config.inventory_lots_max
        self.config, self.observer = config, Observer(market.count, limit, SPREAD_TICKS, limit)
        super().__init__(market, sampler, config, self.observer, FEATURES)

    def decisions(self, actions: Any) -> Rows:
        """DECISION rows with the target positions."""
        rows = np.zeros(self.num_envs, DECISION)
        rows["takes"], rows["target_lots"] = 1, self.targets_lots(actions)
        return rows
