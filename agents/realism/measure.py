"""All measurements of the report: a real window against a simulated one, and its JSON."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from serl.agents.realism.benchmark import Benchmark, Comparison, compare
from serl.agents.realism.days import DayWindow
from serl.agents.realism.distances import Estimate, check_bootstraps
from serl.agents.realism.facts import FACTS, Facts, agreements, measure_facts
from serl.agents.realism.impact_response import EVENT_TYPES, ImpactResponse, impact_response, response_distance
from serl.agents.realism.predictive import PredictiveScore, predictive_score
from serl.agents.realism.scores import CONDITIONAL_SCORES, SCORES

FLOOR, SIMULATED, BASELINE = "floor", "simulated", "baseline"
"""The comparisons: the second half of the real window with its first half, and the simulated day and the baseline with the whole window."""


@dataclass(frozen=True)
class Measurement:
    """The report's contents; dictionaries have the keys FLOOR, SIMULATED and, if there is a baseline, BASELINE."""

    real: DayWindow
    simulated: DayWindow
    baseline: DayWindow | None
    benchmarks: dict[str, Benchmark]
    responses: dict[str, ImpactResponse]
    """Also has the key "real"; FLOOR is the second half."""
    first_half_response: ImpactResponse
    facts: dict[str, Facts]
    """Also has the key "real"; FLOOR is the second half."""
    first_half_facts: Facts
    predictive: PredictiveScore | None
    bootstraps: int
    seed: int

    @property
    def names(self) -> list[str]:
        """Names of the comparisons: FLOOR, SIMULATED and, if there is a baseline, BASELINE."""
        return list(self.benchmarks)

    def response_distances(self, name: str) -> Any:
        """[type] mean absolute difference of the response curves, ticks."""
        real = self.first_half_response if name == FLOOR else self.responses["real"]
        return response_distance(real, self.responses[name])

    def agreements(self, name: str) -> list[bool | None]:
        """Whether each fact is shared with the real window (FLOOR: the second half with the first)."""
        return agreements(self.first_half_facts if name == FLOOR else self.facts["real"], self.facts[name])


def count_steps(baseline: bool, predictive: bool) -> int:
    """Number of times that `measure` calls `on_step`."""
    comparisons = 3 if baseline else 2
    return comparisons * (len(SCORES) + len(CONDITIONAL_SCORES)) + 2 + predictive


def measure(
    real: DayWindow, simulated: DayWindow, baseline: DayWindow | None, *, bootstraps: int, seed: int, predictive: bool,
    on_step: Callable[[str], None] = lambda name: None,
) -> Measurement:  # fmt: skip
    """Computes all measurements; calls `on_step` with the name of each finished one. Raises RealismError if a window is too short."""
    check_bootstraps(bootstraps)
    first, second = real.halves()
    pairs = {FLOOR: (first, second), SIMULATED: (real, simulated)}
    if baseline is not None:
        pairs[BASELINE] = (real, baseline)
    benchmarks = {
        name: compare(one.tape, other.tape, bootstraps=bootstraps, seed=seed, on_score=on_step)
        for name, (one, other) in pairs.items()
    }
    sources = {"real": real, **{name: other for name, (_, other) in pairs.items()}}
    random = np.random.default_rng(seed)
    responses = {name: impact_response(source.tape, bootstraps, random) for name, source in sources.items()}
    first_response = impact_response(first.tape, 0, random)
    on_step("impact responses")
    facts = {name: _facts(source, bootstraps, random) for name, source in sources.items()}
    first_facts = _facts(first, 0, random)
    on_step("stylised facts")
    score = None
    if predictive:
        baseline_tape = None if baseline is None else baseline.tape
        score = predictive_score(
            simulated.tape, first.tape, second.tape, baseline_tape, bootstraps=bootstraps, seed=seed
        )
        on_step("predictive score")
    return Measurement(
        real, simulated, baseline, benchmarks, responses, first_response, facts, first_facts, score, bootstraps, seed
    )


def _facts(source: DayWindow, bootstraps: int, random: np.random.Generator) -> Facts:
    return measure_facts(source.tape, source.start_ns, source.end_ns, bootstraps, random)


def to_json(measurement: Measurement) -> dict[str, Any]:
    """All numbers with intervals, counts, sources and seed as JSON; null where there is no number."""
    sources = {"real": measurement.real, SIMULATED: measurement.simulated, BASELINE: measurement.baseline}
    return {
        "data": {name: source.to_json() for name, source in sources.items() if source is not None},
        "seed": measurement.seed,
        "bootstraps": measurement.bootstraps,
        "confidence": 0.95,
        "summary": {
            name: {
                distance: {statistic: _estimate(value) for statistic, value in values.items()}
                for distance, values in benchmark.summary().items()
            }
            for name, benchmark in measurement.benchmarks.items()
        },
        "scores": _scores(measurement, lambda benchmark: benchmark.scores),
        "conditional_scores": _scores(measurement, lambda benchmark: benchmark.conditional),
        "impact": _impact(measurement),
        "facts": _facts_json(measurement),
        "predictive_mae_ticks": _predictive(measurement.predictive),
    }


def _estimate(estimate: Estimate | None) -> dict[str, Any] | None:
    if estimate is None or not math.isfinite(estimate.value):
        return None
    return {"value": estimate.value, "interval": [_number(bound) for bound in estimate.interval]}


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _scores(
    measurement: Measurement, part: Callable[[Benchmark], tuple[Comparison, ...]]
) -> dict[str, dict[str, Any]]:  # fmt: skip
    result: dict[str, dict[str, Any]] = {}
    for name, benchmark in measurement.benchmarks.items():
        for comparison in part(benchmark):
            result.setdefault(comparison.score.name, {"unit": comparison.score.unit})[name] = {
                "l1": _estimate(comparison.distance.l1),
                "wasserstein": _estimate(comparison.distance.wasserstein),
                "values": [comparison.real_count, comparison.simulated_count],
            }
    return result


def _impact(measurement: Measurement) -> dict[str, Any]:
    curves = {}
    for name, found in measurement.responses.items():
        curves[name] = {
            kind: {
                "events": int(found.counts[row]),
                "mean_ticks": [_number(value) for value in found.mean_ticks[row]],
                "low_ticks": [_number(value) for value in found.low_ticks[row]],
                "high_ticks": [_number(value) for value in found.high_ticks[row]],
            }
            for row, kind in enumerate(EVENT_TYPES)
        }
    distances = {name: measurement.response_distances(name) for name in measurement.names}
    return {
        "lags_events": measurement.responses["real"].lags.tolist(),
        "curves": curves,
        "distance_ticks": {
            name: dict(zip(EVENT_TYPES, map(_number, values), strict=True)) for name, values in distances.items()
        },
        "mean_distance_ticks": {name: _number(np.mean(values)) for name, values in distances.items()},
    }


def _facts_json(measurement: Measurement) -> dict[str, Any]:
    shared = {name: measurement.agreements(name) for name in measurement.names}
    lines = {}
    for row, fact in enumerate(FACTS):
        lines[fact.name] = {
            "measure": fact.measure,
            "expected": fact.expected,
            **{name: _estimate(facts.estimates[row]) for name, facts in measurement.facts.items()},
            "agrees": {name: values[row] for name, values in shared.items()},
        }
    counts = {name: {"returns": facts.returns, "trades": facts.trades} for name, facts in measurement.facts.items()}
    return {
        "facts": lines,
        "counts": counts,
        "agreements": {name: values.count(True) for name, values in shared.items()},
    }


def _predictive(score: PredictiveScore | None) -> dict[str, Any] | None:
    if score is None:
        return None
    return {
        "trained_on_simulated": _estimate(score.simulated),
        "trained_on_real": _estimate(score.real),
        "trained_on_baseline": _estimate(score.baseline),
        "no_change": _estimate(score.no_change),
        "test_windows": score.test_windows,
    }
