"""All scores of two tapes side by side."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from serl.agents.realism.distances import Distance, Estimate, conditional_distance, distance, summary
from serl.agents.realism.scores import CONDITIONAL_SCORES, SCORES, ConditionalScore, Score
from serl.agents.realism.tape import Tape


@dataclass(frozen=True)
class Comparison:
    """The comparison of a real and a simulated tape by one score."""

    score: Score | ConditionalScore
    distance: Distance
    real_count: int
    """Number of values in the real sample."""
    simulated_count: int


@dataclass(frozen=True)
class Benchmark:
    """The comparison of a real and a simulated tape by all scores."""

    scores: tuple[Comparison, ...]
    conditional: tuple[Comparison, ...]

    def summary(self) -> dict[str, dict[str, Estimate]]:
        """{"l1", "wasserstein"} to mean, median and iqm over the unconditional scores; W1 where both samples have values."""
        distances = [comparison.distance for comparison in self.scores]
        shared = [distance.wasserstein for distance in distances if distance.wasserstein is not None]
        return {"l1": summary([distance.l1 for distance in distances]), "wasserstein": summary(shared)}


def compare(
    real: Tape, simulated: Tape, *, bootstraps: int, seed: int, on_score: Callable[[str], None] = lambda name: None
) -> Benchmark:  # fmt: skip
    """Compares two windows; calls `on_score` with the name of each score when it is computed.

    Each score has its own random stream, so its interval does not depend on the other scores.
    """
    streams = iter(np.random.SeedSequence(seed).spawn(len(SCORES) + len(CONDITIONAL_SCORES)))
    unconditional, conditional = [], []
    for score in SCORES:
        random = np.random.default_rng(next(streams))
        samples = score.values(real), score.values(simulated)
        found = distance(*samples, discrete=score.discrete, bootstraps=bootstraps, random=random)
        unconditional.append(Comparison(score, found, len(samples[0]), len(samples[1])))
        on_score(score.name)
    for score_given in CONDITIONAL_SCORES:
        random = np.random.default_rng(next(streams))
        pairs = [(score_given.values(tape), score_given.condition(tape)) for tape in (real, simulated)]
        found = conditional_distance(
            pairs[0], pairs[1], deciles=score_given.deciles, discrete=score_given.discrete, bootstraps=bootstraps,
            random=random,
        )  # fmt: skip
        conditional.append(Comparison(score_given, found, len(pairs[0][0]), len(pairs[1][0])))
        on_score(score_given.name)
    return Benchmark(tuple(unconditional), tuple(conditional))
