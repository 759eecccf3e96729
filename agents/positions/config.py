"""Common settings of environments with positions, and their markets and windows."""

from abc import abstractmethod
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from pydantic import Field, ValidationError, model_validator

from serl.agents.execution.environment.episodes import SECOND_NS, Hours, RandomOrders
from serl.agents.execution.environment.hours import WARM_UP_S
from serl.agents.execution.environment.state_cache import MB_PER_DAY
from serl.agents.learning.settings import LearningSettings, check_latency
from serl.agents.learning.sources import FIRST_SEEDS
from serl.agents.positions.market import PositionMarket
from serl.agents.signals.forecaster_file import read_forecaster
from serl.agents.traders.forecasters import with_observed_forecaster
from serl.agents.traders.phases import Phases
from serl.agents.traders.population import PopulationConfig, load_population
from serl.exchange.errors import ConfigError
from serl.exchange.invalid import describe_invalid


class PositionConfig(LearningSettings):
    """The market and the days."""

    population: str = Field("liquid", description="a shipped population or a YAML file")
    forecaster: Path | None = Field(None, description="a file of `serl signals train`, whose forecasts are observed")
    part: Literal["train", "validation", "test"] = Field(
        "train", description="simulated days have different seeds in each part"
    )
    simulated_days: int = Field(16, gt=0, le=1000, description="seeds of the part")
    duration_s: float = Field(600.0, gt=0)
    interval_s: float = Field(1.0, gt=0, description="between decisions")
    latency_us: float = Field(1000.0, ge=0)
    inventory_penalty: float = Field(
        0.0, ge=0, description="penalty in the reward: this many ticks a second, times the squared inventory in units"
    )

    @property
    @abstractmethod
    def unit_lots(self) -> int:
        """The quantity whose profit in ticks is the reward."""

    @abstractmethod
    def check_lots(self, population: PopulationConfig) -> None:
        """Raises `ConfigError` if quantities of the settings vanish when they are rounded to the lots of a population."""

    @model_validator(mode="after")
    def _lasts_a_decision(self) -> "PositionConfig":
        if self.duration_s < self.interval_s:
            raise ValueError(
                f"expected duration_s of at least interval_s ({self.interval_s:g}), got {self.duration_s:g}"
            )
        check_latency(self.latency_us, self.interval_s)
        return self


Config = TypeVar("Config", bound=PositionConfig)


def settings_of(kind: type[Config], settings: dict[str, Any]) -> Config:
    """Builds settings of a kind from a mapping by name. Raises `ConfigError`."""
    try:
        return kind.model_validate(settings)
    except ValidationError as error:
        raise ConfigError(describe_invalid(error, kind, most=1)) from None


Market = TypeVar("Market", bound=PositionMarket)


def position_market(config: PositionConfig, count: int, kind: type[Market] = PositionMarket) -> Market:
    """N markets of the settings. Raises `ConfigError` for a population that environments or settings cannot use, and SignalError for a file that is not a
    forecaster."""
    population = load_population(config.population)
    config.check_lots(population)
    if config.forecaster is not None:
        population = with_observed_forecaster(population, read_forecaster(config.forecaster))
    cache_mb = config.simulated_days * MB_PER_DAY * len(population.symbols)
    return kind(population, count, latency_ns=round(config.latency_us * 1000), cache_mb=cache_mb)


def windows(config: PositionConfig) -> RandomOrders:
    """Windows at random times of continuous trading on the days of the part; sides and quantities are not used. Raises `ConfigError`."""
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
