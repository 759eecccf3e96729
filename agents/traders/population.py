"""Populations: YAML files that define who trades."""

import importlib
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from serl.agents.traders.errors import PopulationError
from serl.agents.traders.registry import Profile, load_kind
from serl.agents.traders.shipped import POPULATIONS, read_yaml
from serl.agents.traders.value import ValueConfig
from serl.exchange.config import ExchangeConfig, MarketRules, load_config, time_of_day_ns
from serl.exchange.errors import ConfigError


class _StrictModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class GroupConfig(_StrictModel):
    """Traders of one kind with one profile."""

    trader: str
    count: int = Field(1, ge=1, le=4_000_000)
    latency_us: float = Field(1000.0, gt=0, le=60e6, description="minimum time from wake-up to the exchange")
    latency_spread_us: float = Field(
        0.0, ge=0, le=60e6, description="mean of the exponential part, drawn once per trader"
    )
    symbol: int = Field(0, ge=0)
    start_s: float = Field(
        0.0, ge=0, description="first wake-ups are uniform between start_s and start_s + start_spread_s"
    )
    start_spread_s: float = Field(1.0, ge=0)
    profile: dict[str, Any] = {}

    def parameters(self) -> Profile:
        """The validated profile; PopulationError names the field, its range and the value."""
        try:
            return load_kind(self.trader).profile(**self.profile)
        except ValidationError as error:
            raise PopulationError(f"trader {self.trader!r}: {describe_error(error)}") from None


class PopulationConfig(_StrictModel):
    """Who trades what, and when."""

    name: str = Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")
    symbols: list[str] = Field(["DEMO"], min_length=1, max_length=1000)
    tick_size: str = Field("0.01", pattern=r"^\d*\.?\d+$")
    open: str = "09:30"
    close: str = "16:00"
    value: ValueConfig = ValueConfig()
    market: MarketRules = Field(MarketRules(), description="rules of every symbol: docs/orders.md")
    modules: list[str] = Field([], description="Python modules that define your own traders; imported first")
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
    def has_rules(self) -> bool:
        """Whether its market has other rules than continuous trading without fees."""
        return self.market != MarketRules()

    @property
    def symbol_settings(self) -> list[dict[str, Any]]:
        """The symbols as in the configuration of an exchange, with their rules."""
        rules = self.market.model_dump(mode="json", exclude_defaults=True)
        return [{"name": name, "tick_size": self.tick_size} | rules for name in self.symbols]

    @property
    def exchange(self) -> ExchangeConfig:
        """An exchange for these traders, whose day starts at the open. Raises ConfigError if the rules contradict each other."""
        return load_config(
            overrides={"symbols": self.symbol_settings, "clock": {"kind": "lockstep", "start": self.open}}
        )

    @property
    def traders(self) -> int:
        """Number of traders."""
        return sum(group.count for group in self.groups)

    @property
    def spacing_ns(self) -> int:
        """A power of two; each trader acts only at its own residue modulo it, so no two ever act at the same time."""
        return 1 << max(0, self.traders - 1).bit_length()


def describe_error(error: ValidationError) -> str:
    """A validation error in one line: field, what was expected, what it got."""
    parts = []
    for item in error.errors():
        field = ".".join(str(part) for part in item["loc"])
        got = "" if item["type"] in ("missing", "extra_forbidden") else f", got {item['input']!r}"
        parts.append(f"{field}: {item['msg']}{got}")
    return "; ".join(parts)


def load_population(source: Path | str) -> PopulationConfig:
    """Reads a population: a YAML file, or the name of one that comes with serl. PopulationError if it is invalid."""
    return check_population(read_yaml(source, POPULATIONS, PopulationError, "name and groups"), str(source))


def check_population(values: dict[str, Any], source: str) -> PopulationConfig:
    """A population from plain values, validated down to the profiles; PopulationError if it is invalid."""
    try:
        population = PopulationConfig.model_validate(values)
    except ValidationError as error:
        raise PopulationError(f"{source}: {describe_error(error)}") from None
    if population.close_ns <= population.open_ns:
        raise PopulationError(
            f"{source}: close: expected a time after open ({population.open}), got {population.close}; correct one"
        )
    if population.has_rules:
        _check_rules(population, source)
    for name in population.modules:
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise PopulationError(
                f"{source}: modules: expected modules that can be imported, got {name!r} ({error}); put it on PYTHONPATH"
            ) from None
    for number, group in enumerate(population.groups):
        if group.symbol >= len(population.symbols):
            raise PopulationError(
                f"{source}: groups.{number}.symbol: expected 0 to {len(population.symbols) - 1}, got {group.symbol}; "
                "add a symbol or correct it"
            )
        group.parameters()
    return population


def _check_rules(population: PopulationConfig, source: str) -> None:
    try:
        _ = population.exchange
    except ConfigError as error:
        raise PopulationError(f"{source}: market: {error}") from None
    times = [entry.at for entry in population.market.day]
    if times and min(map(time_of_day_ns, times)) > population.open_ns:
        raise PopulationError(
            f"{source}: market.day: expected a phase from the open ({population.open}) on, got the first at {min(times)}; add "
            f'{{at: "{population.open}", phase: continuous}}'
        )


def require_no_rules(population: PopulationConfig, what: str) -> None:
    """PopulationError if the market of a population has rules, which `what` does not know."""
    if population.has_rules:
        raise PopulationError(
            f"{population.name}: market: expected no rules in {what}, which trades continuously without fees, got "
            f"{', '.join(sorted(population.market.model_dump(exclude_defaults=True)))}; leave them out, or use `serl simulate`, "
            "`serl backtest` or `serl exchange start --with`"
        )
