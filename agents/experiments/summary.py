"""Means of each arm and paired differences from the baseline, with intervals over seeds and corrected p-values."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from serl.agents.experiments.experiment import Experiment
from serl.agents.experiments.measures import PNL
from serl.agents.experiments.store import Results
from serl.agents.students_t import holm, mean_interval, p_value


@dataclass(frozen=True)
class Mean:
    """A mean over seeds with its 95 % t-interval."""

    mean: float
    interval: tuple[float, float] | None
    """None with fewer than two seeds."""
    seeds: int
    """Number of seeds that have a value."""


@dataclass(frozen=True)
class Difference(Mean):
    """The mean over seeds of an arm's value minus the baseline's with the same seed."""

    p: float | None
    """Two-sided p-value of no difference; None with fewer than two seeds."""
    p_holm: float | None
    """The p-value corrected for all differences of the experiment."""


@dataclass(frozen=True)
class Cell:
    """A measure of an arm."""

    measure: str
    arm: str
    mean: Mean | None
    """None if no seed has a value."""
    difference: Difference | None
    """None for the baseline, and if no seed has a value in both."""

    @property
    def is_clear(self) -> bool:
        """Whether the corrected p-value of the difference is below .05."""
        return self.difference is not None and self.difference.p_holm is not None and self.difference.p_holm < 0.05


def summarise(experiment: Experiment, results: Results) -> list[Cell]:
    """A cell for every measure and, within it, every arm. Holm's correction counts all arms but the baseline, times all measures."""
    cells = []
    for measure in measured_names(experiment, results):
        for arm in experiment.arms:
            if any(measure in results[arm.name, seed] for seed in experiment.seeds):
                cells.append(_cell(experiment, results, measure, arm.name))
    tested = [
        place for place, cell in enumerate(cells) if cell.difference is not None and cell.difference.p is not None
    ]
    corrected = holm([_p(cells[place]) for place in tested])
    for place, p in zip(tested, corrected, strict=True):
        difference = cells[place].difference
        assert difference is not None
        cells[place] = replace(cells[place], difference=replace(difference, p_holm=p))
    return cells


def measured_names(experiment: Experiment, results: Results) -> list[str]:
    """The chosen measures; PNL is replaced by the profit and loss of every group of any arm."""
    first = experiment.seeds[0]
    found = {name for arm in experiment.arms for name in results[arm.name, first] if name.startswith(f"{PNL}.")}
    groups = sorted(found, key=lambda name: (int(name.split(".")[1]), name))
    return [name for measure in experiment.measures for name in (groups if measure == PNL else [measure])]


def _p(cell: Cell) -> float:
    assert cell.difference is not None and cell.difference.p is not None
    return cell.difference.p


def _cell(experiment: Experiment, results: Results, measure: str, arm: str) -> Cell:
    values = [results[arm, seed].get(measure, math.nan) for seed in experiment.seeds]
    if arm == experiment.baseline.name:
        return Cell(measure, arm, _mean(values), None)
    against = [results[experiment.baseline.name, seed].get(measure, math.nan) for seed in experiment.seeds]
    differences = [one - other for one, other in zip(values, against, strict=True)]
    mean = _mean(differences)
    difference = None
    if mean is not None:
        p = p_value([value for value in differences if math.isfinite(value)])
        difference = Difference(mean.mean, mean.interval, mean.seeds, p, None)
    return Cell(measure, arm, _mean(values), difference)


def _mean(values: Sequence[float]) -> Mean | None:
    known = [value for value in values if math.isfinite(value)]
    if not known:
        return None
    estimate = mean_interval(known)
    return Mean(sum(known) / len(known), estimate and (estimate[1], estimate[2]), len(known))
