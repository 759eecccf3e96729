"""The methods that the proof compares, as settings of the researcher, and how much each of them gets."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from serl.researcher.outer.config import OPERATORS, OuterConfig, parse_config
from serl.researcher.tasks import load_task

FULL, RANDOM, TPE, CEILING, DEFAULT = "full", "random", "tpe", "ceiling", "default"
LOW_LEVEL = {"updates_per_iteration": 4}
"""52 updates in a run of 13 iterations."""
DRAWN_FIRST: dict[str, Any] = {"drawn_first": 32}
RULES = ["policy"]
TRAINED = ["reward", "agent", "learner", "interface"]
"""Kinds of modules that PPO trains with, in the markets of the tasks, which have no history for `imagine` and no second market for `profiles`."""
METHODS: dict[str, dict[str, Any]] = {
    FULL: {"proposer": "dek", "search": DRAWN_FIRST, "low_level": LOW_LEVEL},
    "no-low": {"proposer": "dek", "search": DRAWN_FIRST, "low_level": False},
    "no-reserve": {"proposer": "dek", "search": DRAWN_FIRST | {"model_share": 0.0}, "low_level": False},
    "no-levels": {"proposer": "dek", "search": DRAWN_FIRST, "low_level": False, "high_level": None},
    "no-high": {"proposer": "dek", "search": DRAWN_FIRST, "low_level": LOW_LEVEL, "high_level": None},
    "no-model": {"proposer": "search", "search": DRAWN_FIRST},
    "no-racing": {"proposer": "dek", "search": DRAWN_FIRST, "low_level": LOW_LEVEL},
    "no-signals": {
        "proposer": "search",
        "search": DRAWN_FIRST | {"operators": [one for one in OPERATORS if one != "signal"]},
    },
    "search-no-racing": {"proposer": "search", "search": DRAWN_FIRST},
    "no-policy": {"proposer": "search", "kinds": TRAINED},
    **{f"{kind}-alone": {"proposer": "search", "kinds": [kind]} for kind in TRAINED},
    "eureka": {"proposer": "eureka", "low_level": False},
    RANDOM: {"proposer": "random"},
    "climb": {"proposer": "climb"},
    TPE: {"proposer": "tpe"},
    CEILING: {"proposer": "tpe"},
    DEFAULT: {},
}
"""`ceiling` continues the run of `tpe` to CEILING_SHARE times its candidates; `default` trains the default algorithm instead of searching.
`no-reserve` is `no-low` without candidates that only the model may make, `no-levels` is `no-low` with one instruction throughout; `no-model` searches like `full`, `no-signals` too, without the signals of the market; `no-policy` and the kinds alone do so among algorithms that are trained, the others among rules."""
CEILING_SHARE = 3
DAYS_PER_SEED = 1000
"""Distance between the simulated days of two seeds, which share none."""
FRESH_DAYS = 400_000
"""Distance between the days of a search and the days that measure what it found."""


@dataclass(frozen=True)
class Options:
    """How much a run gets. All methods have the same number of candidates and of scored batches of orders."""

    iterations: int = 13
    candidates: int = 8
    orders: int = 50
    """Of a batch, the unit in which the race scores: once every candidate, three and eight times the better ones."""
    batches: int = 12
    """Of an iteration, the first of each candidate among them; where candidates are trained, trainings with the full steps."""
    days: int = 50
    fresh_orders: int = 400
    fresh_days: int = 200
    trainings: int = 1
    """Of the default."""
    steps_share: float = 1.0
    """Of the task's budget, for a training."""
    first_day: int = 0

    def market(self, seed: int, *, fresh: bool = False) -> dict[str, Any]:
        """The simulated days of a seed."""
        first = self.first_day + DAYS_PER_SEED * (1 + seed) + (FRESH_DAYS if fresh else 0)
        return {"first_day": first, "simulated_days": self.fresh_days if fresh else self.days}


def config_of(task: str, method: str, seed: int, options: Options) -> OuterConfig:
    """A run without early ends, on rules (kind `policy`, which need no training) unless the method names other kinds."""
    alone = method == "climb"  # one candidate at a time: a (1+1) strategy
    iterations = options.iterations * (options.candidates if alone else 1) * (CEILING_SHARE if method == CEILING else 1)
    batches = options.batches / options.candidates if alone else options.batches
    race: dict[str, Any] = {"trainings": batches, "at_once": 1 if alone else options.candidates}
    orders = options.orders
    if method.endswith("no-racing"):  # one batch for every candidate, with as many orders in all
        orders = options.orders * options.batches // options.candidates
        race |= {"stages": [{"share": 1.0, "seeds": 1}], "trainings": None}
    values = {"kinds": RULES} | METHODS[method]
    steps = 0 if values["kinds"] == RULES else _steps(task, options)
    values |= {
        "name": f"{Path(task).stem}-{TPE if method == CEILING else method}-{seed}", "task": task, "seed": seed, "iterations": iterations,
        "candidates": 1 if alone else options.candidates, "workers": 1, "empty_iterations_max": 10_000,
        "convergence": {"iterations_min": 10_000}, "budget": {"static_steps": steps, "dynamic_steps": 0},
        "inner": {"orders": orders, "folds": 0, "race": race, "market": options.market(seed)},
    }  # fmt: skip
    return parse_config(values, method)


def _steps(task: str, options: Options) -> int:
    """Of a training."""
    return round(load_task(task).budget.static_steps * options.steps_share)


def default_config(task: str, seed: int, options: Options) -> OuterConfig:
    """The settings that the default algorithm is trained with, on the same days."""
    values = {
        "task": task, "seed": seed, "budget": {"seed": seed, "static_steps": _steps(task, options)},
        "inner": {"orders": options.orders, "folds": 0, "market": options.market(seed)},
    }  # fmt: skip
    return parse_config(values, DEFAULT)
