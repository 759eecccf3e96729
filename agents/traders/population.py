"""Populations: YAML files that say who trades, and the arrays that are made of them."""

import importlib
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from serl.agents.traders.errors import PopulationError
from serl.agents.traders.registry import Profile, kind
from serl.agents.traders.value import SECOND_NS, ValueConfig
from serl.exchange.config import time_of_day_ns


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class GroupConfig(_Section):
    """Traders of one kind with one profile."""

    trader: str
    count: int = Field(1, ge=1, le=4_000_000)
    latency_us: float = Field(1000.0, gt=0, le=60e6, description="least time from wake-up to the exchange")
    latency_spread_us: float = Field(
        0.0, ge=0, le=60e6, description="mean of the exponential part, drawn once a trader"
    )
    symbol: int = Field(0, ge=0)
    start_s: float = Field(
        0.0, ge=0, description="first wake-ups are uniform between start_s and start_s + start_spread_s"
    )
    start_spread_s: float = Field(1.0, ge=0)
    profile: dict[str, Any] = {}

    def parameters(self) -> Profile:
        """The profile, checked; PopulationError names the field, its range and the value."""
        try:
            return kind(self.trader).profile(**self.profile)
        except ValidationError as error:
            raise PopulationError(f"trader {self.trader!r}: {describe(error)}") from None


class PopulationConfig(_Section):
    """Who trades what, and when."""

    name: str = Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")
    symbols: list[str] = Field(["DEMO"], min_length=1, max_length=1000)
    tick_size: str = "0.01"
    open: str = "09:30"
    close: str = "16:00"
    value: ValueConfig = ValueConfig()
    modules: list[str] = Field([], description="Python modules with traders of your own, imported first")
    groups: list[GroupConfig] = Field(min_length=1)

    @property
    def open_ns(self) -> int:
        """Nanoseconds after midnight."""
        return time_of_day_ns(self.open)

    @property
    def close_ns(self) -> int:
        """Nanoseconds after midnight."""
        return time_of_day_ns(self.close)

    @property
    def traders(self) -> int:
        """How many there are."""
        return sum(group.count for group in self.groups)

    @property
    def spacing_ns(self) -> int:
        """Traders act at times of their own modulo this power of two, so that no two ever act at once."""
        return 1 << max(0, self.traders - 1).bit_length()


def describe(error: ValidationError) -> str:
    """A validation error in one line: field, what was expected, what came."""
    parts = []
    for item in error.errors():
        place = ".".join(str(part) for part in item["loc"])
        came = "" if item["type"] in ("missing", "extra_forbidden") else f", got {item['input']!r}"
        parts.append(f"{place}: {item['msg']}{came}")
    return "; ".join(parts)


def load_population(source: Path | str) -> PopulationConfig:
    """Reads a population: a YAML file, or the name of one that comes with serl. PopulationError if it is not sound."""
    path = Path(source)
    if not path.exists():
        known = files("serl.configs").joinpath("populations")
        named = known.joinpath(f"{source}.yaml")
        if not named.is_file():
            names = sorted(item.name.removesuffix(".yaml") for item in known.iterdir() if item.name.endswith(".yaml"))
            raise PopulationError(f"{source}: neither a file nor one of {', '.join(names)}")
        text = named.read_text()
    else:
        try:
            text = path.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise PopulationError(f"{source}: cannot be read as text ({error}); a YAML file is due") from None
    try:
        values = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise PopulationError(f"{source}: not YAML ({' '.join(str(error).split())})") from None
    if not isinstance(values, dict):
        raise PopulationError(f"{source}: a mapping with name and groups is due, got {type(values).__name__}")
    return check_population(values, str(source))


def check_population(values: dict[str, Any], source: str) -> PopulationConfig:
    """A population of plain values, checked down to the last profile."""
    try:
        population = PopulationConfig(**values)
    except ValidationError as error:
        raise PopulationError(f"{source}: {describe(error)}") from None
    if population.close_ns <= population.open_ns:
        raise PopulationError(f"{source}: close ({population.close}) must be after open ({population.open})")
    for name in population.modules:
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise PopulationError(f"{source}: module {name!r} cannot be imported ({error})") from None
    for number, group in enumerate(population.groups):
        if group.symbol >= len(population.symbols):
            raise PopulationError(
                f"{source}: groups.{number}.symbol: 0 to {len(population.symbols) - 1} is due, got {group.symbol}"
            )
        group.parameters()
    return population


def duration_ns(population: PopulationConfig) -> int:
    """Length of the day."""
    return population.close_ns - population.open_ns


__all__ = ["SECOND_NS", "PopulationConfig", "check_population", "duration_ns", "load_population"]
