"""The ceiling study of one task: everything that is measured, each once, in a folder that a later run continues from."""

import dataclasses
import hashlib
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.ceiling_orders import Floats, Orders
from benchmarks.ceiling_rules import SIMPLE, clairvoyant_rules, rule, simple_rules
from benchmarks.ceiling_search import FAILED_BPS, draw_rule, draw_training, search, training_pool
from serl.agents.execution.policies.policy import Policy
from serl.exchange.atomic_file import write_json
from serl.exchange.errors import ConfigError
from serl.researcher.candidates import Budget, Candidate
from serl.researcher.inner import training
from serl.researcher.inner.errors import UnusableError
from serl.researcher.inner.rules import rule_policy
from serl.researcher.inner.settings import Settings
from serl.researcher.tasks import Task

Which = tuple[str, int]
SEARCHED, FRESH, TEST = ("validation", 1), ("validation", 2), ("test", 3)
"""Part and seed of the orders that a search uses, that choose the ceiling, and that measure it at the end."""
FINALISTS = 5
"""Rules that are measured on fresh orders: the best of a search is partly the luckiest."""
DEFAULT, RULE, TRAINED = "default", "TPE rule", "TPE training"
Report = Callable[[str, int, int], None]
"""(what, done, total)"""


@dataclasses.dataclass(frozen=True)
class Options:
    """How much is measured."""

    trials: int = 300
    trainings: int = 300
    seeds: int = 8
    orders: int = 1000
    search_orders: int = 200
    workers: int = 1
    steps_share: float = 1.0
    """Of the task's budget of training."""


class Study:
    """See the module. Values are PA in bps by order, (seeds, n) for each method."""

    def __init__(self, task: Task, data: list[Path], options: Options, folder: Path, report: Report) -> None:
        self.task, self.options, self.folder, self._report = task, options, folder, report
        self.settings = task.settings(data)
        share = options.steps_share
        steps = {
            "static_steps": round(share * task.budget.static_steps),
            "dynamic_steps": round(share * task.budget.dynamic_steps),
        }
        self.budget = dataclasses.replace(task.budget, **steps)
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / "measured.json"
        about = {
            "task": task.model_dump(mode="json", exclude={"about", "ladder"}),
            "options": dataclasses.asdict(options) | {"workers": 0},
            "data": list(map(str, data)),
        }
        self._measured: dict[str, Any] = json.loads(self._path.read_text()) if self._path.exists() else {"about": about}
        if self._measured["about"] != about:
            raise ConfigError(
                f"{folder}: expected a study with these options and this version of the task, got another; use another --output"
            )
        self._orders: dict[Which, Orders] = {}
        self._lock = threading.Lock()

    def orders(self, which: Which) -> Orders:
        """The orders of a part and seed."""
        if which not in self._orders:
            count = self.options.search_orders if which == SEARCHED else self.options.orders
            self._orders[which] = Orders(self.settings, which[0], count, which[1])
        return self._orders[which]

    def values(self, name: str, which: Which) -> Floats:
        """(seeds, n) PA of a measured method."""
        found = self._known(name, which)
        return np.array(list(found.values()) if isinstance(found, dict) else [found])

    def run(self) -> None:
        """Measures what is not measured yet."""
        simple = simple_rules(self.settings, self.orders(FRESH))
        self._measure_all(simple, (FRESH, TEST))
        self.best_rule = self._best_rule()
        self._measure_all({RULE: _with_mode(rule(self.best_rule, self.settings))}, (FRESH, TEST))
        self._retrain(DEFAULT, self.settings, self.budget)
        self.methods = [*simple, RULE]
        if self.options.trainings:
            draw, count = draw_training(self.settings, self.budget), self.options.trainings
            found = self._search("trainings", draw, self._value_of_training, count, self.options.workers)
            self._retrain(TRAINED, *found[0])
            self.methods.append(TRAINED)
        bounds = clairvoyant_rules(self.orders(TEST))
        self._measure_all(bounds, (TEST,))
        self.bounds = list(bounds)

    def _measure_all(self, policies: Mapping[str, tuple[Policy, str]], parts: Sequence[Which]) -> None:
        for name in policies:
            self._measure(name, partial(policies.__getitem__, name), parts)

    def _best_rule(self) -> dict[str, Any]:
        """The best on fresh orders of the FINALISTS of the search, which begins with the simple rules."""
        first = [{"offset_percent": 0, "terms": 0, **spec} for spec in SIMPLE.values()]
        specs = self._search("rules", draw_rule, self._value_of_rule, self.options.trials, 1, first, FINALISTS)
        finalists = {f"{RULE} {json.dumps(spec)}": spec for spec in specs}
        policies = {name: _with_mode(rule(spec, self.settings)) for name, spec in finalists.items()}
        self._measure_all(policies, (FRESH,))
        return finalists[max(finalists, key=lambda name: self.values(name, FRESH).mean())]

    def _search(
        self, name: str, draw: Any, evaluate: Any, trials: int, workers: int, first: Any = (), top: int = 1
    ) -> list[Any]:
        def report(done: int) -> None:
            self._report(f"{name} searched", done, trials)

        found = search(draw, evaluate, self.folder / f"{name}.journal", trials, workers, report, first, top)
        self._orders.pop(SEARCHED, None)  # the states of its days take much memory
        return found

    def _value_of_rule(self, spec: Any, number: int) -> float:
        return float(self.orders(SEARCHED).advantages(*_with_mode(rule(spec, self.settings))).mean())

    def _value_of_training(self, drawn: tuple[Settings, Budget], number: int) -> float:
        settings, budget = drawn
        budget = dataclasses.replace(budget, seed=1000 + number)  # other seeds than at the end
        try:
            policy = self._trained(Candidate({}), settings, budget)
        except UnusableError:
            return FAILED_BPS
        with self._lock:
            return float(self.orders(SEARCHED).advantages(*_with_mode(policy)).mean())

    def _retrain(self, name: str, settings: Settings, budget: Budget) -> None:
        """Trains the incumbent with each seed, in parallel. A rule has no seeds."""
        candidate, seeds = self.task.first_candidate, self.options.seeds
        if candidate.is_rule:
            self._measure_all({name: _with_mode(rule_policy(candidate, settings, self.folder))}, (FRESH, TEST))
            return

        def train(seed: int) -> None:
            def make() -> tuple[Policy, str]:
                return _with_mode(self._trained(candidate, settings, dataclasses.replace(budget, seed=seed)))

            self._measure(name, make, (FRESH, TEST), str(seed))
            self._report(f"{name} retrained", len(self._known(name, FRESH)), seeds)

        with training_pool(self.options.workers) as pool:
            list(pool.map(train, range(seeds)))

    def _trained(self, candidate: Candidate, settings: Settings, budget: Budget) -> Policy:
        key = hashlib.sha256(f"{candidate.key} {settings.model_dump_json()} {budget}".encode()).hexdigest()[:16]
        folder = self.folder / "training" / key
        folder.mkdir(parents=True, exist_ok=True)
        result = training.train(candidate, settings, budget, 1.0, folder)
        if not result.ok:
            raise UnusableError(f"training {result.outcome.value}: {result.text}")
        policy: Policy = training.policy_of(result, candidate, settings, budget, folder)
        return policy

    def _known(self, name: str, which: Which) -> Any:
        """PA by order; for a method with seeds, by seed and order."""
        return self._measured.get(f"{name} {which[0]} {which[1]}", {})

    def _measure(
        self, name: str, make: Callable[[], tuple[Policy, str]], parts: Sequence[Which], seed: str | None = None
    ) -> None:
        """Measures a method, or one of its seeds, where it is not measured yet."""
        missing = [
            which
            for which in parts
            if not self._known(name, which) or (seed is not None and seed not in self._known(name, which))
        ]
        if not missing:
            return
        policy, mode = make()
        with self._lock:
            for which in missing:
                found = [round(value, 6) for value in self.orders(which).advantages(policy, mode).tolist()]
                values = found if seed is None else {**self._known(name, which), seed: found}
                self._measured[f"{name} {which[0]} {which[1]}"] = values
            write_json(self._path, self._measured)
        self._report(f"{name} measured", 1, 1)


def _with_mode(policy: Policy) -> tuple[Policy, str]:
    return policy, policy.modes[0]
