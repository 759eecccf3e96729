"""The responses of the mid to parent orders, from markets that are run with and without them; the input of validity checks."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from serl.agents.impact.errors import ImpactError
from serl.agents.realism.tape import SECOND_NS, Floats, Ints

STEPS = 24
"""Number of times at which the mid is read per duration of the order."""
FOLLOWED = 6
"""The mid is read until this many durations after the start, that is five after the end."""
TIME = np.arange(FOLLOWED * STEPS + 1) / STEPS
"""[time] durations after the start."""
FACTORS = (1 / 3, 1.0, 3.0)
"""Multiples of the duration over which the second largest order is also worked; each is a multiple of a step."""
CHILDREN = 48
"""Number of child orders of a parent order: two per step, so that every reading follows one."""
SETTLE_NS = SECOND_NS
"""The mid is read this long after each of the times, and so after a child order of the same time."""
RUNS_MIN = 5
SIDES = (1, -1)
"""Buy, sell."""


@dataclass(frozen=True)
class Responses:
    """Responses of one market to orders of each size and side. A run is a seed, or a start time on a replayed day."""

    market: str
    run_name: str
    """The name of runs, in the plural."""
    shares: Floats
    """[size] the order's share of the volume that trades during its time without it, increasing."""
    duration_s: float
    volume_lots: float
    """Mean volume during that time."""
    sigma_ticks: float
    """Root mean square move of the mid during that time, summed from its steps."""
    impact_ticks: Floats
    """[run, side, size, time] mid with the order minus mid without it, times its side."""
    by_duration_ticks: Floats
    """[run, side, factor] the impact at the end of the second largest order, worked over FACTORS of the duration."""
    filled: Floats
    """[size] mean filled share."""
    note: str = ""
    """The coefficients by which a replayed day gives way; empty for other markets."""

    @property
    def runs(self) -> int:
        """Number of runs."""
        return len(self.impact_ticks)


@dataclass(frozen=True)
class Trial:
    """One order in one run."""

    run: int
    side: int
    size: int
    """Index of its size."""
    factor: float
    """Its duration, as a multiple of the common one."""

    @property
    def readings(self) -> Ints:
        """Indices of TIME at which the mid is read: all, or only the end if the duration differs from the common one."""
        return np.arange(len(TIME)) if self.factor == 1.0 else np.array([round(self.factor * STEPS)])


def plan_trials(runs: int, sizes: int) -> list[Trial]:
    """Plans, run by run, a trial of every size and side, and trials of the second largest size over the other durations."""
    orders = [(size, 1.0) for size in range(sizes)] + [(sizes - 2, factor) for factor in FACTORS if factor != 1.0]
    return [Trial(run, side, size, factor) for run in range(runs) for side in SIDES for size, factor in orders]


def collect_responses(
    read: Iterable[tuple[Trial, Floats, float]], base_ticks: Floats, sizes: int
) -> tuple[Floats, Floats, Floats]:  # fmt: skip
    """Collects (impact_ticks, by_duration_ticks, filled) from trials with their mids [reading] and filled shares.

    base_ticks: [run, time] the mids without an order.
    """
    runs = len(base_ticks)
    impact, filled = np.zeros((runs, 2, sizes, len(TIME))), np.zeros((runs, 2, sizes))
    by_duration = np.zeros((runs, 2, len(FACTORS)))
    for trial, mid_ticks, share in read:
        moved = trial.side * (mid_ticks - base_ticks[trial.run, trial.readings])
        side = SIDES.index(trial.side)
        if trial.factor == 1.0:
            impact[trial.run, side, trial.size], filled[trial.run, side, trial.size] = moved, share
        else:
            by_duration[trial.run, side, FACTORS.index(trial.factor)] = moved[0]
    by_duration[:, :, FACTORS.index(1.0)] = impact[:, :, sizes - 2, STEPS]
    return impact, by_duration, filled.mean(axis=(0, 1))


def check_settings(shares: list[float], runs: int, duration_s: float) -> Floats:
    """Returns the sizes, increasing. Raises ImpactError for fewer than two sizes, too few runs, or too little time for the child orders."""
    sizes = np.unique(np.array(shares, np.float64))
    if len(sizes) < 2 or sizes[0] <= 0:
        raise ImpactError(f"qty-share: expected two or more different positive sizes, got {shares}; give e.g. .03,.1")
    if runs < RUNS_MIN:
        raise ImpactError(f"seeds: expected {RUNS_MIN} or more for intervals, got {runs}; give more")
    if not duration_s >= CHILDREN:
        raise ImpactError(
            f"duration: expected {CHILDREN} s or more, got {duration_s:g} s; give longer, for a child order a second"
        )
    return sizes


def reading_times(start_ns: int, duration_s: float) -> Ints:
    """[time] ns after midnight at which the mid is read."""
    return start_ns + np.round(TIME * duration_s * SECOND_NS).astype(np.int64) + SETTLE_NS


def sigma(mid_ticks: Floats) -> float:
    """Root mean square move in a duration, from the steps of mids [run, time] of markets without an order."""
    return float(np.sqrt(np.mean(np.diff(mid_ticks, axis=1) ** 2) * STEPS))
