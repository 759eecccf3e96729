"""Proposers of candidates without an archive: a language model in the style of Eureka, uniform random specifications, the hand-written default."""

from typing import Protocol

import numpy as np

from serl.researcher.candidates import Candidate
from serl.researcher.modules.contracts import Kind
from serl.researcher.outer import evidence, prompts
from serl.researcher.outer.author import Author
from serl.researcher.outer.config import OuterConfig
from serl.researcher.outer.database import Database
from serl.researcher.outer.operators import candidate_of, generated_draft, some_of, uniform_draft
from serl.researcher.outer.records import Draft, EvaluatedCandidate, Lessons, Prompt, Proposal


class Proposer(Protocol):
    """Proposes candidates only from the database of earlier iterations, so a resumed run makes the same proposals."""

    @property
    def model(self) -> str:
        """Name of the model."""

    def propose(self, iteration: int, slot: int) -> Proposal:
        """Propose a candidate for a slot."""

    def learn(self, iteration: int) -> Lessons:
        """Learn from an iteration whose candidates are scored."""


class DefaultProposer:
    """The hand-written default: a candidate without modules."""

    model = "default"

    def propose(self, iteration: int, slot: int) -> Proposal:
        """The same candidate each time."""
        return Proposal(Candidate({}))

    def learn(self, iteration: int) -> Lessons:
        """Learn nothing."""
        return Lessons()


class RandomProposer:
    """Specifications drawn uniformly from their schema, without a model and without memory."""

    model = "uniform"

    def __init__(self, config: OuterConfig) -> None:
        self._config = config

    def propose(self, iteration: int, slot: int) -> Proposal:
        """A uniform draft of each kind."""
        rng = np.random.default_rng([self._config.seed, iteration, slot])
        kinds = some_of(self._config.module_kinds, 1 - self._config.search.kept, rng)
        drafts = tuple(uniform_draft(kind, rng) for kind in kinds)
        return Proposal(candidate_of(drafts, {}), drafts)

    def learn(self, iteration: int) -> Lessons:
        """Learn nothing."""
        return Lessons()


class EurekaProposer:
    """Best of n with reflection (Ma et al. 2023, arXiv 2310.12931): every prompt shows the best past candidate and its measurements."""

    def __init__(self, config: OuterConfig, database: Database, author: Author) -> None:
        self._config, self._database, self._author = config, database, author

    @property
    def model(self) -> str:
        """Name of the language model."""
        return self._author.model

    def propose(self, iteration: int, slot: int) -> Proposal:
        """A draft of each kind, all from the same prompt with different seeds."""
        rng = np.random.default_rng([self._config.seed, iteration, slot])
        best = self._database.evaluated(iteration, 1)
        drafts = tuple(self._draft(kind, best, rng) for kind in self._config.module_kinds)
        parents = tuple((candidate.iteration, candidate.slot) for candidate in best)
        return Proposal(candidate_of(drafts, {}), drafts, parents)

    def _draft(self, kind: Kind, best: list[EvaluatedCandidate], rng: np.random.Generator) -> Draft:
        lines = [
            f"{evidence.module_text(kind, one)} -> {evidence.score_text_of(one)}"
            for one in best
            if evidence.module_text(kind, one)
        ]
        messages = prompts.conversation(
            prompts.macro_prompt(self._config.inner, self._config.budget), kind, self._author.form,
            [prompts.Section("Best before; improve on it:", lines, 1)], prompts.INITIAL[kind][0], self._author.prompt_tokens,
        )  # fmt: skip
        return generated_draft(self._author, kind, Prompt(kind, messages), rng)

    def learn(self, iteration: int) -> Lessons:
        """Learn nothing: reflection reads the database."""
        return Lessons()
