"""Populations: YAML files that define who trades."""

import importlib
from pathlib import Path
from typing import Any

from pydantic import (
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
)

from serl.agents.traders.builtin import POPULATIONS, read_yaml
from serl.agents.traders.errors import PopulationError
from serl.agents.traders.registry import Profile, load_kind
from serl.agents.traders.symbols import SymbolConfig, TickSize
from serl.agents.traders.value import ValueConfig
from serl.exchange.config import ExchangeConfig, MarketRules, load_config, time_of_day_ns
from serl.exchange.errors import ConfigError
from serl.exchange.invalid import FileName, StrictSettings, describe_invalid


class _StrictModel(StrictSettings):
    model_config = ConfigDict(allow_inf_nan=False)


class GroupConfig(_StrictModel):
    """Traders of one kind with one profile, in one symbol; in YAML a group may name several symbols, and then trades each."""

    trader: str
    count: int = Field(1, ge=1, le=4_000_000)
    latency_us: float = Field(1000.0, gt=0, le=60e6, description="minimum time from wake-up to the exchange")
    latency_spread_us: float = Field(
        0.0, ge=0, le=60e6, description="mean of the exponential part, drawn once per trader"
    )
    symbol: int = Field(0, ge=0, description="index of the symbol, instead of `symbols`")
    symbols: list[str] | None = Field(
        None, min_length=1, description="as many traders in each of these; by default in all"
    )
    account_of: int | None = Field(
        None,
        ge=0,
        description="index of the group of which these are accounts in another symbol; set when the file is read",
    )
    start_s: float = Field(
        0.0, ge=0, description="first wake-ups are uniform between start_s and start_s + start_spread_s"
    )
    start_spread_s: float = Field(1.0, ge=0)
    profile: dict[str, Any] = Field({})

    def parameters(self) -> Profile:
        """The validated profile. Raises PopulationError, which names the field, its range and the value."""
        try:
            return load_kind(self.trader).profile(**self.profile)
        except ValidationError as error:
            raise PopulationError(
                f"trader {self.trader!r}: {describe_invalid(error, load_kind(self.trader).profile)}"
            ) from None

    @property
    def has_accounts(self) -> bool:
        """Whether the group's traders trade a basket. If so, the next groups are their accounts in the members."""
        return self.account_of is None and load_kind(self.trader).basket

    @property
    def is_everywhere(self) -> bool:
        """Whether every host runs a copy of the group's traders, because they make forecasts."""
        return load_kind(self.trader).everywhere

    @model_serializer(mode="wrap")
    def _without_none(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leaves out None, so that fingerprints of populations with one symbol are the same as before several symbols were possible."""
        return {key: value for key, value in dump(self).items() if value is not None}


class PopulationConfig(_StrictModel):
    """Who trades what, and when."""

    name: FileName
    symbols: list[SymbolConfig] = Field([SymbolConfig(name="DEMO")], min_length=1, max_length=1000)
    tick_size: TickSize = "0.01"
    open: str = "09:30"
    close: str = "16:00"
    value: ValueConfig = ValueConfig()
    market: MarketRules = Field(MarketRules(), description="rules of every symbol: docs/orders.md")
    modules: list[str] = Field([], description="Python modules that define your own traders; imported first")
    groups: list[GroupConfig] = Field(min_length=1)

    @property
    def open_ns(self) -> int:
        """Time of the open, ns after midnight."""
        return time_of_day_ns(self.open)

    @property
    def close_ns(self) -> int:
        """Time of the close, ns after midnight."""
        return time_of_day_ns(self.close)

    @property
    def has_rules(self) -> bool:
        """Whether the market has rules other than continuous trading without fees."""
        return self.market != MarketRules()

    @property
    def symbol_settings(self) -> list[dict[str, Any]]:
        """The symbols with their rules, as in the configuration of an exchange."""
        rules = self.market.model_dump(mode="json", exclude_defaults=True)
        return [
            {"name": name, "tick_size": tick_size} | rules
            for name, tick_size in zip(self.symbol_names, self.tick_sizes, strict=True)
        ]

    @property
    def symbol_names(self) -> list[str]:
        """Names of the symbols, in order."""
        return [symbol.name for symbol in self.symbols]

    @property
    def tick_sizes(self) -> list[str]:
        """The tick size of each symbol."""
        return [symbol.tick_size or self.tick_size for symbol in self.symbols]

    @property
    def values(self) -> list[ValueConfig]:
        """The value of each symbol. Raises ValidationError if a symbol's settings are out of range."""
        common = self.value.model_dump()
        values = [ValueConfig(**(common | symbol.value)) for symbol in self.symbols]
        for number in range(len(values)):
            if members := self.basket(number):
                mean_ticks = sum(ticks * values[member].mean_ticks for member, _, ticks in members)
                values[number] = values[number].model_copy(update={"mean_ticks": mean_ticks})
        return values

    def basket(self, number: int) -> list[tuple[int, float, float]]:
        """The members of a basket, symbol `number`: (member's number, its lots in a lot of the basket, ticks of the basket that these lots are worth per
        tick of the member)."""
        if not self.symbols[number].basket:
            return []
        names, ticks = self.symbol_names, [float(tick_size) for tick_size in self.tick_sizes]
        members = [(names.index(name), weight) for name, weight in self.symbols[number].basket.items()]
        return [(member, weight, weight * ticks[member] / ticks[number]) for member, weight in members]

    def followed(self, number: int) -> list[tuple[int, float]]:
        """The symbols that the value of symbol `number` follows: (their number, ticks that the value moves per tick of theirs)."""
        names = self.symbol_names
        return [(names.index(name), ratio) for name, ratio in self.symbols[number].follows.items()]

    def parameters_of(self, group: GroupConfig) -> Profile:
        """The profile of a group. With several symbols, `mean_ticks` defaults to the mean of the symbol's value."""
        parameters = group.parameters()
        if (
            len(self.symbols) > 1
            and "mean_ticks" in type(parameters).model_fields
            and "mean_ticks" not in group.profile
        ):
            return parameters.model_copy(update={"mean_ticks": self.values[group.symbol].mean_ticks})
        return parameters

    @property
    def exchange(self) -> ExchangeConfig:
        """The configuration of an exchange for these traders, whose day starts at the open. Raises ConfigError if the rules contradict each other."""
        return load_config(
            overrides={"symbols": self.symbol_settings, "clock": {"kind": "lockstep", "start": self.open}}
        )

    @property
    def traders(self) -> int:
        """Number of traders; each account of a trader of several symbols counts."""
        return sum(group.count for group in self.groups)

    @property
    def independent_traders(self) -> int:
        """Number of traders that can be in different hosts, that is without accounts and forecasters; at least 1."""
        return max(1, sum(group.count for group in self.groups if group.account_of is None and not group.is_everywhere))

    @property
    def spacing_ns(self) -> int:
        """A power of two; each trader acts only at its own residue modulo it, so no two ever act at the same time."""
        return 1 << max(0, self.traders - 1).bit_length()


def load_population(source: Path | str) -> PopulationConfig:
    """Reads a population from a YAML file, or by the name of one that comes with serl. Raises PopulationError if it is invalid."""
    return check_population(read_yaml(source, POPULATIONS, PopulationError, "name and groups"), str(source))


def check_population(values: dict[str, Any], source: str) -> PopulationConfig:
    """A population from plain values, validated down to the profiles. Raises PopulationError if it is invalid."""
    try:
        population = PopulationConfig.model_validate(values)
    except ValidationError as error:
        raise PopulationError(f"{source}: {describe_invalid(error, PopulationConfig)}") from None
    if population.close_ns <= population.open_ns:
        raise PopulationError(
            f"{source}: close: expected a time after open ({population.open}), got {population.close}; correct one"
        )
    if population.has_rules:
        _check_rules(population, source)
    for name in population.modules:
        if not name or name.startswith("."):
            raise PopulationError(
                f"{source}: modules: expected modules that can be imported, got {name!r}; give a whole name, like my_traders"
            )
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise PopulationError(
                f"{source}: modules: expected modules that can be imported, got {name!r} ({error}); put it on PYTHONPATH"
            ) from None
    _check_symbols(population, source)
    groups: list[GroupConfig] = []
    for number, group in enumerate(population.groups):
        for one in _by_symbol(population, number, group, source):
            is_new = "symbol" not in group.model_fields_set
            groups += [one, *(_accounts(population, one, len(groups)) if is_new else [])]
    _check_accounts(population, groups, source)
    for group in groups:
        group.parameters()
    return population.model_copy(update={"groups": groups})


def _check_symbols(population: PopulationConfig, source: str) -> None:
    names = population.symbol_names
    if twice := {name for name in names if names.count(name) > 1}:
        raise PopulationError(
            f"{source}: symbols: expected different names, got {', '.join(sorted(twice))} twice; rename one"
        )
    for symbol in population.symbols:
        _check_basket(population, symbol, f"{source}: symbols.{symbol.name}.basket")
        _check_follows(population, symbol, f"{source}: symbols.{symbol.name}.follows")
        where = f"{source}: symbols.{symbol.name}.value"
        if "step_s" in symbol.value:
            raise PopulationError(
                f"{where}.step_s: expected none, all values have one grid; set it in the population's value"
            )
        try:
            ValueConfig(**(population.value.model_dump() | symbol.value))
        except ValidationError as error:
            raise PopulationError(f"{where}: {describe_invalid(error, ValueConfig)}") from None


def _check_basket(population: PopulationConfig, symbol: SymbolConfig, where: str) -> None:
    plain = [one.name for one in population.symbols if not one.basket]
    for name in symbol.basket:
        if name not in plain:
            raise PopulationError(
                f"{where}: expected symbols without a basket ({', '.join(plain)}), got {name!r}; correct it"
            )
    if symbol.basket and (symbol.value or symbol.loading or symbol.follows):
        raise PopulationError(f"{where}: expected neither value, loading nor follows beside it, got one; leave it out")


def _check_follows(population: PopulationConfig, symbol: SymbolConfig, where: str) -> None:
    leaders = [one.name for one in population.symbols if not (one.basket or one.follows)]
    for name in symbol.follows:
        if name not in leaders:
            raise PopulationError(
                f"{where}: expected symbols without follows or a basket ({', '.join(leaders)}), got {name!r}; correct it"
            )


def _by_symbol(population: PopulationConfig, number: int, group: GroupConfig, source: str) -> list[GroupConfig]:
    """One group for each symbol that group `number` of the file trades."""
    where, names = f"{source}: groups.{number}", population.symbol_names
    if "symbol" not in group.model_fields_set:
        for name in group.symbols or ():
            if name not in names:
                raise PopulationError(
                    f"{where}.symbols: expected some of {', '.join(names)}, got {name!r}; add a symbol or correct it"
                )
        allowed = group.symbols or [one.name for one in population.symbols if one.basket or not group.has_accounts]
        traded = [index for index, name in enumerate(names) if name in allowed]
        if group.has_accounts and not all(population.symbols[index].basket for index in traded or [0]):
            raise PopulationError(
                f"{where}: expected symbols with a basket for {group.trader}, got {', '.join(group.symbols or names)}; give one a basket"
            )
        return [group.model_copy(update={"symbol": index, "symbols": None}) for index in traded]
    if group.symbols is not None:
        raise PopulationError(f"{where}: expected symbol or symbols, got both; leave symbol out")
    if group.symbol >= len(names):
        raise PopulationError(
            f"{where}.symbol: expected 0 to {len(names) - 1}, got {group.symbol}; add a symbol or correct it"
        )
    return [group]


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


def _accounts(population: PopulationConfig, group: GroupConfig, index: int) -> list[GroupConfig]:
    """The accounts of a group, which has number `index`, in the members of its basket; none if it trades one symbol."""
    members = population.basket(group.symbol) if group.has_accounts else []
    return [group.model_copy(update={"symbol": member, "account_of": index}) for member, _, _ in members]


def _check_accounts(population: PopulationConfig, groups: list[GroupConfig], source: str) -> None:
    """Checks the accounts of a population that was read before, which already has them."""
    index = 0
    while index < len(groups):
        expected = _accounts(population, groups[index], index)
        found = groups[index + 1 : index + 1 + len(expected)]
        if groups[index].account_of is not None or found != expected or (groups[index].has_accounts and not expected):
            raise PopulationError(
                f"{source}: groups.{index}: expected neither symbol nor account_of for {groups[index].trader}, got one; use symbols"
            )
        index += 1 + len(expected)


def require_one_symbol(population: PopulationConfig, what: str) -> None:
    """Raises PopulationError if a population has several symbols, because `what` supports only one."""
    if len(population.symbols) > 1:
        raise PopulationError(
            f"{population.name}: symbols: expected one symbol in {what}, got {', '.join(population.symbol_names)}; give a population with one, "
            "or use `serl simulate` or `serl exchange start --with`"
        )
