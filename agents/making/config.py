"""Settings of a market-making environment."""

from typing import Any

from pydantic import Field, model_validator

from serl.agents.execution.environment.market_state import LIMITS
from serl.agents.positions.config import PositionConfig, settings_of
from serl.agents.traders.population import PopulationConfig
from serl.exchange.errors import ConfigError


class MakingConfig(PositionConfig):
    """The market, the days, and what a market maker may do."""

    quote_lots: int = Field(100, ge=1, le=LIMITS.qty_lots_max, description="quantity of each quote")
    inventory_lots_max: int = Field(
        1000,
        ge=1,
        le=LIMITS.qty_lots_max,
        description="largest inventory; a side whose fill would exceed it is not quoted",
    )
    offset_ticks: float = Field(5.0, gt=0, description="largest distance of a quote from the mid")
    inventory_penalty: float = Field(
        1e-3, ge=0, description="penalty in the reward: this many ticks a second, times the squared inventory in quotes"
    )

    @property
    def unit_lots(self) -> int:
        """The size of a quote."""
        return self.quote_lots

    def check_lots(self, population: PopulationConfig) -> None:
        """Raises ConfigError unless a quote has lots after rounding to those of a population."""
        least = population.market.lot_multiple
        if self.quote_lots < least:
            raise ConfigError(
                f"quote_lots: expected at least {least}, the lot_multiple of {population.name}, got {self.quote_lots}"
            )

    @model_validator(mode="after")
    def _holds_a_quote(self) -> "MakingConfig":
        if self.inventory_lots_max < self.quote_lots:
            raise ValueError(
                f"expected inventory_lots_max of at least quote_lots ({self.quote_lots}), got {self.inventory_lots_max}"
            )
        return self


def making_settings(**settings: Any) -> MakingConfig:
    """Builds settings from keyword arguments. Raises `ConfigError`."""
    return settings_of(MakingConfig, settings)
