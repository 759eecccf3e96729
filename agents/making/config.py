"""Settings of a market-making environment."""

from typing import Any, Literal

import numpy as np
from pydantic import Field, ValidationError, model_validator

from serl.agents.execution.environment.episodes import SECOND_NS, Hours, RandomOrders
from serl.agents.execution.environment.hours import WARM_UP_S
from serl.agents.learning.settings import LearningSettings, first_error
from serl.agents.learning.sources import FIRST_SEEDS
from serl.agents.making.market import MakingMarket
from serl.agents.traders.phases import Phases
from serl.agents.traders.population import load_population
from serl.exchange.errors import ConfigError


class MakingConfig(LearningSettings):
    """The market, the days, and what a market maker may do."""

    population: str = Field("liquid", description="a shipped population or a YAML file")
    part: Literal["train", "validation", "test"] = Field(
        "train", description="simulated days have different seeds in each"
    )
    simulated_days: int = Field(16, gt=0, le=1000, description="seeds of the part")
    duration_s: float = Field(600.0, gt=0)
    interval_s: float = Field(1.0, gt=0, description="between decisions")
    latency_us: float = Field(1000.0, ge=0)
    quote_lots: int = Field(100, ge=1, description="quantity of each quote")
    inventory_lots_max: int = Field(1000, ge=1, description="a side that would go beyond is not quoted")
    offset_ticks: float = Field(5.0, gt=0, description="largest distance of a quote from the mid")
    inventory_penalty: float = Field(
        1e-3, ge=0, description="ticks for a squared inventory of one quote and a second, in the reward"
    )

    @model_validator(mode="after")
    def _fits(self) -> "MakingConfig":
        if self.duration_s < self.interval_s:
            raise ValueError(
                f"expected duration_s of at least interval_s ({self.interval_s:g}), got {self.duration_s:g}"
            )
        if self.inventory_lots_max < self.quote_lots:
            raise ValueError(
                f"expected inventory_lots_max of at least quote_lots ({self.quote_lots}), got {self.inventory_lots_max}"
            )
        return self


def making_settings(**settings: Any) -> MakingConfig:
    """Settings by name. Raises `ConfigError`."""
    try:
        return MakingConfig.model_validate(settings)
    except ValidationError as error:
        raise ConfigError(first_error(error)) from None


def making_market(config: MakingConfig, count: int) -> MakingMarket:
    """N markets of the settings. Raises `ConfigError` for a population that environments cannot have."""
    population = load_population(config.population)
    return MakingMarket(
        population, count, latency_ns=round(config.latency_us * 1000), states_kept=config.simulated_days * 16
    )


def windows(config: MakingConfig) -> RandomOrders:
    """Windows at random times of continuous trading on the days of the part; sides and quantities mean nothing here. Raises `ConfigError`."""
    population, length_ns = load_population(config.population), config.duration_s * SECOND_NS
    first_ns, latency_ns = population.open_ns + WARM_UP_S * SECOND_NS, round(config.latency_us * 1000)
    spans = [(max(start, first_ns), end - latency_ns - 1) for start, end in Phases(population).continuous()]
    spans = [(start, end) for start, end in spans if end - start >= length_ns]
    if not spans:
        raise ConfigError(
            f"{population.name}: expected {config.duration_s:g} s of continuous trading, got less; choose a shorter duration_s"
        )
    days = np.arange(config.simulated_days) + FIRST_SEEDS[config.part]
    hours = [Hours(int(day), start, end, 1.0, population.market.lot_multiple) for day in days for start, end in spans]
    return RandomOrders(hours, config.duration_s, config.interval_s)
