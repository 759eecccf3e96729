"""The archive of a run: MAP-Elites with sliding boundaries over the behaviour of all evaluated candidates, and the choice of parents.

Each cell keeps its best candidate (Mouret and Clune 2015, arXiv 1504.04909). The boundaries of the cells are quantiles of all candidates so far
(Fontaine et al. 2019, arXiv 1904.10656), so the range of a behaviour need not be known. Parents are chosen among the elites by rank; the more
children an elite has, the less often it is chosen (novelty of Lange et al. 2025, arXiv 2509.19349).
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from serl.researcher.candidates import Score
from serl.researcher.outer.high_level import rank_shares
from serl.researcher.outer.records import EvaluatedCandidate

DESCRIPTORS = ("unfilled", "impact", "lateness")
"""The dimensions of the cells: the share filled by forced completion, the impact, and the mean lateness."""
Place = tuple[int, int]
"""(iteration, slot)."""


def descriptors(score: Score) -> tuple[float, ...]:
    """(unfilled, impact_bps, lateness) of a score; lateness is 0 for scores that lack it."""
    return score.unfilled, score.impact_bps, score.behaviour.get("lateness", 0.0)


@dataclass(frozen=True)
class Elite:
    """The best candidate of a cell."""

    cell: tuple[int, ...]
    candidate: EvaluatedCandidate


def elites(candidates: Iterable[EvaluatedCandidate], bins: int) -> list[Elite]:
    """The best candidate of each cell, best first; cells are `bins` quantiles of each descriptor."""
    scored = [(one, one.result.score) for one in candidates if one.result.score is not None]
    if not scored:
        return []
    values = np.array([descriptors(score) for _, score in scored])
    edges = np.quantile(values, np.arange(1, bins) / bins, axis=0)  # (bins - 1, descriptors)
    cells = (values[:, None, :] > edges[None]).sum(axis=1)
    found: dict[tuple[int, ...], Elite] = {}
    order = sorted(range(len(scored)), key=lambda index: -scored[index][0].performance_bps)
    for index in order:
        cell = tuple(int(part) for part in cells[index])
        found.setdefault(cell, Elite(cell, scored[index][0]))
    return list(found.values())


def children(parents: Iterable[Sequence[Place]]) -> Counter[Place]:
    """The number of children of each candidate, counted from the parents of all candidates."""
    return Counter(place for each in parents for place in each)


def choose_parents(
    archive: Sequence[Elite], offspring: Counter[Place], count: int, rng: np.random.Generator
) -> list[EvaluatedCandidate]:
    """Up to `count` different parents from the archive."""
    weights = rank_shares(len(archive))
    weights /= [1 + offspring[one.candidate.iteration, one.candidate.slot] for one in archive]
    picked = rng.choice(len(archive), size=min(count, len(archive)), replace=False, p=weights / weights.sum())
    return [archive[index].candidate for index in picked]
