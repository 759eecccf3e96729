"""What the samples of a soak say: growth of a process by robust regression with an interval, and which promises hold."""

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

GROWTH_MAX_PERCENT_PER_H = 1.0
"""Memory may grow by this much."""
JUDGED_HOURS = 0.5
"""Shorter lives after the warm-up are not judged: a step of some megabytes would be a slope."""
COUNT_GROWTH_MAX = 1.0
"""Descriptors and threads that may be more at the end of a life than after its warm-up."""
BINS, BLOCK_BINS, RESAMPLES, CONFIDENCE, SEED = 60, 5, 200, 0.95, 0
"""Samples are summed up by medians of this many equal parts of the time; the bootstrap draws blocks of them, because neighbours resemble each other."""
BINS_MIN = 10


@dataclasses.dataclass(frozen=True)
class Growth:
    """A slope per hour, and its 95 % interval, in the unit of the values."""

    per_hour: float
    low: float
    high: float

    def scaled(self, factor: float) -> "Growth":
        """In another unit."""
        return Growth(self.per_hour * factor, self.low * factor, self.high * factor)


def theil_sen(hours: NDArray[np.float64], values: NDArray[np.float64]) -> float:
    """The median of the slopes of all pairs of points (Sen 1968): up to 29 % outliers do not move it far."""
    first, second = np.triu_indices(len(hours), 1)
    return float(np.median((values[second] - values[first]) / (hours[second] - hours[first])))


def growth(hours: ArrayLike, values: ArrayLike) -> Growth | None:
    """Slope of the values over time by Theil-Sen, with an interval by a bootstrap of blocks of residuals. None with too few samples."""
    times, numbers = _binned(np.asarray(hours, np.float64), np.asarray(values, np.float64))
    if len(times) < BINS_MIN:
        return None
    slope = theil_sen(times, numbers)
    residuals = numbers - slope * times
    rng, starts = np.random.default_rng(SEED), len(times) - BLOCK_BINS + 1
    count = -(-len(times) // BLOCK_BINS)
    slopes = []
    for _ in range(RESAMPLES):
        at = (rng.integers(0, starts, count)[:, None] + np.arange(BLOCK_BINS)).ravel()[: len(times)]
        slopes.append(theil_sen(times, slope * times + residuals[at]))
    low, high = np.quantile(slopes, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Growth(slope, float(low), float(high))


def _binned(hours: NDArray[np.float64], values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    if len(hours) < BINS_MIN or hours[-1] <= hours[0]:
        return hours[:0], values[:0]
    bins = min(BINS, len(hours) // 2)
    edges = np.linspace(hours[0], hours[-1], bins + 1)
    number = np.clip(np.searchsorted(edges, hours, "right") - 1, 0, bins - 1)
    used = np.unique(number)
    return np.array([hours[number == one].mean() for one in used]), np.array([np.median(values[number == one]) for one in used])  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Life:
    """Growth of a process between its warm-up and its end."""

    name: str
    hours: float  # after the warm-up
    memory_mb: float  # median of what is its own (RssAnon)
    memory_percent: Growth | None  # of its own memory, per hour
    rss_percent: Growth | None  # with the mapped files of the journal
    descriptors: Growth | None  # over the time after the warm-up
    threads: Growth | None

    def broken(self) -> list[str]:
        """The promises that do not hold: those whose whole interval is beyond the limit. None of a life shorter than JUDGED_HOURS."""
        if self.hours < JUDGED_HOURS:
            return []
        limits = {
            "memory": (self.memory_percent, GROWTH_MAX_PERCENT_PER_H, "% an hour"),
            "resident memory": (self.rss_percent, GROWTH_MAX_PERCENT_PER_H, "% an hour"),
            "descriptors": (self.descriptors, COUNT_GROWTH_MAX, "in its time"),
            "threads": (self.threads, COUNT_GROWTH_MAX, "in its time"),
        }
        return [
            f"{self.name}: {what} grows by {found.per_hour:.2f} [{found.low:.2f}, {found.high:.2f}] {unit}, at most {limit:g} is promised"
            for what, (found, limit, unit) in limits.items()
            if found is not None and found.low > limit
        ]


def life(name: str, samples: Sequence[dict[str, float]], warm_up_s: float) -> Life:
    """A process from its samples (time_s, memory_mb, rss_mb, descriptors, threads), without those before its warm-up ends."""
    warm = [one for one in samples if one["time_s"] >= samples[0]["time_s"] + warm_up_s]
    hours = [one["time_s"] / 3600 for one in warm]
    length = hours[-1] - hours[0] if hours else 0.0
    medians = {key: float(np.median([one[key] for one in warm])) if warm else 0.0 for key in ("memory_mb", "rss_mb")}

    def fitted(key: str, factor: float) -> Growth | None:
        found = growth(hours, [one[key] for one in warm])
        return None if found is None else found.scaled(factor)

    return Life(
        name,
        length,
        medians["memory_mb"],
        fitted("memory_mb", 100 / max(medians["memory_mb"], 1e-9)),
        fitted("rss_mb", 100 / max(medians["rss_mb"], 1e-9)),
        fitted("descriptors", length),
        fitted("threads", length),
    )
