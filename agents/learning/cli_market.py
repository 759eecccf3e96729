"""Options of the commands that work orders in a market: `serl evaluate` and `serl episodes`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from serl.agents.traders.builtin import POPULATION
from serl.exchange.errors import ConfigError

if TYPE_CHECKING:
    from serl.agents.learning.market_config import MarketConfig

FILE = click.Path(path_type=Path)
FOLDER = click.Path(path_type=Path, file_okay=False)
"""A folder to write to, which may not exist yet."""
KINDS = click.Choice(["static", "replay", "dynamic"])
ANSWERS = click.Choice(["none", "fitted", "square_root"])
MARKET = click.option(
    "--market", "data", type=FILE, multiple=True, help="A file of bars, or a day with a book; may be repeated."
)
CONFIG = click.option(
    "--config", type=FILE, help="Settings of training whose `market` to use; the options here take precedence."
)
POPULATION_OPTION = click.option(
    "--population", type=POPULATION, help="Population of the dynamic market: a shipped one or a YAML file."
)
FILLS = click.option(
    "--fills",
    type=click.Choice(["strict", "touch"]),
    help="Bars: when a resting order fills; default: as in the settings.",
)
FORECASTER = click.option(
    "--forecaster",
    type=FILE,
    help="Books and simulated days: a file of `serl signals train`, whose forecasts policies observe.",
)
HOURS = click.option("--hours", help="Trading hours like 14:00-15:45, instead of those of the part.")
CURVE = click.option(
    "--volume-curve",
    type=FILE,
    help="vwap: a file of `serl volume-curve`; for bars, fitted on the training part by default.",
)
SEED = click.option(
    "--seed", default=1, show_default=True, type=click.IntRange(min=0), help="Seed of the parent orders."
)


def check_used(kinds: Sequence[str], data: Sequence[Path], population: str | None = None) -> None:
    """Raises ConfigError for --market or --population if no market of these kinds uses it."""
    if data and set(kinds) == {"dynamic"}:
        raise ConfigError(
            f"--market: expected a static or a replay market, got dynamic; leave {data[0]} out, whose data simulated traders do not use, or choose "
            "another market"
        )
    if population and "dynamic" not in kinds:
        raise ConfigError(
            f"--population: expected a dynamic market, got {' and '.join(kinds)}; leave {population} out, or give --kind dynamic"
        )


def check_distinct(name: str, values: Sequence[str]) -> None:
    """Raises ConfigError if a value is given twice."""
    twice = next((value for number, value in enumerate(values) if value in values[:number]), None)
    if twice is not None:
        raise ConfigError(f"{name}: expected different ones, got {twice} twice; leave one out")


def market_settings(config: Path | None) -> "MarketConfig":
    """The market of a training's settings, or the default market. Loading settings imports PyTorch, so this is done only for --config."""
    from serl.agents.learning.market_config import MarketConfig

    if config is None:
        return MarketConfig()
    from serl.agents.learning.training import load_config

    return load_config(config).market
