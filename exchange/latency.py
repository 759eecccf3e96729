"""Latencies of participants: models of delays, and draws that depend only on the delayed item."""

import hashlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from serl.exchange.errors import ConfigError
from serl.exchange.invalid import StrictSettings

DELAY_US_MAX = 3.6e9
"""The longest delay, one hour; longer draws are clipped to it."""
Micros = Annotated[float, Field(ge=0, le=DELAY_US_MAX, allow_inf_nan=False)]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
UInt64s = NDArray[np.uint64]


class _Model(BaseModel):
    """No StrictSettings: pydantic takes no validator of `kind`, which chooses the class."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Constant(_Model):
    """The same delay for everything."""

    kind: Literal["constant"]
    delay_us: Micros

    def delays_us(self, first: Floats, second: Floats) -> Floats:
        """One delay per number."""
        return np.full(len(first), self.delay_us)


class Lognormal(_Model):
    """max(floor_us, median_us exp(sigma Z)), Z standard normal."""

    kind: Literal["lognormal"]
    median_us: Annotated[float, Field(gt=0, le=DELAY_US_MAX, allow_inf_nan=False)]
    sigma: float = Field(ge=0, le=10, allow_inf_nan=False)
    floor_us: Micros = 0.0

    def delays_us(self, first: Floats, second: Floats) -> Floats:
        """One delay per pair of uniform numbers (Box and Muller, 1958)."""
        normal = np.sqrt(-2 * np.log(first)) * np.cos(2 * math.pi * second)
        return np.maximum(self.floor_us, self.median_us * np.exp(self.sigma * normal))


class Empirical(_Model):
    """Measured delays, drawn with replacement from `file`: one per line, in microseconds."""

    kind: Literal["empirical"]
    file: Path

    def read(self) -> "EmpiricalDelays":
        """Reads the file. Raises ConfigError, with the line number, for an invalid line."""
        return EmpiricalDelays(_read(self.file))


class EmpiricalDelays:
    """The delays of a file."""

    def __init__(self, table_us: Floats) -> None:
        self._table_us = table_us

    def delays_us(self, first: Floats, second: Floats) -> Floats:
        """One delay from the file per uniform number."""
        return self._table_us[(first * len(self._table_us)).astype(np.int64)]


Model = Annotated[Constant | Lognormal | Empirical, Field(discriminator="kind")]


class LatencyConfig(StrictSettings):
    """The latency of a participant's commands (orders), and of its reports and market data (feed); null is none."""

    orders: Model | None = None
    feed: Model | None = None


class DefaultLatencyConfig(LatencyConfig):
    """The latency of participants whose account has none of its own, and the seed of all draws."""

    seed: int = Field(0, ge=0)


class Delays:
    """The delays of one participant in one direction.

    Draw n is a function of (seed, direction, name, n): SplitMix64 (Steele, Lea and Flood, 2014) as a counter-based
    generator. The draws therefore depend neither on the speed of processes nor on the order in which they are made.
    """

    def __init__(self, model: Constant | Lognormal | Empirical, seed: int, direction: str, name: str) -> None:
        self._description = ", ".join(
            [
                model.kind,
                *(
                    f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
                    for name, value in model
                    if name != "kind"
                ),
            ]
        )
        self._model = model.read() if isinstance(model, Empirical) else model
        digest = hashlib.blake2b(f"{seed}/{direction}/{name}".encode(), digest_size=8).digest()
        self._key = np.frombuffer(digest, np.uint64)

    def __str__(self) -> str:
        return self._description

    def draw_ns(self, numbers: Integers) -> Integers:
        """Delays in ns for these numbers: command ids, or sequence numbers of events. O(numbers)."""
        counters = self._key + numbers.astype(np.uint64) * np.uint64(2)
        delays_us = self._model.delays_us(_uniform(counters), _uniform(counters + np.uint64(1)))
        return np.rint(np.minimum(delays_us, DELAY_US_MAX) * 1000).astype(np.int64)


class Latencies:
    """The delays of every participant, by name. Reads the files of the models; raises ConfigError if one is invalid."""

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
        """The delays of the participant's commands to the exchange; None without latency."""
        return self._delays("orders", name)

    def feed(self, name: str) -> Delays | None:
        """The delays of reports and feed to the participant; None without latency."""
        return self._delays("feed", name)


def _uniform(counters: UInt64s) -> Floats:
    """One number in (0, 1) per counter: the top 53 bits of SplitMix64's finaliser, centred in their cells."""
    mixed = counters * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return ((mixed >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


def _read(path: Path) -> Floats:
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: the file of delays cannot be read ({error}); check the path") from None
    if not lines:
        raise ConfigError(f"{path}: expected one delay in microseconds per line, got an empty file")
    return np.array([_delay_us(path, number, line) for number, line in enumerate(lines, 1)])


def _delay_us(path: Path, number: int, line: str) -> float:
    try:
        value = float(line)
    except ValueError:
        value = math.nan
    if not 0 <= value <= DELAY_US_MAX:
        raise ConfigError(
            f"{path}:{number}: expected a delay from 0 to {DELAY_US_MAX:g} microseconds, got {line.strip()[:40]!r}"
        )
    return value
