"""The market's statistics on training days, as a language model is told them."""

from dataclasses import asdict

from serl.agents.execution.data import TRAIN
from serl.agents.execution.environment.hours import WARM_UP_S
from serl.agents.learning.market_config import MarketConfig
from serl.agents.learning.sources import FIRST_SEEDS, Books, open_source
from serl.agents.traders.overrides import load_changed
from serl.agents.traders.simulate import simulate
from serl.researcher.inner import markets

SIMULATED_NS = 900_000_000_000
"""How much of a simulated day is measured."""


def market_facts(config: MarketConfig) -> dict[str, float]:
    """MarketStatistics of the first training hours, by name; for simulated days, of the first quarter of an hour of the first day."""
    if config.kind != "dynamic":
        return asdict(markets.statistics(open_source(config), config))
    population = load_changed(config.population, config.population_changes)
    start_ns, end_ns = config.span_ns or (population.open_ns + WARM_UP_S * markets.SECOND_NS, population.close_ns)
    end_ns = min(end_ns, start_ns + SIMULATED_NS)
    day = simulate(population, FIRST_SEEDS[TRAIN], end_ns)
    span = f"{_clock(start_ns)}-{_clock(end_ns)}"
    books = Books(config.model_copy(update={"kind": "replay", "hours": span}), [day])
    return asdict(markets.statistics(books, config))


def _clock(time_ns: int) -> str:
    minutes = time_ns // 60_000_000_000
    return f"{minutes // 60:02}:{minutes % 60:02}"
