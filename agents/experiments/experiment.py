"""Experiments: YAML files that define arms, which are variants of one population simulated with the same seeds."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from serl.agents.experiments.errors import ExperimentError
from serl.agents.experiments.measures import MEASURES, PNL
from serl.agents.traders.builtin import EXPERIMENTS, POPULATIONS, did_you_mean, read_yaml
from serl.agents.traders.errors import PopulationError
from serl.agents.traders.overrides import changed_population
from serl.agents.traders.population import PopulationConfig
from serl.agents.traders.simulate import fingerprint
from serl.exchange.config import time_of_day_ns
from serl.exchange.invalid import SHOWN_MAX, FileName, StrictSettings, describe_invalid
from serl.ranges import SEED_MAX

SEEDS = 20
SEEDS_MAX = 1_000_000
"""Maximum number of seeds: all of them are listed before the first run."""


class ExperimentConfig(StrictSettings):
    """The settings in the file."""

    name: FileName
    population: str = Field(description="a name that comes with serl, or a YAML file, relative to the experiment's")
    until: str | None = Field(
        None, description="time of day at which every run ends; the population's close by default"
    )
    seeds: int | list[int] = Field(SEEDS, description="their number, from 1 on, or a list of them")
    baseline: str | None = Field(None, description="the arm that the others are compared with; the first by default")
    measures: list[str] | None = Field(None, min_length=1, description="what is measured; everything by default")
    symbol: str | None = Field(None, description="the symbol that is measured, of a population with several")
    arms: dict[str, dict[str | int, Any]] = Field(min_length=2, description="by name, what each changes")


@dataclass(frozen=True)
class Arm:
    """One variant of the population."""

    name: str
    overrides: dict[str | int, Any]
    population: PopulationConfig
    end_ns: int
    """End of the arm's runs, ns after midnight."""
    symbol: int
    """Number of the measured symbol."""


@dataclass(frozen=True)
class Experiment:
    """A validated experiment."""

    name: str
    arms: tuple[Arm, ...]
    """All arms; the first is the baseline."""
    seeds: tuple[int, ...]
    measures: tuple[str, ...]
    """Names in MEASURES, and PNL."""

    @property
    def baseline(self) -> Arm:
        """The arm with which the others are compared."""
        return self.arms[0]

    def settings(self) -> dict[str, Any]:
        """The settings on which the results of a run depend, by arm: the population's fingerprint, the end, and the symbol if it is not the first."""
        return {
            arm.name: [fingerprint(arm.population), arm.end_ns, *([arm.symbol] if arm.symbol else [])]
            for arm in self.arms
        }


def load_experiment(source: str, seeds: int | None = None, until: str | None = None) -> Experiment:
    """Reads an experiment from a YAML file, or by the name of one that comes with serl.

    seeds, until: replace those of the file. Raises ExperimentError or PopulationError if anything in the file is invalid.
    """
    values = read_yaml(source, EXPERIMENTS, ExperimentError, "name, population and arms")
    near = Path(source).parent if Path(source).is_file() else Path()
    return parse_experiment(values, source, near, seeds=seeds, until=until)


def parse_experiment(
    values: dict[str, Any], source: str, near: Path = Path(), *, seeds: int | None = None, until: str | None = None
) -> Experiment:
    """An experiment from plain values. near: the folder to which its population's path is relative. Raises the errors of `load_experiment`."""
    config = _validate(values, source)
    base = read_yaml(config.population, POPULATIONS, ExperimentError, "name and groups", near)
    end = config.until if until is None else until
    arms = [_arm(name, base, changed, end, config.symbol, source) for name, changed in config.arms.items()]
    baseline = next(iter(config.arms)) if config.baseline is None else config.baseline
    _check_known([baseline], config.arms, "an arm", f"{source}: baseline")
    measures = [*MEASURES, PNL] if config.measures is None else config.measures
    _check_known(measures, (*MEASURES, PNL), "a measure", f"{source}: measures")
    if PNL in measures and any(len(arm.population.symbols) > 1 for arm in arms):
        raise ExperimentError(
            f"{source}: measures: expected some without {PNL}, because positions are in several symbols, got {', '.join(measures)}; leave it out"
        )
    return Experiment(
        config.name, tuple(sorted(arms, key=lambda arm: arm.name != baseline)),
        _seeds(config.seeds if seeds is None else seeds, source), tuple(dict.fromkeys(measures)),
    )  # fmt: skip


def _validate(values: dict[str, Any], source: str) -> ExperimentConfig:
    fields = list(ExperimentConfig.model_fields)
    _check_known(map(str, values), fields, "a setting of an experiment", source)
    if isinstance(values.get("until"), int):  # YAML reads 10:30 as a base 60 number
        raise ExperimentError(f'{source}: until: expected a time as text, got a number; put it in quotes, like "10:30"')
    arms = values.get("arms")
    if isinstance(arms, dict):
        for name in arms:
            if not isinstance(name, str):
                raise ExperimentError(f"{source}: arms: expected names as text, got {name!r}; put it in quotes")
        values = {**values, "arms": {name: {} if changed is None else changed for name, changed in arms.items()}}
    try:
        return ExperimentConfig(**values)
    except ValidationError as error:
        raise ExperimentError(
            f"{source}: {describe_invalid(error, ExperimentConfig)}; correct the file (docs/experiments.md)"
        ) from None


def _check_known(names: Iterable[str], known: Iterable[str], what: str, where: str) -> None:
    known = list(known)
    for name in names:
        if name not in known:
            advice = did_you_mean(name, known, f"choose from {', '.join(known)}")
            raise ExperimentError(f"{where}: expected {what}, got {name!r}; {advice}")


def _seeds(given: int | list[int], source: str) -> tuple[int, ...]:
    found = list(range(1, min(given, SEEDS_MAX + 1) + 1)) if isinstance(given, int) else given
    if not 0 < len(found) <= SEEDS_MAX or min(found) < 0 or max(found) > SEED_MAX or len(set(found)) < len(found):
        raise ExperimentError(
            f"{source}: seeds: expected a number from 1 to {SEEDS_MAX:,}, or a list of different ones below 2^63, got {str(given)[:SHOWN_MAX]}; correct it"
        )
    return tuple(found)


def _arm(
    name: str, base: dict[str, Any], overrides: dict[str | int, Any], until: str | None, symbol: str | None, source: str
) -> Arm:  # fmt: skip
    where = f"{source}: arm {name!r}"
    try:
        population = changed_population(base, overrides, where)
    except PopulationError as error:
        raise ExperimentError(str(error)) from None
    names = population.symbol_names
    if symbol is None and len(names) > 1:
        raise ExperimentError(
            f"{where}: symbol: expected one of {', '.join(names)}, got none; give the one that is measured"
        )
    if symbol is not None:
        _check_known([symbol], names, "a symbol of the population", f"{where}: symbol")
    end_ns = population.close_ns if until is None else time_of_day_ns(until, f"{where}: until")
    if not population.open_ns < end_ns <= population.close_ns:
        raise ExperimentError(
            f"{where}: until: expected a time after {population.open} and up to {population.close}, got {until}; give another"
        )
    return Arm(name, overrides, population, end_ns, 0 if symbol is None else names.index(symbol))
