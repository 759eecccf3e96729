"""Latencies of participants: models of a delay, and draws from them that depend on what is delayed and on nothing else."""

import hashlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from serl.exchange.errors import ConfigError

DELAY_US_MAX = 3.6e9
"""An hour: no delay is longer, and what a model draws beyond it counts as it."""
Micros = Annotated[float, Field(ge=0, le=DELAY_US_MAX, allow_inf_nan=False)]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Words = NDArray[np.uint64]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Constant(_Section):
    """The same delay for everything."""

    kind: Literal["constant"]
    delay_us: Micros

    def delays_us(self, first: Floats, second: Floats) -> Floats:
        """Delays of as many events as there are numbers."""
        return np.full(len(first), self.delay_us)


class Lognormal(_Section):
    """max(floor_us, median_us exp(sigma Z)), Z standard normal."""

    kind: Literal["lognormal"]
    median_us: Annotated[float, Field(gt=0, le=DELAY_US_MAX, allow_inf_nan=False)]
    sigma: float = Field(ge=0, le=10, allow_inf_nan=False)
    floor_us: Micros = 0.0

    def delays_us(self, first: Floats, second: Floats) -> Floats:
        """Delays from two uniform numbers each (Box and Muller, 1958)."""
        normal = np.sqrt(-2 * np.log(first)) * np.cos(2 * math.pi * second)
        return np.maximum(self.floor_us, self.median_us * np.exp(self.sigma * normal))


class Empirical(_Section):
    """Delays that were measured, one in microseconds a line of `file`; drawn with replacement."""

    kind: Literal["empirical"]
    file: Path

    def read(self) -> "Measured":
        """The delays of the file; ConfigError names the line that is none."""
        return Measured(_read(self.file))


class Measured:
    """What a file of delays holds."""

    def __init__(self, table_us: Floats) -> None:
        self._table_us = table_us

    def delays_us(self, first: Floats, second: Floats) -> Floats:
        """One line of the file for each of the uniform numbers."""
        return self._table_us[(first * len(self._table_us)).astype(np.int64)]


Model = Annotated[Constant | Lognormal | Empirical, Field(discriminator="kind")]


class LatencyConfig(_Section):
    """What a participant's way to the exchange and back takes; null is no time at all."""

    orders: Model | None = None
    feed: Model | None = None


class DefaultLatencyConfig(LatencyConfig):
    """The same for everybody whose account has no `latency` of its own, and the seed of all draws."""

    seed: int = Field(0, ge=0)


class Delays:
    """The delays of one participant in one direction.

    Draw n is a function of (seed, direction, name, n): SplitMix64 (Steele, Lea and Flood, 2014) as a counter-based
    generator. How quick a process is, and in what order draws are asked for, changes none of them.
    """

    def __init__(self, model: Constant | Lognormal | Empirical, seed: int, direction: str, name: str) -> None:
        self._model = model.read() if isinstance(model, Empirical) else model
        digest = hashlib.blake2b(f"{seed}/{direction}/{name}".encode(), digest_size=8).digest()
        self._key = np.frombuffer(digest, np.uint64)

    def draw_ns(self, numbers: Integers) -> Integers:
        """Delays in ns of what has these numbers: command ids, or sequences of events. O(numbers)."""
        counters = self._key + numbers.astype(np.uint64) * np.uint64(2)
        delays_us = self._model.delays_us(_uniform(counters), _uniform(counters + np.uint64(1)))
        return np.rint(np.minimum(delays_us, DELAY_US_MAX) * 1000).astype(np.int64)


class Latencies:
    """The delays of every participant, by its name. Reads the files of the models: ConfigError if one is no such file."""

    def __init__(self, default: DefaultLatencyConfig, named: Mapping[str, LatencyConfig]) -> None:
        self._default = default
        self._named = named
        for config in (default, *named.values()):
            for model in (config.orders, config.feed):
                if isinstance(model, Empirical):
                    model.read()

    def _delays(self, direction: Literal["orders", "feed"], name: str) -> Delays | None:
        config = self._named.get(name, self._default)
        model = config.orders if direction == "orders" else config.feed
        return None if model is None else Delays(model, self._default.seed, direction, name)

    def orders(self, name: str) -> Delays | None:
        """What the participant's commands take to the exchange; None if they are there at once."""
        return self._delays("orders", name)

    def feed(self, name: str) -> Delays | None:
        """What reports and the feed take back to the participant; None if they are there at once."""
        return self._delays("feed", name)


def _uniform(counters: Words) -> Floats:
    """Numbers in (0, 1), one for each counter: the finaliser of SplitMix64, 53 bits of it, centred in their cell."""
    mixed = counters * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return ((mixed >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


def _read(path: Path) -> Floats:
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: a file of delays cannot be read ({error})") from None
    if not lines:
        raise ConfigError(f"{path}: one delay in microseconds a line is due; the file is empty")
    return np.array([_delay_us(path, number, line) for number, line in enumerate(lines, 1)])


def _delay_us(path: Path, number: int, line: str) -> float:
    try:
        value = float(line)
    except ValueError:
        value = math.nan
    if not 0 <= value <= DELAY_US_MAX:
        raise ConfigError(
            f"{path}:{number}: a delay from 0 to {DELAY_US_MAX:g} microseconds is due, got {line.strip()[:40]!r}"
        )
    return value
