"""News of kind `value`: the fundamental value of a symbol jumps, and its traders notice at their next observation."""

import math
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from serl.agents.traders.population import PopulationConfig
from serl.agents.traders.value import SECOND_NS
from serl.clients.news_file import AT_ONCE, read_news_file
from serl.exchange.errors import ConfigError
from serl.exchange.news import News, NewsKind

NEVER_NS = 1 << 62


def read_day_news(path: Path, population: PopulationConfig, until_ns: int) -> tuple[News, ...]:
    """The messages from the population's open to before `until_ns` in a file for `serl news send`, numbered. Raises ConfigError for a file without
    times, and for a symbol that the population does not have."""
    messages = read_news_file(path)
    for message in messages:
        if message.time_ns == AT_ONCE:
            raise ConfigError(f"{path}: expected a time in each row, got none; add a column time")
        if message.symbol and message.symbol not in population.symbol_names:
            known = ", ".join(population.symbol_names)
            raise ConfigError(f"{path}: expected one of the symbols {known}, got {message.symbol[:80]}")
    inside = [each for each in messages if population.open_ns <= each.time_ns < until_ns]
    return tuple(message._replace(sequence=number) for number, message in enumerate(inside, 1))


class Shock(NamedTuple):
    """The value of a symbol (its number in the population) after `time_ns`."""

    time_ns: int
    symbol: int
    value_ticks: int


class ValueNews:
    """The pending shocks, and the (S, T) paths of the values, which it changes in place because compiled traders read them.

    A value jumps to that of the message, then continues with the moves that it would have made, and reverts to its mean as before, as after a
    shock of the population's own. Only times from the open on count. Values that follow it move with it; the value of a basket follows from
    those of its members.
    """

    def __init__(self, population: PopulationConfig, paths: NDArray[np.float64]) -> None:
        self._population, self._paths = population, paths
        self._step_ns = round(population.value.step_s * SECOND_NS)
        self._baskets = {
            number: members for number in range(len(population.symbols)) if (members := population.basket(number))
        }
        self._followed = {
            number: followed for number in range(len(population.symbols)) if (followed := population.followed(number))
        }
        self._numbers = {
            name: number for number, name in enumerate(population.symbol_names) if number not in self._baskets
        }
        self._waiting: deque[Shock] = deque()

    def add(self, message: News, offset_ns: int = 0) -> None:
        """Adds a message if it gives the value of one of the population's symbols. Messages must come in order of time.

        offset_ns: time of the message minus that of the population.
        """
        number = self._numbers.get(message.symbol)
        if message.kind == NewsKind.VALUE and number is not None and isinstance(message.value, int):
            self._waiting.append(Shock(message.time_ns - offset_ns, number, message.value))

    def shift(self, offset_ns: int) -> None:
        """Shifts the messages so far to the time of a population that starts. offset_ns: time of the messages minus that of the population."""
        self._waiting = deque(shock._replace(time_ns=shock.time_ns - offset_ns) for shock in self._waiting)

    def advance(self, time_ns: int, until_ns: int, run: Callable[[int], None]) -> None:
        """Runs the traders from `time_ns` to `until_ns` (exclusive), and changes the values on the way. A wake-up at the time of a message sees the
        value before it."""
        while (shock_ns := self._waiting[0].time_ns if self._waiting else NEVER_NS) < until_ns:
            if shock_ns >= time_ns:
                run(shock_ns + 1)
                time_ns = shock_ns + 1
            self._apply(self._waiting.popleft())
        run(until_ns)

    def _apply(self, shock: Shock) -> None:
        if shock.time_ns < self._population.open_ns:
            return
        step = min((shock.time_ns - self._population.open_ns) // self._step_ns, self._paths.shape[1] - 1)
        path = self._paths[shock.symbol, step:]
        value = self._population.values[shock.symbol]
        distances = np.full(len(path), math.exp(-value.reversion_per_s * value.step_s))
        distances[0] = shock.value_ticks - path[0]
        before = path.copy()
        path[:] = np.maximum(1.0, path + np.multiply.accumulate(distances))  # one by one: the same on every machine
        for number, followed in self._followed.items():
            ratio = dict(followed).get(shock.symbol, 0.0)
            self._paths[number, step:] = np.maximum(1.0, self._paths[number, step:] + ratio * (path - before))
        for number, members in self._baskets.items():
            self._paths[number, step:] = sum(ticks * self._paths[member, step:] for member, _, ticks in members)
