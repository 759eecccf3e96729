"""What a proposer may know when it makes a proposal: the results of iterations before a given one."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from serl.researcher.candidates import Module
from serl.researcher.modules.contracts import Kind
from serl.researcher.outer.archive import Elite, Place, children, elites
from serl.researcher.outer.bandit import Arm
from serl.researcher.outer.database import Database, parents_of
from serl.researcher.outer.paired import Difference, paired_difference
from serl.researcher.outer.records import EvaluatedCandidate

EVERY = -1
"""No limit, in SQL."""


@dataclass(frozen=True)
class PastResults:
    """The results before iteration `before`. A race changes these too, so the loop adds no results while proposals are made."""

    database: Database
    before: int
    bins: int = 3

    @cached_property
    def done(self) -> list[EvaluatedCandidate]:
        """Candidates that were evaluated to the end, best first."""
        return self.database.evaluated(self.before, EVERY)

    @cached_property
    def scored(self) -> list[EvaluatedCandidate]:
        """All candidates with a score, also those stopped early, best first."""
        return self.database.evaluated(self.before, EVERY, worst=True)[::-1]

    @property
    def best(self) -> EvaluatedCandidate | None:
        """The candidate that others must beat; None before the first score."""
        return self.done[0] if self.done else None

    @property
    def best_modules(self) -> dict[Kind, Module]:
        """The modules of `best`; empty before the first score, or if all are the default's."""
        return dict(self.best.candidate.modules) if self.best else {}

    @cached_property
    def archive(self) -> list[Elite]:
        """The best candidate of each behaviour."""
        return elites(self.done, self.bins)

    @cached_property
    def offspring(self) -> Counter[Place]:
        """The number of children of each candidate, including children that have no result yet."""
        return children(parents_of(row) for row in self.database.rows("SELECT parents FROM candidates"))

    def difference(self, one: EvaluatedCandidate) -> Difference | None:
        """A candidate's difference to the run's incumbent; in runs of earlier versions, which had none, to the best candidate."""
        if one.result.paired:
            return Difference(one.result.paired.difference_bps, one.result.paired.se_bps)
        return paired_difference(one.result, self.best.result) if self.best else None

    def gains(self) -> dict[Arm, list[Difference | None]]:
        """The differences of each operator's and model's attempts to the best candidate at that time; None for attempts without a scored candidate."""
        rows = self.database.rows(
            "SELECT a.*, c.key FROM attempts a JOIN candidates c USING (iteration, slot) WHERE a.iteration < ? ORDER BY a.iteration, a.slot, number",
            self.before,
        )  # fmt: skip
        by_key = {one.candidate.key: one for one in self.scored}
        found: dict[Arm, list[Difference | None]] = {}
        for row in rows:
            rival = self._best_before(row["iteration"])
            if rival is None:
                continue
            made = by_key.get(row["key"]) if row["used"] else None
            gain = paired_difference(made.result, rival.result) if made else None
            found.setdefault(Arm(row["operator"], row["model"]), []).append(gain)
        return found

    def paid(self) -> dict[Arm, list[float]]:
        """The rewards of each operator's and model's attempts; see bandit.py."""
        return {arm: [gain.better if gain else 0.0 for gain in gains] for arm, gains in self.gains().items()}

    def _best_before(self, iteration: int) -> EvaluatedCandidate | None:
        return next((one for one in self.done if one.iteration < iteration), None)

    def errors(self, kind: Kind, count: int) -> Sequence[str]:
        """The last errors of modules of a kind, in validation or training; each appears once."""
        rows = self.database.rows(
            "SELECT text FROM verdicts WHERE iteration < ? AND reason != 'ok' AND text != '' AND (kind = ? AND stage IN "
            "('static check', 'dry run') OR kind IS NULL AND stage = 'training') GROUP BY text ORDER BY max(id) DESC LIMIT ?",
            self.before, kind.value, count,
        )  # fmt: skip
        return [" ".join(row["text"].split()) for row in rows]
