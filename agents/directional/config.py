"""Settings of an environment in which an agent takes positions."""

from typing import Any, Literal

from pydantic import Field, field_validator

from serl.agents.execution.environment.market_state import LIMITS
from serl.agents.positions.config import PositionConfig, settings_of
from serl.agents.traders.population import PopulationConfig
from serl.exchange.errors import ConfigError


class DirectionalConfig(PositionConfig):
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
        """ConfigError unless the targets differ in the lots of a population."""
        steps = (self.positions - 1) // 2 if self.actions == "discrete" else 1
        least = steps * population.market.lot_multiple
        if self.inventory_lots_max < least:
            raise ConfigError(
                f"inventory_lots_max: expected at least {least}, so that the targets differ by a lot or more, got {self.inventory_lots_max}"
            )


def directional_settings(**settings: Any) -> DirectionalConfig:
    """Settings by name. Raises `ConfigError`."""
    return settings_of(DirectionalConfig, settings)
