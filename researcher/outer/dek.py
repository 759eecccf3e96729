"""Dual-level enhancing over an archive: operators make candidates, prompts evolve (high level), weights are tuned (low level).

Either level may be absent. Without any model, only the operators that need none remain.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from serl.researcher.candidates import Candidate
from serl.researcher.outer import evidence, high_level
from serl.researcher.outer.author import Author
from serl.researcher.outer.bandit import Arm, choose_arm
from serl.researcher.outer.config import OuterConfig
from serl.researcher.outer.database import Database, modules_of
from serl.researcher.outer.identity import behaviour_identity, text_identity
from serl.researcher.outer.low_level import LowLevelTuning
from serl.researcher.outer.notes import measured_notes, write_note
from serl.researcher.outer.operators import MECHANICAL, PARENTS, Made, Operators
from serl.researcher.outer.past_results import PastResults
from serl.researcher.outer.prompting import PromptWriter
from serl.researcher.outer.records import Attempt, Draft, Instruction, Lessons, Note, Proposal, Verdict


class DekProposer:
    """The proposer of this module's docstring. The weights of the first author are tuned."""

    def __init__(
        self, config: OuterConfig, database: Database, authors: Sequence[Author], tuning: LowLevelTuning | None
    ) -> None:
        self._config, self._database, self._authors, self._tuning = config, database, tuple(authors), tuning
        signals = database.signals if config.uses_signals else {}
        self._operators = Operators(config, authors, PromptWriter(config, database), signals)

    @property
    def model(self) -> str:
        """Names of the language models."""
        return ", ".join(author.name for author in self._authors) or "no model"

    def _past(self, before: int) -> PastResults:
        return PastResults(self._database, before, self._config.search.bins)

    def propose(self, iteration: int, slot: int) -> Proposal:
        """Propose a candidate that is not known yet. After an attempt that gives none, operators without a model are tried."""
        rng = np.random.default_rng([self._config.seed, iteration, slot])
        past, known = self._past(max(1, iteration - self._config.lag)), self._known()
        attempts, drafts = list[Attempt](), list[Draft]()
        arm = self._arm(past, rng) if not self._is_drawn(iteration, slot) else self._operators.drawn_first
        for _ in range(1 + self._config.search.retries_max):
            made = self._operators.apply(arm, past, rng)
            candidate, duplicate = made.candidate, _duplicate(made, known)
            used = candidate is not None and duplicate is None
            attempts.append(Attempt(arm.operator, arm.model, used))
            drafts += made.drafts if duplicate is None else [_unused(draft, duplicate) for draft in made.drafts]
            places = tuple((parent.iteration, parent.slot) for parent in made.parents)
            if used:
                return Proposal(candidate, tuple(drafts), places, tuple(attempts))
            mechanical = [one for one in self._operators.arms(past) if one.operator in MECHANICAL]
            if not mechanical:
                break
            arm = next((one for one in mechanical if one.operator == "mutate"), mechanical[-1])
        return Proposal(None, tuple(drafts), places, tuple(attempts))

    def _is_drawn(self, iteration: int, slot: int) -> bool:
        """Whether a candidate is one of the first `drawn_first`. Iterations count from 1."""
        return (iteration - 1) * self._config.candidates + slot < self._config.search.drawn_first

    def _arm(self, past: PastResults, rng: np.random.Generator) -> Arm:
        """The arm that the bandit chooses among those that qualify: with probability `fresh_share` those without parents, else those with parents;
        with probability `model_share` only those with a model."""
        arms = self._operators.arms(past)
        if rng.random() < self._config.search.model_share:
            arms = [arm for arm in arms if arm.model] or arms
        groups = [[arm for arm in arms if bool(PARENTS[arm.operator]) == parents] for parents in (False, True)]  # pyrefly: ignore[bad-index]
        first = groups[int(rng.random() >= self._config.fresh_share)]
        return choose_arm(first or arms, past.paid(), rng)

    def _known(self) -> tuple[set[str], set[str]]:
        """Identities of all candidates so far, by text and by behaviour."""
        rows = self._database.rows("SELECT modules FROM candidates WHERE key IS NOT NULL")
        candidates = [Candidate(modules_of(row["modules"])) for row in rows]
        return {text_identity(one) for one in candidates}, {behaviour_identity(one) for one in candidates}

    def learn(self, iteration: int) -> Lessons:
        """Evolve the instructions and write a note with the models that can, then tune the weights of the first."""
        past, instructions, verdicts = self._past(iteration + 1), list[Instruction](), list[Verdict]()
        rng = np.random.default_rng([self._config.seed, iteration, 1 << 20])
        writers = [author for author in self._authors if author.size != "tiny"]
        if self._config.high_level is not None and writers:
            writer = writers[rng.integers(len(writers))]
            lines = [evidence.score_text_of(past.best)] if past.best else []
            lines += measured_notes(past, self._config.module_kinds, self._config.search.notes)
            for place, kind in enumerate(self._config.module_kinds):
                kind_rng = np.random.default_rng([self._config.seed, iteration, 1 << 20, place])
                known = self._database.instructions(kind, iteration + 1)
                made, verdict = high_level.offspring(
                    kind, known, self._config.high_level.instructions, lines, iteration, writer, kind_rng
                )
                instructions += made
                verdicts.append(verdict)
        notes: tuple[Note, ...] = ()
        capable = [author for author in self._authors if author.size == "large"]
        if capable and self._config.search.notes and past.done:
            author = capable[rng.integers(len(capable))]
            notes, verdict = write_note(past, self._config.module_kinds, author, int(rng.integers(2**31)))
            verdicts.append(verdict)
        facts = self._tuning.learn(iteration, self._authors[0]) if self._tuning else {}
        return Lessons(tuple(instructions), tuple(verdicts), facts, notes)


def _duplicate(made: Made, known: tuple[set[str], set[str]]) -> str | None:
    """How a candidate equals an earlier one, in words; None if it is new, or if there is no candidate."""
    candidate = made.candidate
    if candidate is None:
        return None
    texts, behaviours = known
    if text_identity(candidate) in texts:
        return "an earlier candidate has the same modules"
    return "an earlier candidate does the same" if behaviour_identity(candidate) in behaviours else None


def _unused(draft: Draft, reason: str) -> Draft:
    """The draft marked as unused, because its candidate is known already: it has no score of its own, so nothing is learnt from it."""
    verdict = Verdict(draft.kind, draft.model, len(draft.verdicts), "archive", "duplicate", reason)
    kept = draft.conversation if draft.origin == "model" else ()  # its length says how many answers a module took
    return replace(draft, prompt=None, conversation=kept, answer=None, verdicts=(*draft.verdicts, verdict))
