"""Scores a calibrated population against the real day in held-out hours, over several seeds."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from serl.agents.calibration.objective import RETURN_FACTS, Window, simulated_window
from serl.agents.realism.benchmark import Benchmark, compare
from serl.agents.realism.facts import FACTS, Facts, agreements, measure_facts
from serl.agents.realism.tape import Floats, Tape
from serl.agents.students_t import mean_interval
from serl.agents.traders.population import PopulationConfig


@dataclass(frozen=True)
class SeedSample:
    """One value per seed."""

    values: Floats

    @property
    def mean(self) -> float:
        """Mean over the seeds."""
        return float(self.values.mean())

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the mean, by Student's t; NaN for one value."""
        _, low, high = mean_interval(self.values.tolist()) or (math.nan, math.nan, math.nan)
        return low, high

    def to_json(self) -> dict[str, Any]:
        """Mean, interval (null for one seed) and the values."""
        low, high = self.interval
        bounds = [low, high] if math.isfinite(low) else None
        return {"mean": self.mean, "interval": bounds, "values": self.values.tolist()}


@dataclass(frozen=True)
class HeldOutScores:
    """Distances and shared facts between a population's simulated hours and the real hours."""

    mean_l1: SeedSample
    mean_wasserstein: SeedSample
    facts_shared: SeedSample
    """Number of the RETURN_FACTS facts about returns that are shared."""
    signs_shared: SeedSample
    """1 if the long memory of trade signs is shared, else 0."""
    score_l1: dict[str, SeedSample]
    fact_values: dict[str, SeedSample]
    one_sided_share: SeedSample
    """Share of time in which the book has orders on at most one side. The scores leave out this time."""
    levels_missing_share: SeedSample
    """Share of the levels that the real day can show but the book does not have, averaged over time. The scores of volumes leave them out."""
    messages: list[int]

    @property
    def facts_text(self) -> str:
        """The mean number of shared facts about returns, or "–" if these hours are too short to determine any."""
        told = [np.isfinite(self.fact_values[fact.name].values).any() for fact in FACTS[:RETURN_FACTS]]
        return f"{self.facts_shared.mean:.1f}" if any(told) else "–"

    def to_json(self) -> dict[str, Any]:
        """All numbers."""
        return {
            "mean_l1": self.mean_l1.to_json(),
            "mean_wasserstein": self.mean_wasserstein.to_json(),
            "facts_shared": self.facts_shared.to_json(),
            "trade_sign_memory_shared": self.signs_shared.to_json(),
            "l1": {name: sample.to_json() for name, sample in self.score_l1.items()},
            "facts": {name: [_finite(value) for value in sample.values] for name, sample in self.fact_values.items()},
            "one_sided_share": self.one_sided_share.to_json(),
            "levels_missing_share": self.levels_missing_share.to_json(),
            "messages": self.messages,
        }


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def score(population: PopulationConfig, seeds: list[int], windows: Sequence[Window]) -> list[HeldOutScores]:
    """Simulates the hours once with each seed and compares them with each day; returns [day] scores. All windows have the same hours and levels. Raises
    the errors of Tape.window."""
    first = windows[0]
    tapes = [simulated_window(population, seed, first.span) for seed in seeds]
    facts = [measure_facts(tape, first.start_ns, first.end_ns, 0, np.random.default_rng(0)) for tape in tapes]
    return [
        _scored(window.facts, [compare(window.tape, tape, bootstraps=0, seed=1) for tape in tapes], facts, tapes)
        for window in windows
    ]


def score_floor(window: Window) -> HeldOutScores:
    """Compares the second half of the real window with the first; no simulation needs to be closer."""
    first, second = window.tape.halves(window.start_ns, window.end_ns)
    middle_ns = (window.start_ns + window.end_ns) // 2
    random = np.random.default_rng(0)
    facts = [
        measure_facts(first, window.start_ns, middle_ns, 0, random),
        measure_facts(second, middle_ns, window.end_ns, 0, random),
    ]
    return _scored(facts[0], [compare(first, second, bootstraps=0, seed=1)], facts[1:], [second])


def score_ceiling(training: Sequence[Window], held_out: Window) -> HeldOutScores:
    """Compares the real training hours of each day with the held-out hours; a population that reproduced its training data exactly would have these
    scores. One value per training day."""
    benchmarks = [compare(held_out.tape, one.tape, bootstraps=0, seed=1) for one in training]
    return _scored(held_out.facts, benchmarks, [one.facts for one in training], [one.tape for one in training])


def mean_scores(days: Sequence[HeldOutScores]) -> HeldOutScores:
    """The mean over days, seed by seed, so its intervals are over seeds, not over days."""

    def mean(part: Callable[[HeldOutScores], SeedSample]) -> SeedSample:
        return SeedSample(np.asarray(np.mean([part(one).values for one in days], axis=0)))

    first = days[0]
    return HeldOutScores(
        mean(lambda one: one.mean_l1), mean(lambda one: one.mean_wasserstein), mean(lambda one: one.facts_shared),
        mean(lambda one: one.signs_shared),
        {name: mean(lambda one, name=name: one.score_l1[name]) for name in first.score_l1},
        {name: mean(lambda one, name=name: one.fact_values[name]) for name in first.fact_values},
        mean(lambda one: one.one_sided_share), mean(lambda one: one.levels_missing_share),
        [round(float(count)) for count in np.mean([one.messages for one in days], axis=0)],
    )  # fmt: skip


def one_sided_share(tape: Tape) -> float:
    """Share of the time between the first and last message in which a side of the book is empty."""
    return _over_time(tape, (~tape.two_sided[1:-1]).astype(np.float64))


def levels_missing_share(tape: Tape) -> float:
    """Mean share of the 2N levels that the book does not have, over the time between the first and last message."""
    return _over_time(tape, (tape.book_ticks[1:-1] == 0).mean(axis=(1, 2)))


def _over_time(tape: Tape, values: Floats) -> float:
    """Mean of [n - 1] values between messages, weighted by time."""
    time_ns = np.diff(tape.time_ns)
    return float(values @ time_ns / max(time_ns.sum(), 1))


def _scored(real: Facts, benchmarks: list[Benchmark], facts: list[Facts], tapes: list[Tape]) -> HeldOutScores:
    shared = [agreements(real, found) for found in facts]
    means = [benchmark.summary() for benchmark in benchmarks]
    names = [comparison.score.name for comparison in benchmarks[0].scores]
    return HeldOutScores(
        SeedSample(np.array([mean["l1"]["mean"].value for mean in means])),
        SeedSample(np.array([mean["wasserstein"]["mean"].value for mean in means])),
        SeedSample(np.array([float(one[:RETURN_FACTS].count(True)) for one in shared])),
        SeedSample(np.array([float(one[RETURN_FACTS] is True) for one in shared])),
        {
            name: SeedSample(np.array([benchmark.scores[index].distance.l1.value for benchmark in benchmarks]))
            for index, name in enumerate(names)
        },
        {
            fact.name: SeedSample(np.array([found.estimates[index].value for found in facts]))
            for index, fact in enumerate(FACTS)
        },
        SeedSample(np.array([one_sided_share(tape) for tape in tapes])),
        SeedSample(np.array([levels_missing_share(tape) for tape in tapes])),
        [len(tape) for tape in tapes],
    )  # fmt: skip
