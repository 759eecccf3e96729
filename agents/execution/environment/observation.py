"""What an execution agent sees: a fixed list of named numbers, scaled so that most lie within a few units of 0.

Scales come from training data and are saved with a policy; `Layout.names` says what each number is.
"""

import dataclasses
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from serl.agents.execution.environment.account import Accounts, mid_of, mids
from serl.exchange.compiling import compiled, inlined
from serl.exchange.records import Rows

HISTORY = 5
"""Past steps of which is seen what WHAT names."""
WHAT = ("return", "volume", "signed", "gap")
"""The mid's return, what was traded, bought minus sold, and how far the mid at the end is above the step's VWAP."""


@dataclasses.dataclass(frozen=True)
class Scales:
    """Units of the observation, fixed on training data."""

    depth_lots: float = 500.0  # a typical quantity of a level
    spread_ticks: float = 10.0
    distance_ticks: float = 20.0  # of a level from the mid
    move_bps: float = 5.0  # of the mid in a step
    volume_lots: float = 2000.0  # traded in a step

    @classmethod
    def fit(cls, frames: Rows) -> "Scales":
        """From FRAME rows of training episodes; medians, so that outliers do not matter."""
        lots = frames["bid_lots"][frames["bid_lots"] > 0]
        spread = frames["ask_ticks"][:, 0] - frames["bid_ticks"][:, 0]
        away = np.abs(frames["ask_ticks"] - mids(frames)[:, None])[frames["ask_ticks"] > 0]
        volume = frames["traded_lots"]
        base = cls()
        return cls(
            depth_lots=_median(lots, base.depth_lots), spread_ticks=_median(spread, base.spread_ticks),
            distance_ticks=_median(away, base.distance_ticks), move_bps=base.move_bps,
            volume_lots=_median(volume[volume > 0], base.volume_lots),
        )  # fmt: skip


def _median(values: Any, default: float) -> float:
    return max(1.0, float(np.median(values))) if len(values) else default


@dataclasses.dataclass(frozen=True)
class Layout:
    """Which numbers an observation holds."""

    levels: int = 5

    @property
    def names(self) -> tuple[str, ...]:
        """One a number, in order."""
        book = [
            f"{side}_{what}_{level}"
            for side in ("bid", "ask")
            for what in ("distance", "lots")
            for level in range(1, self.levels + 1)
        ]
        past = [f"{what}_{back}" for what in WHAT for back in range(HISTORY)]
        own = ["time_left", "inventory", "behind_schedule", "resting", "ahead", "sign", "drift"]
        return (*book, "spread", "imbalance", *past, *own)

    @property
    def size(self) -> int:
        """How many numbers."""
        return len(self.names)


@inlined
def _bounded(number: float) -> float:
    return min(10.0, max(-10.0, number))


@compiled
def _note(frames: Any, past: Any, mid: Any, move_bps: float, volume_lots: float) -> None:
    for env in range(mid.size):
        frame, rows = frames[env], past[env]
        for back in range(HISTORY - 1, 0, -1):
            for what in range(4):
                rows[what, back] = rows[what, back - 1]
        middle = mid_of(frame)
        move = (middle / mid[env] - 1) * 1e4 / move_bps
        rows[0, 0] = 0.0 if np.isnan(move) else move
        rows[1, 0] = math.log1p(frame.traded_lots / volume_lots)
        rows[2, 0] = frame.signed_lots / (frame.traded_lots + volume_lots)
        gap = (middle * frame.traded_lots / max(1, frame.traded_notional) - 1) * 1e4 / move_bps
        rows[3, 0] = 0.0 if np.isnan(gap) or frame.traded_lots == 0 else gap
        if not np.isnan(middle):
            mid[env] = middle


@inlined
def _book(ticks: Any, lots: Any, sign: float, middle: float, levels: int, distance: float, depth: float, row: Any, at: int) -> int:  # fmt: skip
    """One side: distances from the mid, then quantities; where to go on."""
    for level in range(levels):
        away = sign * (ticks[level] - middle) / distance if ticks[level] > 0 else 10.0
        row[at + level] = _bounded(away)
        row[at + levels + level] = _bounded(math.log1p(lots[level] / depth))
    return at + 2 * levels


@compiled
def _observe(frames: Any, fills: Any, parents: Any, episodes: Any, which: Any, past: Any, mid: Any, levels: int, units: Any, out: Any) -> None:  # fmt: skip
    depth, spread_unit, distance, move_bps = units[0], units[1], units[2], units[3]
    for place in range(which.size):
        env = which[place]
        frame, fill, parent, episode, row = frames[env], fills[env], parents[env], episodes[env], out[place]
        at = _book(frame.bid_ticks, frame.bid_lots, -1.0, mid[env], levels, distance, depth, row, 0)
        at = _book(frame.ask_ticks, frame.ask_lots, 1.0, mid[env], levels, distance, depth, row, at)
        bid, ask = frame.bid_lots[0], frame.ask_lots[0]
        both = frame.bid_ticks[0] > 0 and frame.ask_ticks[0] > 0
        row[at] = _bounded((frame.ask_ticks[0] - frame.bid_ticks[0]) / spread_unit) if both else 10.0
        row[at + 1] = (bid - ask) / max(bid + ask, 1)
        at += 2
        for what in range(4):
            for back in range(HISTORY):
                row[at] = _bounded(past[env, what, back])
                at += 1
        left = 1.0 - parent.step / episode.steps
        inventory = parent.remaining_lots / episode.qty_lots
        drift = (mid[env] / parent.arrival_mid - 1) * 1e4 / move_bps
        row[at] = left
        row[at + 1] = inventory
        row[at + 2] = inventory - left
        row[at + 3] = fill.resting_lots / episode.qty_lots
        row[at + 4] = _bounded(math.log1p(fill.ahead_lots / depth))
        row[at + 5] = episode.sign
        row[at + 6] = 0.0 if np.isnan(drift) else _bounded(drift)


class Observer:
    """Makes observations of N environments; keeps the last steps of each."""

    def __init__(self, count: int, layout: Layout, scales: Scales) -> None:
        self.layout, self.scales = layout, scales
        self._past = np.zeros((count, len(WHAT), HISTORY), np.float32)
        self._mid = np.zeros(count)
        self._everyone = np.arange(count)
        self._units = np.array([scales.depth_lots, scales.spread_ticks, scales.distance_ticks, scales.move_bps])

    def begin(self, which: Any, frames: Rows) -> None:
        """Environments `which` start anew: no past."""
        self._past[which] = 0
        self._mid[which] = mids(frames[which])

    def note(self, frames: Rows) -> None:
        """A step is over."""
        _note(frames, self._past, self._mid, self.scales.move_bps, self.scales.volume_lots)

    def observe(self, frames: Rows, fills: Rows, accounts: Accounts, which: Any = None) -> NDArray[np.float32]:
        """(N, layout.size), or a row for each of the environments `which`; clipped to [-10, 10]."""
        which = self._everyone if which is None else which
        out = np.empty((len(which), self.layout.size), np.float32)
        _observe(
            frames, fills, accounts.parents, accounts.episodes, which, self._past, self._mid, self.layout.levels,
            self._units, out,
        )  # fmt: skip
        return out
