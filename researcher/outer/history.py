"""A simulated day as history for the static market of a run without data."""

from pathlib import Path

from serl.agents.learning.market_config import MarketConfig
from serl.researcher.inner.settings import Settings

SEED = 3_000_000
"""Seed of the day, if scored days are not secret. The dynamic market does not use it for any part of the data."""
UNTIL = "13:05"
"""End of the day: training hours end at 12:30, and a day that ends before 13:00 is rejected."""


def lacks_history(settings: Settings) -> bool:
    """Whether the static market has no data."""
    return settings.market.kind == "static" and not settings.market.data


def with_history(settings: Settings, folder: Path) -> Settings:
    """The settings. If they have no data, a simulated day of the dynamic market's population is added, whose file is written once."""
    if not lacks_history(settings):
        return settings
    path = folder / "history.day"
    if not path.exists():
        _simulate(settings.dynamic, SEED + (settings.first_scored_day or 0), path)
    return settings.model_copy(update={"market": settings.market.model_copy(update={"data": [path.resolve()]})})


def _simulate(market: MarketConfig, seed: int, path: Path) -> None:
    from serl.agents.traders.overrides import load_changed
    from serl.agents.traders.simulate import simulate
    from serl.exchange.config import time_of_day_ns
    from serl.history.day import write_day

    write_day(simulate(load_changed(market.population, market.population_changes), seed, time_of_day_ns(UNTIL)), path)
