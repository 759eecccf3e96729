"""VWAP: slices proportional to the volume of training days at the same time of day."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from serl.agents.execution.environment.bars import VOLUME, BarDays
from serl.agents.execution.environment.hours import day_trades
from serl.agents.execution.policies.schedules import Schedule
from serl.exchange.errors import ConfigError
from serl.exchange.records import Rows
from serl.history.day import Day

SECOND_NS = 1_000_000_000


class CurveError(ConfigError):
    """A volume curve cannot be read, or has no volume in a window."""


@dataclasses.dataclass(frozen=True)
class VolumeCurve:
    """Shares of a day's volume in buckets of equal width from start_ns on, fitted on `days`."""

    start_ns: int
    width_ns: int
    shares: tuple[float, ...]
    days: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.width_ns <= 0 or not self.shares or min(self.shares) < 0 or sum(self.shares) <= 0:
            raise CurveError(
                f"volume curve: expected a positive width and shares from 0 on that are not all 0, got width {self.width_ns} ns and "
                f"shares {self.shares[:10]}"
            )

    @classmethod
    def fit(cls, days: Sequence[Day], width_s: float = 300.0) -> "VolumeCurve":
        """Fits the mean over training days of each day's shares, so that busy and quiet days have the same weight.

        Raises CurveError without days, for a day that is given twice, has several symbols or has no trades, and for buckets narrower than a second.
        """
        if not days:
            raise CurveError("volume curve: expected at least one training day, got none")
        if len({day.digest() for day in days}) < len(days):  # it would have twice the weight
            raise CurveError("volume curve: expected different training days, got one twice; leave it out")
        for day in days:
            if len(day.reference.symbols) > 1:
                names = ", ".join(symbol.name for symbol in day.reference.symbols)
                raise CurveError(
                    f"volume curve: expected days of one symbol, got one of {names}; import the one to trade (serl day import --symbols)"
                )
        if not width_s >= 1:
            raise CurveError(f"volume curve: expected buckets of at least 1 s, got {width_s:g} s; give wider ones")
        width_ns = round(width_s * SECOND_NS)
        start_ns = min(day.reference.first_time_ns for day in days) // width_ns * width_ns
        end_ns = max(day.reference.last_time_ns for day in days)
        edges = np.arange(start_ns, end_ns + width_ns + 1, width_ns)
        shares = np.zeros(len(edges) - 1)
        for day in days:
            times, lots = day_trades(day)
            if not len(lots):
                raise CurveError(f"volume curve: expected trades on {_name(day)}, got none; leave this day out")
            shares += np.histogram(times, edges, weights=lots)[0] / lots.sum() / len(days)
        return cls(int(start_ns), width_ns, tuple(shares.tolist()), tuple(_name(day) for day in days))

    @classmethod
    def fit_bars(cls, bars: BarDays, days: Sequence[int], names: tuple[str, ...]) -> "VolumeCurve":
        """Fits the mean over some days of bars of each day's shares, with one bucket per bar. Raises CurveError if none of them has volume."""
        volume = bars.values[np.asarray(days), :, VOLUME]
        active = volume[volume.sum(axis=1) > 0]
        if not len(active):
            raise CurveError("volume curve: expected days with volume, got none")
        buckets = (bars.starts_ns - bars.starts_ns[0]) // bars.bar_ns
        shares = np.zeros(int(buckets[-1]) + 1)
        shares[buckets] = (active / active.sum(axis=1, keepdims=True)).mean(axis=0)
        return cls(int(bars.starts_ns[0]), bars.bar_ns, tuple(shares.tolist()), names)

    def cumulative_share(self, time_ns: Any) -> Any:
        """Share of the day's volume before a time, interpolated linearly within buckets."""
        edges = self.start_ns + self.width_ns * np.arange(len(self.shares) + 1)
        return np.interp(time_ns, edges, np.concatenate(([0.0], np.cumsum(self.shares))))

    def require_unseen(self, days: Sequence[Day]) -> None:
        """Raises CurveError if the curve was fitted on one of these days, whose volumes are not known ahead. A day without a date cannot be told apart."""
        if seen := [_name(day) for day in days if day.reference.date and _name(day) in self.days]:
            raise CurveError(
                f"vwap: expected a volume curve of earlier days, got one that was fitted on {', '.join(seen)} itself; fit it on others"
            )

    def save(self, path: Path | str) -> None:
        """Writes the curve as JSON."""
        Path(path).write_text(json.dumps(dataclasses.asdict(self), indent=1))

    @classmethod
    def load(cls, path: Path | str) -> "VolumeCurve":
        """Reads a file written by `save`. Raises CurveError for any other file."""
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
                f"{path}: expected a volume curve, got a file that cannot be read as one ({error}); make one with `serl volume-curve DAY -o FILE`"
            ) from None


def _name(day: Day) -> str:
    return " ".join(word for word in (day.reference.symbols[0].name, day.reference.date) if word)


@dataclasses.dataclass(frozen=True)
class Vwap(Schedule):
    """The target share at a time is the curve's volume from the window's start to that time over its volume in the window."""

    curve: VolumeCurve

    name = "vwap"

    def target_share(self, episodes: Rows, step: Any) -> Any:
        """See Schedule. Raises CurveError if the curve has no volume in a window."""
        start = self.curve.cumulative_share(episodes["start_ns"])
        total = self.curve.cumulative_share(episodes["start_ns"] + episodes["steps"] * episodes["interval_ns"]) - start
        if np.any(total <= 0):
            raise CurveError(
                "vwap: expected a curve that covers the window, got one with no volume in the window; fit it on days with these hours"
            )
        return (self.curve.cumulative_share(episodes["start_ns"] + step * episodes["interval_ns"]) - start) / total
