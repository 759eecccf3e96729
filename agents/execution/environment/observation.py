"""What an execution agent sees: a fixed list of named numbers, scaled so that most lie within a few units of 0.

Scales come from training data and are saved with a policy; `Layout.names` says what each number is.
"""

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from serl.agents.execution.environment.account import Accounts, mids
from serl.exchange.records import Rows

HISTORY = 5
"""Past steps whose return, volume and signed volume are seen."""


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
        past = [f"{what}_{back}" for what in ("return", "volume", "signed") for back in range(HISTORY)]
        own = ["time_left", "inventory", "behind_schedule", "resting", "ahead", "sign", "drift"]
        return (*book, "spread", "imbalance", *past, *own)

    @property
    def size(self) -> int:
        """How many numbers."""
        return len(self.names)


class Observer:
    """Makes observations of N environments; keeps the last steps of each."""

    def __init__(self, count: int, layout: Layout, scales: Scales) -> None:
        self.layout, self.scales = layout, scales
        self._past = np.zeros((count, 3, HISTORY), np.float32)
        self._mid = np.zeros(count)

    def begin(self, which: Any, frames: Rows) -> None:
        """Environments `which` start anew: no past."""
        self._past[which] = 0
        self._mid[which] = mids(frames[which])

    def note(self, frames: Rows) -> None:
        """A step is over."""
        middle = mids(frames)
        self._past[:, :, 1:] = self._past[:, :, :-1]
        self._past[:, 0, 0] = np.nan_to_num((middle / self._mid - 1) * 1e4 / self.scales.move_bps)
        self._past[:, 1, 0] = np.log1p(frames["traded_lots"] / self.scales.volume_lots)
        self._past[:, 2, 0] = frames["signed_lots"] / (frames["traded_lots"] + self.scales.volume_lots)
        self._mid = np.where(np.isnan(middle), self._mid, middle)

    def observe(self, frames: Rows, fills: Rows, accounts: Accounts) -> NDArray[np.float32]:
        """(N, layout.size), clipped to [-10, 10]."""
        levels, scales = self.layout.levels, self.scales
        middle = self._mid[:, None]
        parents, episodes = accounts.parents, accounts.episodes
        parts: list[Any] = []
        for side, sign in (("bid", -1.0), ("ask", 1.0)):
            ticks, lots = frames[f"{side}_ticks"][:, :levels], frames[f"{side}_lots"][:, :levels]
            parts.append(np.where(ticks > 0, sign * (ticks - middle) / scales.distance_ticks, 10.0))
            parts.append(np.log1p(lots / scales.depth_lots))
        bid, ask = frames["bid_lots"][:, 0], frames["ask_lots"][:, 0]
        both = (frames["bid_ticks"][:, 0] > 0) & (frames["ask_ticks"][:, 0] > 0)
        spread = np.where(both, frames["ask_ticks"][:, 0] - frames["bid_ticks"][:, 0], 10 * scales.spread_ticks)
        qty = episodes["qty_lots"]
        left = 1.0 - parents["step"] / episodes["steps"]
        inventory = parents["remaining_lots"] / qty
        columns = (
            spread / scales.spread_ticks, (bid - ask) / np.maximum(bid + ask, 1),
        )  # fmt: skip
        parts.append(np.stack(columns, axis=1))
        parts.append(self._past.reshape(len(frames), -1))
        own = (
            left, inventory, inventory - left, fills["resting_lots"] / qty,
            np.log1p(fills["ahead_lots"] / scales.depth_lots), episodes["sign"],
            np.nan_to_num((self._mid / parents["arrival_mid"] - 1) * 1e4 / scales.move_bps),
        )  # fmt: skip
        parts.append(np.stack(own, axis=1))
        return np.clip(np.concatenate(parts, axis=1), -10, 10).astype(np.float32)
