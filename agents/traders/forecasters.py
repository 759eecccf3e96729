"""Forecasters in populations: adds a trained forecaster to a population, and checks populations with forecasters."""

import base64
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from serl.agents.traders.errors import PopulationError
from serl.agents.traders.population import GroupConfig, PopulationConfig, load_population
from serl.agents.traders.registry import load_kind

if TYPE_CHECKING:
    from serl.agents.signals.forecaster import Forecaster

KIND = "forecaster"
EVERY_STEPS_MAX = 36_000
"""Steps in an hour."""


def require_forecasters(population: PopulationConfig) -> None:
    """Raises PopulationError unless each symbol has at most one forecaster, and exactly one if traders read its forecasts."""
    counts = np.zeros(len(population.symbols), np.int64)
    for group in population.groups:
        counts[group.symbol] += group.count * group.is_everywhere
    for index, group in enumerate(population.groups):
        name = population.symbol_names[group.symbol]
        if counts[group.symbol] > 1:
            raise PopulationError(
                f"{population.name}: expected at most one forecaster in {name}, got {counts[group.symbol]}; leave out --forecaster, or all but one"
            )
        if load_kind(group.trader).forecasts and not counts[group.symbol]:
            raise PopulationError(
                f"{population.name}: groups.{index}: expected a forecaster in {name}, whose forecasts {group.trader} reads, got none; give "
                "one with --forecaster FILE"
            )


def load_with_forecaster(source: Path | str, forecaster: Path | None) -> PopulationConfig:
    """Reads a population, and adds the forecaster of a file if given. Raises PopulationError or SignalError."""
    population = load_population(source)
    if forecaster is not None:
        from serl.agents.signals.forecaster_file import read_forecaster

        population = with_forecaster(population, read_forecaster(forecaster))
    require_forecasters(population)  # fail now, not in each host
    return population


def with_forecaster(
    population: PopulationConfig, forecaster: "Forecaster", symbol: str | None = None, every_steps: int = 10
) -> PopulationConfig:
    """The population with a forecaster as its last trader, which forecasts every `every_steps` x 100 ms.

    symbol: by default the forecaster's, or else the population's only one. Raises PopulationError if there is no such symbol.
    """
    names = population.symbol_names
    name = symbol or (names[0] if len(names) == 1 else forecaster.symbol)
    if name not in names:
        raise PopulationError(
            f"{population.name}: expected a forecaster of one of {', '.join(names)}, got one of {name}; give another"
        )
    profile = {"numbers": forecaster_numbers(forecaster), "every_steps": every_steps}
    group = GroupConfig(trader=KIND, symbol=names.index(name), start_spread_s=0.0, profile=profile)
    group.parameters()
    return population.model_copy(update={"groups": [*population.groups, group]})


def small_model(forecaster: "Forecaster") -> str:
    """The forecaster's model if it is a small one; otherwise the best of its small models."""
    from serl.agents.signals.forecaster import LOGISTIC, NETWORK

    if forecaster.model in (LOGISTIC, NETWORK):
        return forecaster.model
    return min((LOGISTIC, NETWORK), key=lambda name: forecaster.training.log_loss[name])


def reads_forecasts(population: PopulationConfig) -> bool:
    """Whether any of the population's traders reads forecasts."""
    return any(load_kind(group.trader).forecasts for group in population.groups)


def with_observed_forecaster(population: PopulationConfig, forecaster: "Forecaster") -> PopulationConfig:
    """The population with a forecaster whose observations an environment reads; it writes forecasts only if traders read them."""
    every_steps = 10 if reads_forecasts(population) else EVERY_STEPS_MAX
    return with_forecaster(population, forecaster, every_steps=every_steps)


def forecaster_numbers(forecaster: "Forecaster") -> str:
    """The `numbers` of the kind's profile for the forecaster's `small_model`."""
    from serl.agents.signals.forecaster import LOGISTIC

    model, layers = small_model(forecaster), list(forecaster.layers)
    if model == LOGISTIC:
        weights = np.concatenate(list(forecaster.weights), axis=1)
        layers = [(weights[:-1], weights[-1])]
    *before, (weights, intercepts) = layers
    temperature = np.repeat(forecaster.temperatures[model], len(intercepts) // len(forecaster.horizons_s))
    layers = [*before, (weights / temperature, intercepts / temperature)]
    sizes = [len(forecaster.centre), *(len(intercepts) for _, intercepts in layers)]
    parts = [
        [len(forecaster.horizons_s), len(layers), *sizes],
        forecaster.horizons_s,
        forecaster.centre,
        forecaster.scale,
    ]
    for weights, intercepts in layers:
        parts += [np.ravel(weights), intercepts]
    fill = forecaster.fill
    parts += [forecaster.volume.means, np.ravel(forecaster.volume.weights), fill.centre, fill.scale]
    parts.append(np.ravel(fill.weights / fill.temperatures[:, np.newaxis]))
    return base64.b64encode(np.concatenate(parts).astype("<f8").tobytes()).decode()
