"""Settings of a market for training or evaluation."""

import re
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, ValidationInfo, field_validator, model_validator

from serl.agents.learning.settings import SAVED, LearningSettings, check_latency
from serl.exchange.config import RECORDED_HOURS, time_of_day_ns
from serl.exchange.errors import ConfigError
from serl.exchange.invalid import describe_invalid

Part = Literal["train", "validation", "test", "unseen", "fold"]
FILLS_BEFORE = "touch"
"""The model of fills of settings and policies that were saved without one."""
DURATION_S_MAX = 172_800.0
"""No day is longer; much longer times in ns do not fit into 64 bits."""
TIME = r"\d{2}:\d{2}(:\d{2})?"


class MarketConfig(LearningSettings):
    """The market, the part of its data, the parent orders, and the observations and actions."""

    kind: Literal["static", "replay", "dynamic"] = Field("replay", description="see docs/environments.md")
    data: list[Path] = Field([], description="static: one file of bars, or days with a book; replay: days with a book")
    population: str = Field("rmsc04", description="dynamic: a shipped population or a YAML file")
    population_changes: dict[str, Any] = Field(
        {}, description="dynamic: changed settings of the population; keys may be dotted, like groups.0.latency_us"
    )
    simulated_days: int = Field(16, gt=0, le=1000, description="dynamic: seeds of each part")
    first_day: int = Field(
        0,
        ge=0,
        le=900_000,
        description="dynamic: number of the first simulated day of each part; another number gives other days",
    )
    part: Part = Field(
        "train", description="of the data, see `serl data`; simulated days have different seeds in each part"
    )
    fold: int | None = Field(
        None, ge=0, description="leave this fold of the training days out of training; the part `fold` consists of it"
    )
    folds: int = Field(3, ge=2, description="number of folds of the training days")
    hours: str | None = Field(
        None,
        description="like 10:00-14:00; for books and simulated days, instead of the hours of the part",
    )
    environments: int = Field(32, gt=0)
    latency_us: float = Field(1000.0, ge=0, description="of our commands; not for bars")
    answers: Literal["none", "fitted", "square_root"] = Field(
        "none",
        description="replay: whether the day gives way to our orders, and by which impact, see docs/answering.md",
    )
    forecaster: Path | None = Field(
        None, description="books and simulated days: a file of `serl signals train`, whose forecasts are observed"
    )
    fills: Literal["strict", "touch"] = Field(
        "strict", description="for bars: model of what a resting order fills, see docs/environments.md"
    )
    spreads: Literal["fixed", "stock"] = Field(
        "fixed", description="for bars; stock: half spreads estimated for each stock on its training dates"
    )
    half_spread_bps: float = Field(1.0, ge=0, description="for bars with fixed spreads")
    impact_bps: float = Field(0.0, ge=0, description="for bars")
    participation: float = Field(0.2, gt=0, le=1, description="for bars")
    duration_s: float = Field(600.0, gt=0, le=DURATION_S_MAX)
    interval_s: float = Field(10.0, gt=0, le=DURATION_S_MAX)
    share_min: float = Field(
        0.005, gt=0, le=1, description="smallest order, as a share of the volume expected in the window"
    )
    share_max: float = Field(0.05, gt=0, le=1, description="largest order")
    actions: Literal["market", "limit", "hybrid", "paced"] = "paced"
    offset_ticks: float = Field(5.0, ge=0, description="an offset of 1 is so many ticks ...")
    offset_bps: float = Field(0.0, ge=0, description="... plus so many bps of the mid")
    levels: int = Field(5, gt=0, le=10)
    left_out: tuple[str, ...] = Field(
        (), description="observations to leave out, like return_4; or all of a name, like bid_lots"
    )
    fee_bps: float = Field(
        0.0, ge=0, description="of the notional; dynamic: on top of what the population's market charges"
    )
    reward: Literal["price", "schedule", "undisturbed"] = Field(
        "schedule", description="see rewards.py and undisturbed.py in agents/execution/environment"
    )
    deviation_bps: float = Field(0.0, ge=0, description="all rewards but `price`: cost of deviating from even slices")
    unfilled_bps: float = Field(0.0, ge=0, description="all rewards but `price`: cost of forced completion at the end")

    @model_validator(mode="before")
    @classmethod
    def _fills_before_there_was_a_choice(cls, values: Any, info: ValidationInfo) -> Any:
        """Fills in the model for settings that serl saved before there was a choice."""
        if info.context == SAVED and isinstance(values, dict) and "fills" not in values:
            return {**values, "fills": FILLS_BEFORE}
        return values

    @field_validator("hours")
    @classmethod
    def _hours_are_times(cls, hours: str | None) -> str | None:
        if hours is None:
            return None
        if not re.fullmatch(f"{TIME}-{TIME}", hours):
            raise ValueError("expected FROM-TO, like 10:00-14:00")
        start_ns, end_ns = _span_ns(hours)
        if start_ns >= end_ns:
            raise ValueError("expected an end after the start")
        return hours

    @model_validator(mode="after")
    def _only_replays_answer(self) -> "MarketConfig":
        if self.answers != "none" and self.kind != "replay":
            raise ValueError(
                f"answers: expected none in a {self.kind} market, got {self.answers}; only a replay can answer"
            )
        return self

    @model_validator(mode="after")
    def _commands_arrive_before_the_next(self) -> "MarketConfig":
        check_latency(self.latency_us, self.interval_s)
        return self

    def absolute(self) -> "MarketConfig":
        """The same settings with absolute paths, for other processes and machines."""
        forecaster = self.forecaster and self.forecaster.resolve()
        population = str(Path(self.population).resolve()) if Path(self.population).is_file() else self.population
        changes = {"data": [path.resolve() for path in self.data], "forecaster": forecaster, "population": population}
        return self.model_copy(update=changes)

    @property
    def span_ns(self) -> tuple[int, int] | None:
        """`hours` as times of day; None without them."""
        return None if self.hours is None else _span_ns(self.hours)


def _span_ns(hours: str) -> tuple[int, int]:
    start, _, end = hours.partition("-")
    return time_of_day_ns(start, hours=RECORDED_HOURS), time_of_day_ns(end, hours=RECORDED_HOURS)


def with_overrides(market: MarketConfig, overrides: dict[str, Any]) -> MarketConfig:
    """The same settings with every override that is not None. Raises ConfigError for an invalid setting."""
    values = {name: value for name, value in overrides.items() if value is not None}
    try:
        return MarketConfig(**(market.model_dump() | values))
    except ValidationError as error:
        raise ConfigError(describe_invalid(error, MarketConfig, most=1)) from None
