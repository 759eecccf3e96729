"""The times of continuous trading in the schedule of a population's market. Interruptions by price bands are not known in advance."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from serl.agents.traders.errors import PopulationError
from serl.agents.traders.population import PopulationConfig
from serl.exchange.config import time_of_day_ns, time_of_day_text
from serl.exchange.errors import ConfigError

CONTINUOUS = "continuous"


class Phases:
    """The phases of a population's day, in order. Without a schedule, trading is continuous and does not end at the close."""

    def __init__(self, population: PopulationConfig) -> None:
        self._population = population
        entries: list[tuple[int, str]] = [(time_of_day_ns(entry.at), entry.phase) for entry in population.market.day]
        self._entries = sorted(entries, key=lambda entry: entry[0]) or [(0, CONTINUOUS)]

    def continuous(self) -> list[tuple[int, int]]:
        """(start, end) in ns after midnight of each stretch of continuous trading from the open to the close."""
        open_ns, close_ns = self._population.open_ns, self._population.close_ns
        found: list[tuple[int, int]] = []
        for (start_ns, phase), (end_ns, _) in pairwise([*self._entries, (close_ns, "")]):
            start_ns, end_ns = max(start_ns, open_ns), min(end_ns, close_ns)
            if phase != CONTINUOUS or end_ns <= start_ns:
                continue
            if found and found[-1][1] == start_ns:
                start_ns = found.pop()[0]
            found.append((start_ns, end_ns))
        return found

    def require_continuous(self) -> None:
        """Raises PopulationError if trading is never continuous, because forced completion needs continuous trading."""
        if not self.continuous():
            phases = ", ".join(dict.fromkeys(phase for _, phase in self._entries))
            raise PopulationError(
                f"{self._population.name}: market.day: expected continuous trading in an environment, in which what is left of an order is traded, "
                f"got only {phases}; add a continuous phase, or use `serl simulate` or `serl backtest`"
            )

    def check_stretch(self, first_ns: int, last_ns: int) -> None:
        """Raises ConfigError unless trading is continuous from one time to the other, both included."""
        changes = [time_ns for time_ns, _ in self._entries if first_ns < time_ns <= last_ns]
        self.check_ends(np.array([first_ns, *changes], np.int64))

    def check_ends(self, times_ns: NDArray[np.int64]) -> None:
        """Raises ConfigError unless trading is continuous at all times (n,), at which forced completions arrive."""
        places = np.searchsorted([time_ns for time_ns, _ in self._entries], times_ns, side="right") - 1
        for place, time_ns in zip(places.tolist(), times_ns.tolist(), strict=True):
            phase = self._entries[place][1]
            if phase != CONTINUOUS:
                raise ConfigError(
                    f"window: expected an end in continuous trading, so that what is left can be traded, got {phase} at "
                    f"{time_of_day_text(time_ns)}; choose another window"
                )
