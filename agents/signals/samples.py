"""Features, labels and moves of the hours of some days, ready to train and to test."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from serl.agents.signals.errors import SignalError
from serl.agents.signals.features import day_features
from serl.agents.signals.grid import Bools, Floats, Grid, Ints
from serl.agents.signals.labels import later_moves, past_moves
from serl.exchange.config import time_of_day_text


@dataclass(frozen=True)
class Samples:
    """n times of one or more days, H horizons."""

    day: Ints
    """[n] number of the day."""
    time_ns: Ints
    """[n] after midnight."""
    features: Floats
    """[n, feature]"""
    moves: Floats
    """[n, H] of the mid until each horizon, ticks; NaN if it ends after the hours."""
    past: Floats
    """[n, H] of the mid over the last horizon, ticks."""

    def __len__(self) -> int:
        """Number of samples."""
        return len(self.time_ns)

    def chosen(self, rows: Bools) -> "Samples":
        """Some of them."""
        return Samples(self.day[rows], self.time_ns[rows], self.features[rows], self.moves[rows], self.past[rows])


def cut_samples(
    grid: Grid, hours: tuple[int, int], horizons_s: Sequence[float], number: int = 0, name: str = ""
) -> Samples:
    """The times in [start, end) whose features are known and which have a label. SignalError if there are none."""
    start, end = hours
    features = day_features(grid)
    moves = np.stack([later_moves(grid, one, end) for one in horizons_s], axis=1)
    past = np.stack([past_moves(grid, one) for one in horizons_s], axis=1)
    rows = (grid.time_ns >= start) & (grid.time_ns < end)
    rows &= np.isfinite(features).all(axis=1) & np.isfinite(moves).any(axis=1)
    if not rows.any():
        covered = (
            f"{time_of_day_text(int(grid.time_ns[0]))}-{time_of_day_text(int(grid.time_ns[-1]))}"
            if len(grid.time_ns)
            else "nothing"
        )
        raise SignalError(
            f"{name or grid.symbol}: expected a bid and an ask for a minute and the shortest horizon in "
            f"{time_of_day_text(start)}-{time_of_day_text(end)}, got none; the day covers {covered}, give hours in it"
        )
    count = int(rows.sum())
    return Samples(np.full(count, number), grid.time_ns[rows], features[rows], moves[rows], past[rows])


def join(parts: Sequence[Samples]) -> Samples:
    """Samples of several days as one."""
    return Samples(
        *(
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("day", "time_ns", "features", "moves", "past")
        )
    )
