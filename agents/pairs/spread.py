"""The spread of a pair, measured on training days: the second symbol's mid less `hedge_ratio` times the first's."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from serl.agents.execution.environment.episodes import SECOND_NS
from serl.agents.execution.environment.hours import WARM_UP_S
from serl.agents.learning.sources import FIRST_SEEDS
from serl.agents.pairs.market import SYMBOLS, require_pair
from serl.agents.traders.errors import PopulationError
from serl.agents.traders.population import PopulationConfig
from serl.agents.traders.simulate import Simulation

TRAINING_DAYS, LAG_S = 4, 30


@dataclasses.dataclass(frozen=True)
class Spread:
    """The parameters of a pair that a rule of statistical arbitrage needs."""

    hedge_ratio: float
    """Lots of the first symbol against one lot of the second."""
    mean_ticks: float
    deviation_ticks: float
    half_life_s: float
    """Infinite if the spread does not revert."""

    @classmethod
    def measure(cls, population: PopulationConfig, days: int = TRAINING_DAYS) -> "Spread":
        """Measures the spread on training days simulated without us: least squares of the second mid on the first (Engle and Granger,
        Co-integration and error correction, 1987), and the residuals' autocorrelation at LAG_S. Raises `PopulationError`."""
        require_pair(population)
        seeds = np.arange(days) + FIRST_SEEDS["train"]
        measured = [mids(population, int(seed)) for seed in seeds]
        if any(len(day) <= LAG_S or not day.std(0).all() for day in measured):
            raise PopulationError(
                f"{population.name}: expected mids of both symbols that move after the first {WARM_UP_S} s of a day, got none; add traders, or "
                "close it later"
            )
        return cls.of(measured)

    @classmethod
    def of(cls, days: Sequence[Any]) -> "Spread":
        """Measures the spread from the mids (T, 2) of days, one per second."""
        first, second = np.concatenate(days).T
        ratio, mean = np.polyfit(first, second, 1)
        rests = [day[:, 1] - ratio * day[:, 0] - mean for day in days]
        before = np.concatenate([rest[:-LAG_S] for rest in rests])
        after = np.concatenate([rest[LAG_S:] for rest in rests])
        correlation = float((before * after).mean() / (before**2).mean())
        half_life_s = math.inf if correlation >= 1 else 0.0
        if 0 < correlation < 1:
            half_life_s = LAG_S * math.log(0.5) / math.log(correlation)
        return cls(float(ratio), float(mean), float(np.concatenate(rests).std()), half_life_s)

    def z(self, mids_ticks: Any) -> Any:
        """(N,) deviations of the spread from its mean, in its standard deviations, at (N, 2) mids."""
        spread = mids_ticks[..., 1] - self.hedge_ratio * mids_ticks[..., 0]
        return (spread - self.mean_ticks) / self.deviation_ticks


def mids(population: PopulationConfig, seed: int, until_ns: int | None = None) -> Any:
    """(T, 2) mids in ticks, one per second, of a day after its first minutes (by default to its close); the last known mid where a side is empty."""
    simulation = Simulation(population, seed)
    start_ns = population.open_ns + WARM_UP_S * SECOND_NS
    seconds = ((until_ns or population.close_ns) - start_ns) // SECOND_NS
    found = np.full((seconds, SYMBOLS), np.nan)
    for second in range(seconds):
        simulation.advance(start_ns + second * SECOND_NS)
        for symbol in range(SYMBOLS):
            bids, asks = simulation.market.book(symbol, depth=1)
            if len(bids) and len(asks):
                found[second, symbol] = (bids["price_ticks"][0] + asks["price_ticks"][0]) / 2
            elif second:
                found[second, symbol] = found[second - 1, symbol]
    return found[np.isfinite(found).all(1)]
