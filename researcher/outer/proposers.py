"""Proposers of candidates: a language model (DEK or Eureka-style), uniform random specifications, or the hand-written default."""

from typing import Protocol

import numpy as np

from serl.researcher.candidates import Candidate, Module
from serl.researcher.modules.contracts import Kind, form_of
from serl.researcher.outer import high_level, prompts, uniform
from serl.researcher.outer.author import Author, verdict_of
from serl.researcher.outer.config import OuterConfig
from serl.researcher.outer.database import Database
from serl.researcher.outer.low_level import LowLevelTuning
from serl.researcher.outer.records import Draft, EvaluatedCandidate, Instruction, Lessons, Prompt, Proposal
from serl.researcher.validation.validate import validate


class Proposer(Protocol):
    """Proposes candidates from the database of earlier iterations only, so a resumed run proposes the same."""

    @property
    def model(self) -> str:
        """Name of the model."""

    def propose(self, iteration: int, slot: int) -> Proposal:
        """Propose a candidate for a slot."""

    def learn(self, iteration: int) -> Lessons:
        """Learn from an iteration whose candidates are scored."""


def uniform_draft(kind: Kind, rng: np.random.Generator, prompt: Prompt | None = None) -> Draft:
    """A specification drawn uniformly, and validated."""
    text = uniform.draw(kind, rng)
    report = validate(kind, text, "spec")
    return Draft(kind, "spec", "uniform", "uniform", prompt, text if report.ok else None, (verdict_of(report, "uniform", 0),),
                 prompt.messages if prompt else ())  # fmt: skip


def candidate_of(drafts: tuple[Draft, ...], inherited: dict[Kind, Module]) -> Candidate | None:
    """The parent's modules, replaced by the valid drafts. None if no draft is valid."""
    made = {draft.kind: Module(draft.form, draft.text) for draft in drafts if draft.text is not None}
    return Candidate(inherited | made) if made else None


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
        drafts = tuple(uniform_draft(kind, rng) for kind in self._config.module_kinds)
        return Proposal(candidate_of(drafts, {}), drafts)

    def learn(self, iteration: int) -> Lessons:
        """Learn nothing."""
        return Lessons()


class EurekaProposer:
    """Best of n with reflection (Ma et al. 2023, arXiv 2310.12931): all prompts show the best past candidate and its measurements."""

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
            line for candidate in best for line in prompts.module_lines(kind, candidate, "Best before; improve on it")
        ]
        text = prompts.micro_prompt(kind, self._config.form, prompts.INITIAL[kind][0], lines)
        prompt = Prompt(
            kind, prompts.conversation(prompts.macro_prompt(self._config.inner, self._config.budget, []), text)
        )
        return generated_draft(self._author, kind, prompt, rng)

    def learn(self, iteration: int) -> Lessons:
        """Learn nothing: reflection reads the database."""
        return Lessons()


def generated_draft(author: Author, kind: Kind, prompt: Prompt, rng: np.random.Generator) -> Draft:
    """A draft that the language model generates."""
    done = author.generate(kind, prompt.messages, int(rng.integers(2**31 - 16)))
    return Draft(
        kind,
        form_of(kind, author.form),
        "model",
        author.model,
        prompt,
        done.text,
        done.verdicts,
        done.conversation,
        done.answer,
    )


class DekProposer:
    """Dual-level enhancing: prompts evolve (high level), weights are tuned (low level); either may be absent."""

    def __init__(self, config: OuterConfig, database: Database, author: Author, tuning: LowLevelTuning | None) -> None:
        self._config, self._database, self._author, self._tuning = config, database, author, tuning

    @property
    def model(self) -> str:
        """Name of the language model, including its adapter."""
        return self._author.model

    def propose(self, iteration: int, slot: int) -> Proposal:
        """A child of one of the best candidates with some modules rewritten, or an entirely new candidate."""
        config, rng = self._config, np.random.default_rng([self._config.seed, iteration, slot])
        population = self._database.evaluated(iteration, config.population)
        parent = None
        if population and rng.random() >= config.fresh_share:
            parent = population[rng.choice(len(population), p=high_level.rank_shares(len(population)))]
        kinds = config.module_kinds if parent is None else self._rewritten(rng)
        inherited = dict(parent.candidate.modules) if parent else {}
        drafts = tuple(self._draft(kind, iteration, rng) for kind in kinds)
        return Proposal(candidate_of(drafts, inherited), drafts, ((parent.iteration, parent.slot),) if parent else ())

    def _rewritten(self, rng: np.random.Generator) -> tuple[Kind, ...]:
        kinds = self._config.module_kinds
        chosen = tuple(kind for kind in kinds if rng.random() < self._config.rewritten)
        return chosen or (kinds[rng.integers(len(kinds))],)

    def _draft(self, kind: Kind, iteration: int, rng: np.random.Generator) -> Draft:
        prompt = self._prompt(kind, iteration, rng)
        tuned = self._config.active_low_level  # from the settings, because a replay has no tuner
        share = tuned.uniform_share if tuned and self._config.form == "spec" else 0.0
        if rng.random() < share:
            return uniform_draft(kind, rng, prompt)
        return generated_draft(self._author, kind, prompt, rng)

    def _prompt(self, kind: Kind, iteration: int, rng: np.random.Generator) -> Prompt:
        high = self._config.high_level
        if high is None:
            text = prompts.micro_prompt(kind, self._config.form, prompts.INITIAL[kind][0], [])
            return Prompt(
                kind, prompts.conversation(prompts.macro_prompt(self._config.inner, self._config.budget, []), text)
            )
        past = self._database.best_prompts(kind, iteration, high.instructions)
        if past and rng.random() < high.replay_share:
            number, prompt = past[rng.choice(len(past), p=high_level.rank_shares(len(past)))]
            return Prompt(kind, prompt.messages, prompt.instruction, number)
        instructions = self._database.instructions(kind, iteration)
        chosen = high_level.choose(instructions, high.instructions, rng)
        best, worst = self._extremes(iteration)
        lines = prompts.instruction_lines(kind, instructions, high.pairs)
        lines += [line for candidate in best for line in prompts.module_lines(kind, candidate, "Good")]
        lines += [line for candidate in worst for line in prompts.module_lines(kind, candidate, "Poor")]
        macro = prompts.macro_prompt(self._config.inner, self._config.budget, prompts.score_lines(best, worst))
        return Prompt(
            kind,
            prompts.conversation(macro, prompts.micro_prompt(kind, self._config.form, chosen.text, lines)),
            chosen.id,
        )

    def _extremes(self, iteration: int) -> tuple[list[EvaluatedCandidate], list[EvaluatedCandidate]]:
        """The best and the worst past candidate; the worst only if it differs. A candidate stopped early can be the worst without a best."""
        best, worst = self._database.evaluated(iteration, 1), self._database.evaluated(iteration, 1, worst=True)
        shown = {candidate.candidate.key for candidate in best}
        return best, [candidate for candidate in worst if candidate.candidate.key not in shown]

    def learn(self, iteration: int) -> Lessons:
        """Evolve the instructions with the current model, then tune its weights."""
        instructions, verdicts = list[Instruction](), []
        high = self._config.high_level
        if high is not None:
            lines = prompts.score_lines(*self._extremes(iteration + 1))
            for place, kind in enumerate(self._config.module_kinds):
                rng = np.random.default_rng([self._config.seed, iteration, 1 << 20, place])
                known = self._database.instructions(kind, iteration + 1)
                made, verdict = high_level.offspring(
                    kind, known, high.instructions, lines, iteration, self._author, rng
                )
                instructions += made
                verdicts.append(verdict)
        facts = self._tuning.learn(iteration, self._author) if self._tuning else {}
        return Lessons(tuple(instructions), tuple(verdicts), facts)
