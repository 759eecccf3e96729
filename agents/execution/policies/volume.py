"""VWAP: slices in proportion to the volume that training days had at the same time of day."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from serl.agents.execution.environment.bars import VOLUME, BarDays
from serl.agents.execution.environment.hours import traded
from serl.agents.execution.policies.schedules import Schedule
from serl.exchange.errors import ConfigError
from serl.exchange.records import Rows
from serl.history.day import Day

SECOND_NS = 1_000_000_000


class CurveError(ConfigError):
    """A volume curve that cannot be read, or that has nothing to say about a window."""


@dataclasses.dataclass(frozen=True)
class VolumeCurve:
    """Shares of a day's volume in buckets of equal width from start_ns on; `days` names what it was fitted on."""

    start_ns: int
    width_ns: int
    shares: tuple[float, ...]
    days: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.width_ns <= 0 or not self.shares or min(self.shares) < 0 or sum(self.shares) <= 0:
            raise CurveError("volume curve: a positive width and shares that are not negative and not all 0 are due")

    @classmethod
    def fit(cls, days: Sequence[Day], width_s: float = 300.0) -> "VolumeCurve":
        """The mean over training days of each day's own shares, so that a busy day counts no more than a quiet one.

        CurveError without a day, or with one in which nothing traded.
        """
        if not days:
            raise CurveError("volume curve: at least one training day is due")
        width_ns = round(width_s * SECOND_NS)
        start_ns = min(day.reference.first_time_ns for day in days) // width_ns * width_ns
        end_ns = max(day.reference.last_time_ns for day in days)
        edges = np.arange(start_ns, end_ns + width_ns + 1, width_ns)
        shares = np.zeros(len(edges) - 1)
        for day in days:
            times, lots = traded(day)
            if not len(lots):
                raise CurveError(f"volume curve: nothing was traded on {_name(day)}; leave this day out")
            shares += np.histogram(times, edges, weights=lots)[0] / lots.sum() / len(days)
        return cls(int(start_ns), width_ns, tuple(shares.tolist()), tuple(_name(day) for day in days))

    @classmethod
    def of_bars(cls, bars: BarDays, days: Sequence[int], names: tuple[str, ...]) -> "VolumeCurve":
        """The mean over some of the days of each one's own shares, a bucket a bar; CurveError if nothing was traded."""
        volume = bars.values[np.asarray(days), :, VOLUME]
        traded_days = volume[volume.sum(axis=1) > 0]
        if not len(traded_days):
            raise CurveError("volume curve: days with volume are due")
        places = (bars.starts_ns - bars.starts_ns[0]) // bars.bar_ns
        shares = np.zeros(int(places[-1]) + 1)
        shares[places] = (traded_days / traded_days.sum(axis=1, keepdims=True)).mean(axis=0)
        return cls(int(bars.starts_ns[0]), bars.bar_ns, tuple(shares.tolist()), names)

    def until(self, time_ns: Any) -> Any:
        """Share of the day's volume before a time, linear within buckets."""
        edges = self.start_ns + self.width_ns * np.arange(len(self.shares) + 1)
        return np.interp(time_ns, edges, np.concatenate(([0.0], np.cumsum(self.shares))))

    def save(self, path: Path | str) -> None:
        """Writes JSON."""
        Path(path).write_text(json.dumps(dataclasses.asdict(self), indent=1))

    @classmethod
    def load(cls, path: Path | str) -> "VolumeCurve":
        """Reads what `save` wrote; CurveError if it is something else."""
        try:
            values = json.loads(Path(path).read_text())
            return cls(
                int(values["start_ns"]),
                int(values["width_ns"]),
                tuple(map(float, values["shares"])),
                tuple(values["days"]),
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CurveError(
                f"{path}: a volume curve is due ({error}); `serl volume-curve DAY -o FILE` makes one"
            ) from None


def _name(day: Day) -> str:
    return " ".join(word for word in (day.reference.symbols[0].name, day.reference.date) if word)


@dataclasses.dataclass(frozen=True)
class Vwap(Schedule):
    """The share due at a time is the curve's volume from the start to then over its volume in the window."""

    curve: VolumeCurve

    name = "vwap"

    def share(self, episodes: Rows, step: Any) -> Any:
        """See Schedule; CurveError if the curve has no volume in a window."""
        start = self.curve.until(episodes["start_ns"])
        whole = self.curve.until(episodes["start_ns"] + episodes["steps"] * episodes["interval_ns"]) - start
        if np.any(whole <= 0):
            raise CurveError("vwap: the curve has no volume in the window; fit it on days that cover these hours")
        return (self.curve.until(episodes["start_ns"] + step * episodes["interval_ns"]) - start) / whole
