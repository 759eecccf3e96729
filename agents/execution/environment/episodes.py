"""Episodes: random parent orders within given hours of given days."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from serl.agents.execution.environment.records import EPISODE
from serl.agents.execution.environment.windows import nearest_multiples
from serl.exchange.config import time_of_day_text
from serl.exchange.errors import ConfigError
from serl.exchange.records import Rows

SECOND_NS = 1_000_000_000


@dataclasses.dataclass(frozen=True)
class Hours:
    """Hours of a day that parent orders must be within, their mean volume, and the number of lots that orders must be a multiple of."""

    day: int
    start_ns: int
    end_ns: int
    volume_lots_per_s: float
    lot_multiple: int = 1


@dataclasses.dataclass(frozen=True)
class RandomOrders:
    """Samples parent orders of both sides with uniformly distributed start (a multiple of the interval) and share of the expected volume."""

    hours: Sequence[Hours]
    duration_s: float = 600.0
    interval_s: float = 10.0
    share_min: float = 0.005
    share_max: float = 0.05

    def __post_init__(self) -> None:
        if not 0 < self.share_min <= self.share_max <= 1:
            raise ConfigError(
                f"share_min, share_max: expected increasing shares in (0, 1], got {self.share_min} and {self.share_max}"
            )
        if self.interval_s <= 0 or self.duration_s < self.interval_s:
            raise ConfigError(
                f"duration_s: expected at least one interval of {self.interval_s} s, got {self.duration_s}; interval_s must be positive"
            )
        intervals = self.duration_s / self.interval_s
        if not np.isclose(intervals, round(intervals), rtol=1e-9):
            raise ConfigError(
                f"duration_s: expected a multiple of interval_s, {self.interval_s:g}, got {self.duration_s:g}; change one of them"
            )
        for hours in self.hours:
            if hours.end_ns - hours.start_ns < self.duration_s * SECOND_NS:
                raise ConfigError(
                    f"hours: expected at least {self.duration_s:g} s, the duration of an order, got "
                    f"{time_of_day_text(hours.start_ns)}-{time_of_day_text(hours.end_ns)}; give longer hours, or shorter orders"
                )

    def sample(self, random: np.random.Generator, count: int) -> Rows:
        """(count,) EPISODE rows."""
        rows = np.zeros(count, EPISODE)
        interval_ns = round(self.interval_s * SECOND_NS)
        steps = round(self.duration_s / self.interval_s)  # 0.6 / 0.2 is not exactly a whole number
        picked = random.integers(len(self.hours), size=count)
        share = random.uniform(self.share_min, self.share_max, count)
        start = random.random(count)
        rows["sign"] = np.where(random.random(count) < 0.5, 1, -1)
        rows["interval_ns"], rows["steps"] = interval_ns, steps
        starts, ends, days = (
            np.array([getattr(hours, name) for hours in self.hours]) for name in ("start_ns", "end_ns", "day")
        )
        volume = np.array([hours.volume_lots_per_s for hours in self.hours])[picked]
        lots = np.array([hours.lot_multiple for hours in self.hours])[picked]
        spare_intervals = (ends - starts)[picked] // interval_ns - steps
        rows["day"] = days[picked]
        rows["start_ns"] = starts[picked] + (start * (spare_intervals + 1)).astype(np.int64) * interval_ns
        rows["qty_lots"] = nearest_multiples(share * volume * self.duration_s, lots)
        return rows
