"""A complete calibration: measure, search, score, write."""

import dataclasses
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from serl.agents.calibration.caveats import TOUCH_ONLY, caveats
from serl.agents.calibration.costs import (
    SCORE_PAIRS,
    SEARCH_PAIRS,
    ExecutionCosts,
    day_costs,
    day_orders,
    population_costs,
)
from serl.agents.calibration.errors import CalibrationError
from serl.agents.calibration.fit import FreeParameters, flow_population, poisson_population
from serl.agents.calibration.measure import MeasuredFlow, measure_flow
from serl.agents.calibration.objective import COST_WEIGHT, CostTarget, Window, loss
from serl.agents.calibration.poisson import PoissonRates, measure_poisson
from serl.agents.calibration.score import HeldOutScores, score, score_ceiling, score_floor
from serl.agents.calibration.search import Trial, search
from serl.agents.realism.days import day_origin
from serl.agents.realism.tape import Tape, build_tape
from serl.agents.traders.kinds.zero_intelligence import LEVELS
from serl.agents.traders.population import PopulationConfig
from serl.exchange.config import time_of_day_text
from serl.history.day import Day, select_symbol

LEVELS_MAX, COST_DAYS = 10, 10
"""Levels per side at most; simulated days on which the costs of the score are measured."""
SEARCH_SEEDS, SCORE_SEED = 1_000, 500_000
"""First seed of the search, per given seed; seeds of the score start above all of the search's."""


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
    """Whether a day that shows the touch alone is fitted all the same."""


@dataclasses.dataclass(frozen=True)
class Calibration:
    """A fitted population and its scores in held-out hours."""

    plan: CalibrationPlan
    origin: str
    levels: int
    measured: MeasuredFlow
    rates: PoissonRates
    best: Trial
    population: PopulationConfig
    baseline: PopulationConfig
    real: Window
    scored: dict[str, HeldOutScores]
    """Keys: "floor" (two halves of the held-out hours), "ceiling" (training hours against them), "calibrated", "baseline"."""
    costs: dict[str, ExecutionCosts]
    """Keys: "train" and "real", the replayed training and held-out hours; "calibrated", "baseline"."""


def split_windows(day: Day, plan: CalibrationPlan, symbol: str | None, levels: int) -> tuple[Window, Window]:
    """(training, held out) windows. CalibrationError if they overlap; errors as build_tape and Tape.window."""
    if plan.train[0] < plan.held_out[1] and plan.held_out[0] < plan.train[1]:
        raise CalibrationError(
            f"expected separate windows for training and scoring, got {_hours(plan.train)} and {_hours(plan.held_out)}, which "
            "overlap; change --train or --score"
        )
    tape = build_tape(day, min(LEVELS_MAX, levels or day.reference.levels or LEVELS_MAX), symbol)
    return _window(tape, plan.train), _window(tape, plan.held_out)


def _window(tape: Tape, times: tuple[int, int]) -> Window:
    return Window(tape.window(*times), *times)


def _hours(times: tuple[int, int]) -> str:
    return f"{time_of_day_text(times[0])}-{time_of_day_text(times[1])}"


def calibrate(
    day: Day, plan: CalibrationPlan, journal: Path, *, resume: bool = False, symbol: str | None = None, levels: int = 0,
    on_trial: Callable[[Trial], None] = lambda trial: None, on_score: Callable[[str], None] = lambda name: None,
) -> Calibration:  # fmt: skip
    """Fits a population to the training hours of a day and scores it in the held-out hours.

    Each trial is appended to `journal`. CalibrationError or RealismError if the day or a window has too little data, or if the day shows the touch alone.
    """
    train, held_out = split_windows(day, plan, symbol, levels)
    shown = train.tape.levels
    if shown == 1 and not plan.touch_only:
        raise CalibrationError(TOUCH_ONLY)
    measured = measure_flow(train.tape, train.start_ns, train.end_ns)
    level_ticks = max(1, round((measured.spread_ticks + measured.visible_ticks) / LEVELS))
    rates = measure_poisson(train.tape, train.start_ns, train.end_ns, LEVELS, level_ticks)
    tick_size = next(symbol.tick_size for symbol in day.reference.symbols if symbol.name == train.tape.symbol)

    def build_population(free: FreeParameters) -> PopulationConfig:
        return flow_population(measured, free, plan.name, shown, tick_size)

    seeds = [SEARCH_SEEDS * plan.seed + number for number in range(plan.seeds_per_trial)]
    one_symbol = select_symbol(day, train.tape.symbol)
    target = CostTarget(day_costs(one_symbol, *plan.train), day_orders(one_symbol, *plan.train, SEARCH_PAIRS))
    settings = {
        "origin": day_origin(day), "symbol": train.tape.symbol, "train": list(plan.train), "levels": shown, "seeds": seeds,
        "cost_weight": COST_WEIGHT,
    }  # fmt: skip
    best = search(
        lambda free: loss(build_population(free), seeds, train, target), journal, trials=plan.trials, seed=plan.seed, resume=resume,
        settings=settings, on_trial=on_trial,
    )  # fmt: skip
    population = build_population(best.free)
    baseline = poisson_population(rates, measured.first_mid_ticks, f"{plan.name}-poisson", tick_size)
    score_seeds = [SCORE_SEED + 100 * plan.seed + number for number in range(plan.score_seeds)]
    cost_seeds = [SCORE_SEED + 100 * plan.seed + n for n in range(COST_DAYS)]
    scored = {"floor": score_floor(held_out), "ceiling": score_ceiling(train, held_out)}
    found = {"train": target.real, "real": day_costs(one_symbol, *plan.held_out)}
    orders = day_orders(one_symbol, *plan.held_out, SCORE_PAIRS)
    for name, one in (("calibrated", population), ("baseline", baseline)):
        on_score(name)
        scored[name] = score(one, score_seeds, held_out)
        found[name] = population_costs(one, cost_seeds, orders)
    return Calibration(
        plan, day_origin(day), shown, measured, rates, best, population, baseline, held_out, scored, found
    )


def write_population(population: PopulationConfig, path: Path, caveats: Sequence[str] = ()) -> None:
    """Writes a population as YAML for `load_population`, after caveats as comments; CalibrationError if it cannot be written."""
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
    return [_tuples_to_lists(item) for item in value] if isinstance(value, list | tuple) else value


def to_json(found: Calibration) -> dict[str, Any]:
    """All numbers, and the data that they come from."""
    plan = found.plan
    return {
        "caveats": caveats(found.scored, found.levels),
        "data": {"origin": found.origin, "symbol": found.real.tape.symbol, "levels": found.levels},
        "train": {"window": _hours(plan.train), "messages": found.measured.counts},
        "score": {
            "window": _hours(plan.held_out),
            "messages": len(found.real.tape),
            "facts_real": _facts(found),
            **{name: scored.to_json() for name, scored in found.scored.items()},
        },
        "costs": {name: costs.to_json() for name, costs in found.costs.items()},
        "search": {
            "seed": plan.seed, "trials": plan.trials, "seeds_per_trial": plan.seeds_per_trial, "best_trial": found.best.number,
            "loss": found.best.loss, "mean_l1": found.best.mean_l1, "free": dataclasses.asdict(found.best.free),
        },
        "measured": _arrays_to_lists(dataclasses.asdict(found.measured)),
        "poisson": _arrays_to_lists(dataclasses.asdict(found.rates)),
    }  # fmt: skip


def _facts(found: Calibration) -> dict[str, float | None]:
    from serl.agents.realism.facts import FACTS

    values = [estimate.value for estimate in found.real.facts.estimates]
    return {fact.name: None if np.isnan(value) else float(value) for fact, value in zip(FACTS, values, strict=True)}


def _arrays_to_lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _arrays_to_lists(item) for key, item in value.items()}
    return value.tolist() if isinstance(value, np.ndarray) else value


def write_json(found: Calibration, path: Path) -> None:
    """Writes the numbers as JSON."""
    path.write_text(json.dumps(to_json(found), indent=1, allow_nan=False) + "\n")
