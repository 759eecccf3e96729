"""Settings of a market to learn or to be compared in."""

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from serl.exchange.config import time_of_day_ns
from serl.exchange.errors import ConfigError

Part = Literal["train", "validation", "test", "unseen"]
TIME = r"\d{2}:\d{2}(:\d{2})?"


class MarketConfig(BaseModel):
    """Which market, which part of its data, which parent orders in it, what is seen and done."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["static", "replay", "dynamic"] = Field("replay", description="see docs/environments.md")
    data: list[Path] = Field([], description="static: one file of bars, or days with a book; replay: days with a book")
    population: str = Field("rmsc04", description="dynamic: a shipped population or a YAML file")
    simulated_days: int = Field(16, gt=0, le=1000, description="dynamic: seeds of each part")
    part: Part = Field(
        "train", description="of the data, see `serl data`; simulated days have seeds of their own in each"
    )
    hours: str | None = Field(
        None,
        pattern=f"^{TIME}-{TIME}$",
        description="like 10:00-14:00; books and simulated days: instead of the part's",
    )
    environments: int = Field(32, gt=0)
    latency_us: float = Field(1000.0, ge=0, description="not of bars")
    half_spread_bps: float = Field(1.0, ge=0, description="of bars")
    impact_bps: float = Field(0.0, ge=0, description="of bars")
    participation: float = Field(0.2, gt=0, le=1, description="of bars")
    duration_s: float = Field(600.0, gt=0)
    interval_s: float = Field(10.0, gt=0)
    share_min: float = Field(0.005, gt=0, le=1, description="of the volume expected in the window")
    share_max: float = Field(0.05, gt=0, le=1)
    actions: Literal["market", "limit", "hybrid", "paced"] = "paced"
    offset_ticks: float = Field(5.0, ge=0, description="what an offset of 1 means, plus ...")
    offset_bps: float = Field(0.0, ge=0, description="... so many bps of the mid")
    levels: int = Field(5, gt=0, le=10)
    fee_bps: float = Field(0.0, ge=0)
    reward: Literal["price", "schedule"] = Field("schedule", description="see agents/execution/environment/rewards.py")
    deviation_bps: float = Field(0.0, ge=0, description="of the reward `schedule`: cost of being off even slices")
    unfilled_bps: float = Field(0.0, ge=0, description="of the reward `schedule`: cost of what is forced at the end")

    @property
    def span_ns(self) -> tuple[int, int] | None:
        """Hours of the settings."""
        if self.hours is None:
            return None
        start, _, end = self.hours.partition("-")
        return time_of_day_ns(start), time_of_day_ns(end)


def with_changes(market: MarketConfig, changes: dict[str, Any]) -> MarketConfig:
    """The same market but for what is not None; ConfigError says what is wrong."""
    given = {name: value for name, value in changes.items() if value is not None}
    try:
        return MarketConfig(**(market.model_dump() | given))
    except ValidationError as error:
        raise ConfigError(first_of(error)) from None


def first_of(error: ValidationError) -> str:
    """The first thing that is wrong with settings."""
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}, got {first['input']!r}"
