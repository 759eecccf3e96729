"""Searches without a language model that a run of the researcher is compared with: a tree-structured Parzen estimator, and a (1+1) climb."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from serl.agents.calibration.search import import_optuna
from serl.researcher.modules.contracts import Kind
from serl.researcher.modules.specs import parse
from serl.researcher.outer.config import OuterConfig
from serl.researcher.outer.database import Database
from serl.researcher.outer.mutation import mutate
from serl.researcher.outer.operators import candidate_of, some_of, specification_draft, uniform_draft
from serl.researcher.outer.past_results import PastResults
from serl.researcher.outer.records import Draft, EvaluatedCandidate, Lessons, Proposal
from serl.researcher.outer.uniform import Path, chosen

FIRST_RANDOM_TRIALS = 20


class ParzenProposer:
    """Specifications drawn by a tree-structured Parzen estimator (Bergstra et al. 2011, Algorithms for hyper-parameter optimization; optuna's).

    It learns from the paired difference of each earlier candidate. Leaving out a kind's module is a choice, too.
    """

    model = "tpe"

    def __init__(self, config: OuterConfig, database: Database) -> None:
        self._config, self._database = config, database

    def propose(self, iteration: int, slot: int) -> Proposal:
        """A specification of each kind, or none where the estimator leaves the default."""
        optuna, kinds = import_optuna(), self._config.module_kinds
        seed = int(np.random.default_rng([self._config.seed, iteration, slot]).integers(2**31))
        study = optuna.create_study(
            direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed, n_startup_trials=FIRST_RANDOM_TRIALS)
        )
        for one in PastResults(self._database, iteration).scored:
            study.add_trial(_trial(optuna, one, kinds))
        trial, drafts = study.ask(), list[Draft]()
        for kind in kinds:
            if _is_new(kind, kinds, trial.suggest_categorical):
                values = chosen(kind, lambda path, options: trial.suggest_categorical(_name(kind, path), list(options)))  # noqa: B023
                drafts.append(specification_draft(kind, self.model, json.dumps(values)))
        return Proposal(candidate_of(tuple(drafts), {}), tuple(drafts))

    def learn(self, iteration: int) -> Lessons:
        """Learn nothing: proposals read the database."""
        return Lessons()


def _is_new(kind: Kind, kinds: Sequence[Kind], suggest: Any) -> bool:
    return len(kinds) == 1 or suggest(kind.value, ["default", "new"]) == "new"


def _name(kind: Kind, path: Path) -> str:
    return "/".join(map(str, (kind.value, *path)))


def _trial(optuna: Any, one: EvaluatedCandidate, kinds: Sequence[Kind]) -> Any:
    """An earlier candidate as an optuna trial: the choices that make it."""
    found: dict[str, tuple[Any, list[Any]]] = {}

    def record(name: str, value: Any, options: Sequence[Any]) -> Any:
        found[name] = value, list(options)
        return value

    for kind in kinds:
        module = one.candidate.modules.get(kind)
        if len(kinds) > 1:
            record(kind.value, "new" if module else "default", ["default", "new"])
        if module:
            values = parse(kind, module.text).model_dump(mode="json")
            chosen(kind, lambda path, options: record(_name(kind, path), _at(values, path), options))  # noqa: B023
    return optuna.trial.create_trial(
        params={name: value for name, (value, _) in found.items()},
        distributions={name: optuna.distributions.CategoricalDistribution(options) for name, (_, options) in found.items()},
        value=one.performance_bps,
    )  # fmt: skip


def _at(values: Any, path: Path) -> Any:
    """The value at a path; for a list, its length."""
    for step in path:
        values = values[step]
    return len(values) if isinstance(values, list) else values


class ClimbProposer:
    """Mutations of the best candidate so far; a (1+1) evolution strategy with one candidate per iteration."""

    model = "climb"

    def __init__(self, config: OuterConfig, database: Database) -> None:
        self._config, self._database = config, database

    def propose(self, iteration: int, slot: int) -> Proposal:
        """The best candidate with one module mutated, or drawn if it has none of that kind."""
        rng = np.random.default_rng([self._config.seed, iteration, slot])
        past = PastResults(self._database, iteration)
        best: Mapping[Kind, Any] = past.best_modules if past.best else self._config.incumbent_candidate.modules
        (kind,) = some_of(self._config.module_kinds, 0.0, rng)
        module = best.get(kind)
        draft = (
            specification_draft(kind, "mutate", mutate(kind, module.text, rng)) if module else uniform_draft(kind, rng)
        )
        parents = ((past.best.iteration, past.best.slot),) if past.best else ()
        return Proposal(candidate_of((draft,), dict(best)), (draft,), parents)

    def learn(self, iteration: int) -> Lessons:
        """Learn nothing: proposals read the database."""
        return Lessons()
