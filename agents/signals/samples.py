"""Inputs and labels of the hours of some days, ready for training and testing."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from serl.agents.signals.errors import SignalError
from serl.agents.signals.fill_labels import fill_times, later_fills, past_fills
from serl.agents.signals.grid import Bools, Floats, Grid, Ints
from serl.agents.signals.inputs import Inputs, day_inputs, join_inputs
from serl.agents.signals.labels import later_moves, later_volumes, past_moves, past_volumes
from serl.exchange.config import time_of_day_text


@dataclass(frozen=True)
class Samples:
    """n times of one or more days, H horizons. Labels are NaN if their horizon ends after the hours."""

    day: Ints
    """[n] number of the day."""
    time_ns: Ints
    """[n] ns after midnight."""
    inputs: Inputs
    moves: Floats
    """[n, H] moves of the mid until each horizon, ticks."""
    past: Floats
    """[n, H] moves of the mid over the last horizon, ticks."""
    volumes: Floats
    """[n, H] lots traded until each horizon."""
    past_volumes: Floats
    """[n, H] lots traded over the last horizon."""
    fills: Floats
    """[n, H, side] 1 if an order that joins the queue at the touch is filled within each horizon, else 0."""
    past_fills: Floats
    """[n, H, side] the same for an order that joined one horizon ago."""

    def __len__(self) -> int:
        """Number of samples."""
        return len(self.time_ns)

    def chosen(self, rows: Bools) -> "Samples":
        """Some of the samples."""
        cut: dict[str, Any] = {
            field.name: getattr(self, field.name)[rows] for field in fields(self) if field.name != "inputs"
        }
        return Samples(**cut, inputs=self.inputs.chosen(rows))


def cut_samples(
    grid: Grid, hours: tuple[int, int], horizons_s: Sequence[float], number: int = 0, name: str = ""
) -> Samples:
    """The times in [start, end) that have known features and a label. Raises SignalError if there are none."""
    start, end = hours
    inputs, known = day_inputs(grid)
    moves = _by_horizon(horizons_s, lambda one: later_moves(grid, one, end))
    rows = known & (grid.time_ns >= start) & (grid.time_ns < end) & np.isfinite(moves).any(axis=1)
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
    times_ns = fill_times(grid, max(horizons_s))
    return Samples(
        np.full(int(rows.sum()), number), grid.time_ns[rows], inputs.chosen(rows[known]), moves[rows],
        *(
            _by_horizon(horizons_s, label)[rows]
            for label in (
                lambda one: past_moves(grid, one),
                lambda one: later_volumes(grid, one, end),
                lambda one: past_volumes(grid, one),
                lambda one: later_fills(grid, times_ns, one, end),
                lambda one: past_fills(grid, times_ns, one),
            )
        ),
    )  # fmt: skip


def _by_horizon(horizons_s: Sequence[float], label: Any) -> Floats:
    """[n, H, ..] labels from a function of the horizon."""
    return np.stack([label(one) for one in horizons_s], axis=1)


def join(parts: Sequence[Samples]) -> Samples:
    """Samples of several days as one."""
    joined: dict[str, Any] = {}
    for field in fields(Samples):
        values: list[Any] = [getattr(part, field.name) for part in parts]
        joined[field.name] = join_inputs(values) if field.name == "inputs" else np.concatenate(values)
    return Samples(**joined)
