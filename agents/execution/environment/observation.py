"""The observations of an execution agent: a fixed list of named numbers, scaled so that most are within a few units of 0.

Scales are fitted on training data and saved with a policy; `Layout.names` names each number.
"""

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from serl.agents.execution.environment.account import Accounts, mid_of, mids
from serl.agents.execution.environment.layout import HISTORY_FEATURES, HISTORY_STEPS, Layout
from serl.exchange.compiling import compiled, inlined
from serl.exchange.errors import ConfigError
from serl.exchange.records import Rows

if TYPE_CHECKING:
    from serl.agents.execution.environment.forecasts import Forecasts


@dataclasses.dataclass(frozen=True)
class Scales:
    """Units of the observations, fitted on training data."""

    depth_lots: float = 500.0  # typical quantity at a level
    spread_ticks: float = 10.0
    distance_ticks: float = 20.0  # distance of a level from the mid
    move_bps: float = 5.0  # move of the mid in a step
    volume_lots: float = 2000.0  # volume in a step

    @classmethod
    def fit(cls, frames: Rows) -> "Scales":
        """Fits scales as medians, which are robust to outliers, on FRAME rows of training episodes."""
        lots = frames["bid_lots"][frames["bid_lots"] > 0]
        spread = frames["ask_ticks"][:, 0] - frames["bid_ticks"][:, 0]
        distance = np.abs(frames["ask_ticks"] - mids(frames)[:, None])[frames["ask_ticks"] > 0]
        volume = frames["traded_lots"]
        default = cls()
        return cls(
            depth_lots=_median(lots, default.depth_lots), spread_ticks=_median(spread, default.spread_ticks),
            distance_ticks=_median(distance, default.distance_ticks), move_bps=default.move_bps,
            volume_lots=_median(volume[volume > 0], default.volume_lots),
        )  # fmt: skip


def _median(values: Any, default: float) -> float:
    return max(1.0, float(np.median(values))) if len(values) else default


@inlined
def _clip(number: float) -> float:
    return min(10.0, max(-10.0, number))


@compiled
def _push_history(frames: Any, history: Any, mid: Any, move_bps: float, volume_lots: float) -> None:
    for env in range(mid.size):
        frame, rows = frames[env], history[env]
        for lag in range(HISTORY_STEPS - 1, 0, -1):
            for feature in range(4):
                rows[feature, lag] = rows[feature, lag - 1]
        now = mid_of(frame)
        move = (now / mid[env] - 1) * 1e4 / move_bps
        rows[0, 0] = 0.0 if np.isnan(move) else move
        rows[1, 0] = math.log1p(frame.traded_lots / volume_lots)
        rows[2, 0] = frame.signed_lots / (frame.traded_lots + volume_lots)
        gap = (now * frame.traded_lots / max(1, frame.traded_notional) - 1) * 1e4 / move_bps
        rows[3, 0] = 0.0 if np.isnan(gap) or frame.traded_lots == 0 else gap
        if not np.isnan(now):
            mid[env] = now


@inlined
def _write_side(ticks: Any, lots: Any, sign: float, mid: float, levels: int, distance_unit: float, depth: float, row: Any, at: int) -> int:  # fmt: skip
    """Writes one side from `row[at]` on, first distances from the mid, then quantities; returns the next index."""
    for level in range(levels):
        distance = sign * (ticks[level] - mid) / distance_unit if ticks[level] > 0 else 10.0
        row[at + level] = _clip(distance)
        row[at + levels + level] = _clip(math.log1p(lots[level] / depth))
    return at + 2 * levels


@compiled
def _observe(frames: Any, fills: Any, parents: Any, episodes: Any, which: Any, history: Any, mid: Any, levels: int, units: Any, out: Any) -> None:  # fmt: skip
    depth, spread_unit, distance, move_bps = units[0], units[1], units[2], units[3]
    for index in range(which.size):
        env = which[index]
        frame, fill, parent, episode, row = frames[env], fills[env], parents[env], episodes[env], out[index]
        at = _write_side(frame.bid_ticks, frame.bid_lots, -1.0, mid[env], levels, distance, depth, row, 0)
        at = _write_side(frame.ask_ticks, frame.ask_lots, 1.0, mid[env], levels, distance, depth, row, at)
        bid, ask = frame.bid_lots[0], frame.ask_lots[0]
        both = frame.bid_ticks[0] > 0 and frame.ask_ticks[0] > 0
        row[at] = _clip((frame.ask_ticks[0] - frame.bid_ticks[0]) / spread_unit) if both else 10.0
        row[at + 1] = (bid - ask) / max(bid + ask, 1)
        at += 2
        for feature in range(4):
            for lag in range(HISTORY_STEPS):
                row[at] = _clip(history[env, feature, lag])
                at += 1
        time_left = 1.0 - parent.step / episode.steps
        inventory = parent.remaining_lots / episode.qty_lots
        drift = (mid[env] / parent.arrival_mid - 1) * 1e4 / move_bps
        row[at] = time_left
        row[at + 1] = inventory
        row[at + 2] = inventory - time_left
        row[at + 3] = fill.resting_lots / episode.qty_lots
        row[at + 4] = _clip(math.log1p(fill.ahead_lots / depth))
        row[at + 5] = episode.sign
        row[at + 6] = 0.0 if np.isnan(drift) else _clip(drift)


class Observer:
    """Computes the observations of N environments and keeps the history of each."""

    def __init__(self, count: int, layout: Layout, scales: Scales, forecasts: "Forecasts | None" = None) -> None:
        if layout.horizons_s != (forecasts.horizons_s if forecasts else ()):
            raise ConfigError(
                f"observations: expected forecasts for {layout.horizons_s or 'no horizons'}, got "
                f"{forecasts.horizons_s if forecasts else 'none'}; give the market the forecaster of the policy"
            )
        self.layout, self.scales = layout, scales
        self._history = np.zeros((count, len(HISTORY_FEATURES), HISTORY_STEPS), np.float32)
        self._mid = np.zeros(count)
        self._all_envs = np.arange(count)
        self._size = len(layout.all_names)
        self.forecasts = forecasts
        kept = [layout.all_names.index(name) for name in layout.names if name in layout.all_names]
        self._columns = kept if layout.left_out else None
        self._units = np.array([scales.depth_lots, scales.spread_ticks, scales.distance_ticks, scales.move_bps])

    def begin(self, which: Any, frames: Rows) -> None:
        """Clears the history of environments `which`."""
        self._history[which] = 0
        self._mid[which] = mids(frames[which])

    def record_step(self, frames: Rows) -> None:
        """Adds a finished step to the history."""
        _push_history(frames, self._history, self._mid, self.scales.move_bps, self.scales.volume_lots)

    def observe(self, frames: Rows, fills: Rows, accounts: Accounts, which: Any = None) -> NDArray[np.float32]:
        """(N, layout.size) observations, or one row for each environment in `which`; clipped to [-10, 10]."""
        out = self.observe_all(frames, fills, accounts, which)
        kept = out if self._columns is None else out.take(self._columns, axis=1)
        if self.forecasts is None:
            return kept
        chosen = self._all_envs if which is None else which
        forecasts = self.forecasts.observe(chosen, accounts.episodes[chosen], frames["time_ns"][chosen])
        return np.concatenate((kept, forecasts), axis=1)

    def observe_all(self, frames: Rows, fills: Rows, accounts: Accounts, which: Any = None) -> NDArray[np.float32]:
        """Like `observe`, but with the numbers that the layout leaves out and without forecasts."""
        which = self._all_envs if which is None else which
        out = np.empty((len(which), self._size), np.float32)
        _observe(
            frames, fills, accounts.parents, accounts.episodes, which, self._history, self._mid, self.layout.levels,
            self._units, out,
        )  # fmt: skip
        return out
