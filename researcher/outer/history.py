"""History for the static market of a run that has no data: a simulated day."""

from pathlib import Path

from serl.researcher.inner.settings import Settings

SEED = 3_000_000
"""Of the day: none of those that the dynamic market simulates for any part."""
UNTIL = "13:05"
"""Training, in a day with a book, ends at 12:30; a day that ends before 13:00 is refused."""


def lacks_history(settings: Settings) -> bool:
    """Whether the static market is without data."""
    return settings.market.kind == "static" and not settings.market.data


def with_history(settings: Settings, folder: Path) -> Settings:
    """The settings themselves, or with a day of the dynamic market's population as data; the file is made once."""
    if not lacks_history(settings):
        return settings
    path = folder / "history.day"
    if not path.exists():
        _simulate(settings.dynamic.population, path)
    return settings.model_copy(update={"market": settings.market.model_copy(update={"data": [path.resolve()]})})


def _simulate(name: str, path: Path) -> None:
    from serl.agents.traders.population import load_population
    from serl.agents.traders.simulate import simulate
    from serl.exchange.config import time_of_day_ns
    from serl.history.day import write_day

    write_day(simulate(load_population(name), SEED, time_of_day_ns(UNTIL)), path)
