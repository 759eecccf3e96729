"""The gymnasium VectorEnv of taking positions: N agents, each alone among the simulated traders of its market.

Each decision is a target position, from -`inventory_lots_max` (short) to `inventory_lots_max` (long); a market order trades what is missing.
The unit of rewards and inventories is the largest position (`inventory_lots_max`): a reward of 1 is a tick on all of it.
"""

from typing import Any

import gymnasium
import numpy as np

from serl.agents.directional.config import DirectionalConfig
from serl.agents.execution.environment.vector import Sampler
from serl.agents.positions.environment import PositionVectorEnv
from serl.agents.positions.market import PositionMarket
from serl.agents.positions.observation import Observer, market_features
from serl.agents.positions.records import DECISION
from serl.exchange.errors import ConfigError
from serl.exchange.records import Rows

SPREAD_TICKS = 10.0
"""Unit of the observed spread."""
FEATURES = market_features(f"{SPREAD_TICKS:g} ticks", "inventory_lots_max")


class DirectionalVectorEnv(PositionVectorEnv):
    """See the module and `PositionVectorEnv`. Raises `ConfigError` if the targets do not differ in the lots of the market."""

    def __init__(self, market: PositionMarket, sampler: Sampler, config: DirectionalConfig) -> None:
        config.check_lots(market.population)
        limit, self._lot = config.inventory_lots_max, market.population.market.lot_multiple
        discrete = config.actions == "discrete"
        actions = (
            gymnasium.spaces.Discrete(config.positions)
            if discrete
            else gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
        )
        super().__init__(market, sampler, config, Observer(market.count, limit, SPREAD_TICKS, limit), FEATURES, actions)
        self.config = config

    def targets_lots(self, actions: Any) -> Any:
        """(N,) positions of N actions, toward 0 to whole lots of the market; continuous actions are clipped to [-1, 1]. Raises `ConfigError` for an
        action that is none."""
        config, values = self.config, np.asarray(actions, np.float64).reshape(self.num_envs)
        shares, valid, expected = np.clip(values, -1.0, 1.0), ~np.isnan(values), "numbers in [-1, 1]"
        if config.actions == "discrete":
            last = config.positions - 1
            shares, expected = values / last * 2 - 1, f"whole numbers from 0 to {last}"
            valid = (values >= 0) & (values <= last) & (values == np.floor(values))
        if not np.all(valid):
            raise ConfigError(f"actions: expected {expected}, got {values[~valid][0]:g}")
        return (np.trunc(np.round(shares * config.inventory_lots_max / self._lot, 9)) * self._lot).astype(np.int64)

    def actions_of(self, shares: Any) -> Any:
        """Actions, (N,) or (N, 1) as in the action space, for (N,) positions as shares of `inventory_lots_max`; the nearest if they are discrete."""
        shares = np.clip(np.asarray(shares, np.float64), -1.0, 1.0)
        if self.config.actions == "continuous":
            return shares[:, None]
        return np.rint((shares + 1) / 2 * (self.config.positions - 1)).astype(np.int64)

    def decisions(self, actions: Any) -> Rows:
        """Target positions."""
        rows = np.zeros(self.num_envs, DECISION)
        rows["takes"], rows["target_lots"] = 1, self.targets_lots(actions)
        return rows
