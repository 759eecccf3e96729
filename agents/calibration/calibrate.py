"""A complete calibration: measure, search, score, write."""

import dataclasses
import json
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from serl.agents.calibration.caveats import caveats
from serl.agents.calibration.costs import (
    SCORE_PAIRS,
    SEARCH_PAIRS,
    ExecutionCosts,
    day_costs,
    pooled_orders,
    population_costs,
)
from serl.agents.calibration.days import CalibrationDay, NamedDay, cut_days
from serl.agents.calibration.errors import CalibrationError
from serl.agents.calibration.fit import FreeParameters, flow_population, poisson_population
from serl.agents.calibration.measure import MeasuredFlow, measure_flow
from serl.agents.calibration.objective import COST_WEIGHT, CostTarget, TrainingMoments, Window, loss
from serl.agents.calibration.poisson import PoissonRates, measure_poisson
from serl.agents.calibration.score import HeldOutScores, mean_scores, score, score_ceiling, score_floor
from serl.agents.calibration.search import Trial, search
from serl.agents.realism.days import window_text
from serl.agents.realism.facts import FACTS
from serl.agents.traders.kinds.zero_intelligence import LEVELS
from serl.agents.traders.population import PopulationConfig
from serl.cluster import LOCAL

COST_DAYS = 10
"""Number of simulated days on which the costs of the score are measured."""
SEARCH_SEEDS, SCORE_SEED = 1_000, 500_000
"""First seed of the search, per given seed; the seeds of the score start above all seeds of the search."""


@dataclasses.dataclass(frozen=True)
class CalibrationPlan:
    """Settings of a calibration."""

    name: str
    train: tuple[int, int]
    """(start, end) in ns after midnight."""
    held_out: tuple[int, int]
    trials: int = 100
    seed: int = 1
    seeds_per_trial: int = 4
    score_seeds: int = 5
    touch_only: bool = False
    """Whether to fit a day that shows only the touch."""


@dataclasses.dataclass(frozen=True)
class Calibration:
    """A fitted population and its scores in held-out hours."""

    plan: CalibrationPlan
    days: list[CalibrationDay]
    """The fitted days, then the test days."""
    levels: int
    measured: MeasuredFlow
    rates: PoissonRates
    best: Trial
    population: PopulationConfig
    baseline: PopulationConfig
    scored_days: list[dict[str, HeldOutScores]]
    """[day] scores with the keys of `scored`."""
    costs: dict[str, ExecutionCosts]
    """Keys: "train" and "real", the replayed training and held-out hours of the fitted days; "calibrated", "baseline"."""

    @cached_property
    def scored(self) -> dict[str, HeldOutScores]:
        """Mean scores over the fitted days. Keys: "floor" (two halves of the held-out hours), "ceiling" (training hours against held-out hours),
        "calibrated", "baseline"."""
        return self._mean(tests=False)

    @cached_property
    def tested(self) -> dict[str, HeldOutScores]:
        """Like `scored`, but the mean over the test days; empty without test days."""
        return self._mean(tests=True)

    def _mean(self, *, tests: bool) -> dict[str, HeldOutScores]:
        chosen = [
            scored for day, scored in zip(self.days, self.scored_days, strict=True) if (day.train is None) == tests
        ]
        return {name: mean_scores([one[name] for one in chosen]) for name in chosen[0]} if chosen else {}

    @property
    def fitted(self) -> list[CalibrationDay]:
        """The fitted days, without the test days."""
        return [day for day in self.days if day.train is not None]

    @property
    def sources(self) -> str:
        """The names of the days, as text."""
        tests = ", ".join(day.name for day in self.days if day.train is None)
        return ", ".join(day.name for day in self.fitted) + (f"; tested on {tests}" if tests else "")

    @property
    def caveats(self) -> list[str]:
        """Caveats about the population; see caveats.py."""
        return caveats(self.scored, self.levels, self.tested)


def calibrate(
    days: Sequence[NamedDay], plan: CalibrationPlan, journal: Path, *, tests: Sequence[NamedDay] = (), resume: bool = False,
    symbol: str | None = None, levels: int = 0, on_trial: Callable[[Trial], None] = lambda trial: None,
    on_score: Callable[[str], None] = lambda name: None, on: str = LOCAL,
) -> Calibration:  # fmt: skip
    """Fits a population to the training hours of days and scores it in their held-out hours and in those of the test days.

    Each trial is appended to `journal`. on: where the days of the trials are simulated (`serl.cluster.check_place`). Raises the errors of cut_days.
    """
    cut = cut_days(
        days, tests, plan.train, plan.held_out, symbol=symbol, levels=levels, touch_only=plan.touch_only
    )  # fmt: skip
    fitted = [one for one in cut if one.train is not None]
    training = [one.train for one in fitted if one.train is not None]
    tapes, shown, tick_size = [one.tape for one in training], training[0].tape.levels, fitted[0].symbol.tick_size
    measured = measure_flow(tapes, *plan.train)
    level_ticks = max(1, round((measured.spread_ticks + measured.visible_ticks) / LEVELS))
    rates = measure_poisson(tapes, *plan.train, LEVELS, level_ticks)

    def build_population(free: FreeParameters) -> PopulationConfig:
        return flow_population(measured, free, plan.name, shown, tick_size)

    seeds = [SEARCH_SEEDS * plan.seed + number for number in range(plan.seeds_per_trial)]
    histories = [one.day for one in fitted]
    target = CostTarget(day_costs(histories, *plan.train), pooled_orders(histories, *plan.train, SEARCH_PAIRS))
    settings = {
        "origin": " + ".join(one.origin for one in fitted), "symbol": _symbols(fitted), "train": list(plan.train), "levels": shown,
        "seeds": seeds, "cost_weight": COST_WEIGHT,
    }  # fmt: skip
    real = TrainingMoments.measure(training)
    best = search(
        lambda free: loss(build_population(free), seeds, real, target, on), journal, trials=plan.trials, seed=plan.seed, resume=resume,
        settings=settings, on_trial=on_trial,
    )  # fmt: skip
    population = build_population(best.free)
    baseline = poisson_population(rates, measured.first_mid_ticks, f"{plan.name}-poisson", tick_size)
    score_seeds = [SCORE_SEED + 100 * plan.seed + number for number in range(plan.score_seeds)]
    cost_seeds = [SCORE_SEED + 100 * plan.seed + n for n in range(COST_DAYS)]
    windows = [one.held_out for one in cut]
    scored = {
        "floor": [score_floor(one) for one in windows],
        "ceiling": [score_ceiling(training, one) for one in windows],
    }
    found = {"train": target.real, "real": day_costs(histories, *plan.held_out)}
    orders = pooled_orders(histories, *plan.held_out, SCORE_PAIRS)
    for name, one in (("calibrated", population), ("baseline", baseline)):
        on_score(name)
        scored[name] = score(one, score_seeds, windows)
        found[name] = population_costs(one, cost_seeds, orders)
    by_day = [{name: values[number] for name, values in scored.items()} for number in range(len(cut))]
    return Calibration(plan, cut, shown, measured, rates, best, population, baseline, by_day, found)


def _symbols(days: Sequence[CalibrationDay]) -> str:
    """The symbols of the days, each once."""
    return ", ".join(dict.fromkeys(one.symbol.name for one in days))


def write_population(population: PopulationConfig, path: Path, caveats: Sequence[str] = ()) -> None:
    """Writes a population as YAML for `load_population`, after the caveats as comments. Raises CalibrationError if it cannot be written."""
    values = population.model_dump(exclude_defaults=True)
    try:
        comments = "".join(f"# {caveat}\n" for caveat in caveats)
        text = yaml.safe_dump(_tuples_to_lists(values), sort_keys=False, default_flow_style=None, width=140)
        path.write_text(comments + text)
    except OSError as error:
        raise CalibrationError(
            f"{path}: expected a writable file, got {error.strerror}; give a file in a folder that exists"
        ) from None


def _tuples_to_lists(value: Any) -> Any:
    """Replaces tuples by lists, because plain YAML has no tuples."""
    if isinstance(value, dict):
        return {key: _tuples_to_lists(item) for key, item in value.items()}
    return [_tuples_to_lists(item) for item in value] if isinstance(value, (list, tuple)) else value


def to_json(found: Calibration) -> dict[str, Any]:
    """All numbers, and the data from which they come."""
    plan = found.plan
    return {
        "caveats": found.caveats,
        "data": {
            "origin": " + ".join(day.origin for day in found.fitted), "symbol": _symbols(found.fitted), "levels": found.levels,
            "days": [
                {"name": day.name, "origin": day.origin, "symbol": day.symbol.name, "test": day.train is None} for day in found.days
            ],
        },
        "train": {"window": window_text(plan.train), "messages": found.measured.counts},
        "score": {
            "window": window_text(plan.held_out),
            **_scored_json(found.scored),
            "days": [
                {
                    "name": day.name, "test": day.train is None, "messages": len(day.held_out.tape), "facts_real": _facts(day.held_out),
                    **_scored_json(scored),
                }
                for day, scored in zip(found.days, found.scored_days, strict=True)
            ],
            "tests": _scored_json(found.tested),
        },
        "costs": {name: costs.to_json() for name, costs in found.costs.items()},
        "search": {
            "seed": plan.seed, "trials": plan.trials, "seeds_per_trial": plan.seeds_per_trial, "best_trial": found.best.number,
            "loss": found.best.loss, "mean_l1": found.best.mean_l1, "free": dataclasses.asdict(found.best.free),
        },
        "measured": _arrays_to_lists(dataclasses.asdict(found.measured)),
        "poisson": _arrays_to_lists(dataclasses.asdict(found.rates)),
    }  # fmt: skip


def _scored_json(scored: dict[str, HeldOutScores]) -> dict[str, Any]:
    return {name: one.to_json() for name, one in scored.items()}


def _facts(window: Window) -> dict[str, float | None]:
    values = [estimate.value for estimate in window.facts.estimates]
    return {fact.name: None if np.isnan(value) else float(value) for fact, value in zip(FACTS, values, strict=True)}


def _arrays_to_lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _arrays_to_lists(item) for key, item in value.items()}
    return value.tolist() if isinstance(value, np.ndarray) else value


def write_json(found: Calibration, path: Path) -> None:
    """Writes the numbers as JSON."""
    path.write_text(json.dumps(to_json(found), indent=1, allow_nan=False) + "\n")
