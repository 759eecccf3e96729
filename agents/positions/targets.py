"""Environments whose actions are target positions: shares of the largest position, discrete or continuous.

The unit of rewards and inventories is the largest position (`inventory_lots_max`): a reward of 1 is a tick on all of it.
"""

from collections.abc import Sequence
from typing import Any, Literal, Protocol, TypeVar

import gymnasium
import numpy as np
from pydantic import Field, field_validator

from serl.agents.execution.environment.market_state import LIMITS
from serl.agents.execution.environment.vector import Sampler, shaped
from serl.agents.positions.config import PositionConfig
from serl.agents.positions.environment import PositionVectorEnv
from serl.agents.positions.evaluate import Score, compare
from serl.agents.positions.market import PositionMarket
from serl.agents.positions.observation import Observing
from serl.agents.traders.population import PopulationConfig
from serl.exchange.errors import ConfigError

SPREAD_TICKS = 10.0
"""Unit of the observed spread."""


class TargetConfig(PositionConfig):
    """The market, the days, and which positions an agent may take."""

    actions: Literal["discrete", "continuous"] = Field(
        "discrete", description="whether the target positions are discrete or continuous"
    )
    positions: int = Field(
        5,
        ge=3,
        le=101,
        description="number of discrete targets, evenly spaced from -inventory_lots_max to inventory_lots_max",
    )
    inventory_lots_max: int = Field(
        100, ge=1, le=LIMITS.qty_lots_max // 2, description="the largest position, long or short"
    )

    @field_validator("positions")
    @classmethod
    def _has_a_middle(cls, positions: int) -> int:
        if positions % 2 == 0:
            raise ValueError(f"expected an odd number, so that the middle target is no position, got {positions}")
        return positions

    @property
    def unit_lots(self) -> int:
        """The largest position."""
        return self.inventory_lots_max

    def check_lots(self, population: PopulationConfig) -> None:
        """Raises ConfigError unless the targets remain distinct after rounding to the lots of a population."""
        steps = (self.positions - 1) // 2 if self.actions == "discrete" else 1
        least = steps * population.market.lot_multiple
        if self.inventory_lots_max < least:
            raise ConfigError(
                f"inventory_lots_max: expected at least {least}, so that the targets differ by a lot or more, got {self.inventory_lots_max}"
            )


class TargetVectorEnv(PositionVectorEnv):
    """See the module and `PositionVectorEnv`."""

    def __init__(
        self, market: PositionMarket, sampler: Sampler, config: TargetConfig, observer: Observing, features: tuple[str, ...]
    ) -> None:  # fmt: skip
        self._targets, self._lot = config, market.population.market.lot_multiple
        actions = (
            gymnasium.spaces.Discrete(config.positions)
            if config.actions == "discrete"
            else gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
        )
        super().__init__(market, sampler, config, observer, features, actions)

    def targets_lots(self, actions: Any) -> Any:
        """(N,) positions of N actions, rounded towards 0 to whole lots of the market. Continuous actions are clipped to [-1, 1]. Raises `ConfigError`
        for an invalid action."""
        config, values = self._targets, shaped(actions, (self.num_envs,))
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
        if self._targets.actions == "continuous":
            return shares[:, None]
        return np.rint((shares + 1) / 2 * (self._targets.positions - 1)).astype(np.int64)


Env = TypeVar("Env", bound=TargetVectorEnv)
EnvContra = TypeVar("EnvContra", bound=TargetVectorEnv, contravariant=True)


class Rule(Protocol[EnvContra]):
    """Determines the positions in all environments at once."""

    @property
    def name(self) -> str:
        """The name in tables."""

    def shares(self, env: EnvContra) -> Any:
        """(N,) positions as shares of the largest, in [-1, 1]."""


def compare_rules(env: Env, rules: Sequence[Rule[Env]], count: int, seed: int) -> list[Score]:
    """Runs each rule alone in the same `count` windows, drawn with the seed. Closes the environment."""

    def positioning(rule: Rule[Env]) -> Any:
        return lambda: env.actions_of(rule.shares(env))

    return compare(env, [(rule.name, positioning(rule)) for rule in rules], count, seed)
