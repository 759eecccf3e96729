"""The market of a demo, and its parent order."""

from dataclasses import dataclass
from pathlib import Path

from serl.agents.realism.days import day_origin, load_day
from serl.agents.traders.errors import PopulationError
from serl.agents.traders.population import load_population, require_one_symbol
from serl.agents.traders.simulate import fingerprint
from serl.demo.order import CLOSE, OPEN, DemoOrder
from serl.history.day import Day, write_day
from serl.history.generate import generate_day

HOSTS = 1
"""Number of host processes for the traders of a population. Each takes a turn of the lockstep clock, and one is not near its limit."""


@dataclass(frozen=True)
class Source:
    """A day file that is replayed, or a population of simulated traders."""

    order: DemoOrder
    symbols: str
    """Symbols with tick sizes, as for `serl exchange start --symbols`."""
    data: str
    """Names and fingerprints of the data, for reports."""
    seed: int | None
    """None if nothing is random."""
    day: Path | None = None
    population: str | None = None
    hosts: int = 0


def simulated(population: str, seed: int) -> Source:
    """Simulated traders of a population; PopulationError if its trading hours are not the demo's."""
    config = load_population(population)
    if (config.open, config.close) != (OPEN, CLOSE):
        raise PopulationError(
            f"{population}: expected trading hours from {OPEN} to {CLOSE}, got {config.open} to {config.close}; `serl agents start` accepts any"
        )
    require_one_symbol(config, "the demo")
    name = config.symbol_names[0]
    order = DemoOrder(name, "sell", 1500, "09:31-09:37", 10, CLOSE)
    data = f"population {config.name} sha256 {fingerprint(config)}"
    return Source(order, f"{name}={config.tick_sizes[0]}", data, seed, None, population, HOSTS)


def replayed(history: Path, path: Path) -> Source:
    """A day of history, written to `path` as a day file."""
    day = load_day(history)
    name = day.reference.symbols[0].name
    return _day_source(day, path, DemoOrder(name, "sell", 1500, "09:31-09:37", 10, "09:46"), None)


def generated(seed: int, path: Path) -> Source:
    """A synthetic day, written to `path`."""
    return _day_source(generate_day(seed), path, DemoOrder("DEMO", "sell", 2000, "09:35-09:55", 30, "10:00"), seed)


def _day_source(day: Day, path: Path, order: DemoOrder, seed: int | None) -> Source:
    write_day(day, path)
    symbols = ",".join(f"{symbol.name}={symbol.tick_size}" for symbol in day.reference.symbols)
    return Source(order, symbols, day_origin(day), seed, path)
