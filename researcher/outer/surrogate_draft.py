"""The surrogate operator: of many new specifications, it takes the one with the highest expected improvement (Bayesian optimisation).

The pool holds mutations of a parent, crossings with other elites and new draws. The Gaussian process of tuning/surrogate.py, fitted to all scored
candidates with the standard errors of their scores, gives the expected improvement of each over the best (Jones, Schonlau and Welch 1998). That
costs milliseconds, whereas a score costs a training or hundreds of orders.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from serl.researcher.candidates import Module
from serl.researcher.modules.contracts import Kind
from serl.researcher.outer.mutation import cross, mutate
from serl.researcher.outer.records import EvaluatedCandidate
from serl.researcher.tuning.features import features_of
from serl.researcher.tuning.surrogate import Posterior, predicted

Floats = NDArray[np.float64]
Draw = Callable[[Kind, np.random.Generator], str]
SCORED_MIN = 8
"""Minimum number of scored candidates of specifications; the operator does not apply before."""
POOL = 96
MUTATIONS_MAX = 3


def measurable(scored: Sequence[EvaluatedCandidate]) -> list[EvaluatedCandidate]:
    """The candidates that the surrogate can model: those whose modules are all specifications."""
    return [one for one in scored if all(module.form == "spec" for module in one.candidate.modules.values())]


def best_of_pool(
    kind: Kind, text: str, beside: Mapping[Kind, Module], known: Sequence[EvaluatedCandidate], elites: Sequence[str], new: Draw, rng: np.random.Generator
) -> str:  # fmt: skip
    """The specification of `kind` with the highest expected improvement, together with the modules `beside`. The pool is made from `text`, `elites`
    and new draws (`new`)."""
    pool = [_variant(kind, text, elites, new, rng) for _ in range(POOL)]
    others = {other: module.text for other, module in beside.items() if other is not kind and module.form == "spec"}
    unscored = [features_of({**others, kind: made}) for made in pool]
    features = [features_of({other: one.text for other, one in each.candidate.modules.items()}) for each in known]
    scores, errors = _measured(known)
    measured, unmeasured = predicted(features, scores, errors, unscored)
    return pool[int(np.argmax(expected_improvement(unmeasured, float(measured.mean.max()))))]


def _variant(kind: Kind, text: str, elites: Sequence[str], new: Draw, rng: np.random.Generator) -> str:
    """A new specification for the pool. A quarter are new draws, a quarter are crossed; all but the new draws are mutated up to three times."""
    drawn = rng.random()
    if drawn < 0.25:
        return new(kind, rng)
    made = text
    if drawn < 0.5 and elites:
        made = cross(kind, text, elites[int(rng.integers(len(elites)))], rng)
    for _ in range(int(rng.integers(1, MUTATIONS_MAX + 1))):
        made = mutate(kind, made, rng)
    return made


def _measured(known: Sequence[EvaluatedCandidate]) -> tuple[Floats, Floats]:
    """(scores, standard errors) of candidates. Runs of earlier versions have no paired difference; their errors are unknown, and 0 here."""
    pairs = [
        (one.result.paired.difference_bps, one.result.paired.se_bps)
        if one.result.paired
        else (one.performance_bps, 0.0)
        for one in known
    ]
    scores, errors = np.array(pairs, np.float64).T
    return scores, errors


def expected_improvement(found: Posterior, best: float) -> Floats:
    """(m,): E[max(0, score - best)] under a normal posterior."""
    over = found.mean - best
    z = over / np.maximum(found.sd, 1e-12)
    density = np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)
    below = np.array([0.5 * (1 + math.erf(value / math.sqrt(2))) for value in z])
    return np.where(found.sd > 1e-12, over * below + found.sd * density, np.maximum(over, 0.0))
