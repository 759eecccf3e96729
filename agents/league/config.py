"""Settings of a league."""

import math

from pydantic import Field, model_validator

from serl.agents.execution.environment.episodes import RandomOrders
from serl.agents.learning.market_config import DURATION_S_MAX, MarketConfig, Part
from serl.agents.learning.settings import LearningSettings, check_latency
from serl.agents.learning.sources import Source, open_source
from serl.agents.making.config import MakingConfig


class LeagueConfig(LearningSettings):
    """Settings of the market, the parent orders, and the makers."""

    population: str = Field("liquid", description="a shipped population or a YAML file, of a market without rules")
    simulated_days: int = Field(16, gt=0, le=1000, description="seeds of each part")
    environments: int = Field(32, gt=0)
    duration_s: float = Field(300.0, gt=0, le=DURATION_S_MAX)
    interval_s: float = Field(10.0, gt=0, description="between decisions of an executor")
    ratio: int = Field(10, ge=1, description="decisions of a maker for one of an executor")
    share_min: float = Field(0.02, gt=0, le=1, description="smallest order, as a share of the volume expected")
    share_max: float = Field(0.1, gt=0, le=1)
    latency_us: float = Field(1000.0, ge=0)
    quote_lots: int = Field(100, ge=1)
    inventory_lots_max: int = Field(1000, ge=1)
    offset_ticks: float = Field(5.0, gt=0, description="largest distance of a quote from the mid")

    @model_validator(mode="after")
    def _decides_in_whole_intervals(self) -> "LeagueConfig":
        intervals = self.duration_s / self.interval_s  # 60 / 0.1 is not exactly a whole number
        if not math.isclose(intervals, round(intervals), rel_tol=1e-9):
            raise ValueError(
                f"duration_s: expected a multiple of interval_s ({self.interval_s:g}), got {self.duration_s:g}"
            )
        check_latency(self.latency_us, self.interval_s / self.ratio)
        return self

    def making(self, part: Part) -> MakingConfig:
        """Settings of makers."""
        return MakingConfig.model_validate({
            "population": self.population, "part": part, "simulated_days": self.simulated_days, "duration_s": self.duration_s,
            "interval_s": self.interval_s / self.ratio, "latency_us": self.latency_us, "quote_lots": self.quote_lots,
            "inventory_lots_max": self.inventory_lots_max, "offset_ticks": self.offset_ticks,
        })  # fmt: skip

    def source(self, part: Part) -> Source:
        """The simulated days of a part."""
        market = MarketConfig(
            kind="dynamic", population=self.population, simulated_days=self.simulated_days, part=part,
            duration_s=self.duration_s, interval_s=self.interval_s, latency_us=self.latency_us,
        )  # fmt: skip
        return open_source(market)

    def orders(self, part: Part) -> RandomOrders:
        """Parent orders on simulated days of a part. Raises `ConfigError` for a population that environments cannot use."""
        return RandomOrders(
            self.source(part).hours(part), self.duration_s, self.interval_s, self.share_min, self.share_max
        )
