"""Who proposes candidates: a language model (DEK, or Eureka-style), chance, or nobody (the hand-written default)."""

from typing import Protocol

import numpy as np

from serl.researcher.candidates import Candidate, Module
from serl.researcher.modules.contracts import Kind
from serl.researcher.outer import high_level, prompts, uniform
from serl.researcher.outer.author import Author, verdict_of
from serl.researcher.outer.config import OuterConfig
from serl.researcher.outer.database import Database
from serl.researcher.outer.low_level import LowLevelTuning
from serl.researcher.outer.records import Draft, Instruction, Lessons, Prompt, Proposal, Trial
from serl.researcher.validation.validate import validate


class Proposer(Protocol):
    """Proposes from what the database knows of earlier iterations, so that a resumed run proposes the same."""

    @property
    def model(self) -> str:
        """Who proposes."""

    def propose(self, iteration: int, slot: int) -> Proposal:
        """A candidate."""

    def learn(self, iteration: int) -> Lessons:
        """From an iteration whose candidates are scored."""


def drawn(kind: Kind, rng: np.random.Generator, prompt: Prompt | None = None) -> Draft:
    """A specification drawn uniformly, validated as any other."""
    text = uniform.draw(kind, rng)
    report = validate(kind, text, "spec")
    return Draft(kind, "spec", "uniform", "uniform", prompt, text if report.ok else None, (verdict_of(report, "uniform", 0),),
                 prompt.messages if prompt else ())  # fmt: skip


def candidate_of(drafts: tuple[Draft, ...], inherited: dict[Kind, Module]) -> Candidate | None:
    """The valid drafts over what was inherited; a kind whose draft is not valid is left to the parent or the defaults. None without a valid one."""
    made = {draft.kind: Module(draft.form, draft.text) for draft in drafts if draft.text is not None}
    return Candidate(inherited | made) if made else None


class DefaultProposer:
    """The hand-written default: no modules at all."""

    model = "default"

    def propose(self, iteration: int, slot: int) -> Proposal:
        """The same each time."""
        return Proposal(Candidate({}))

    def learn(self, iteration: int) -> Lessons:
        """Nothing."""
        return Lessons()


class RandomProposer:
    """Specifications drawn uniformly from their schema; no model, no memory."""

    model = "uniform"

    def __init__(self, config: OuterConfig) -> None:
        self._config = config

    def propose(self, iteration: int, slot: int) -> Proposal:
        """A draft of each kind."""
        rng = np.random.default_rng([self._config.seed, iteration, slot])
        drafts = tuple(drawn(kind, rng) for kind in self._config.designed)
        return Proposal(candidate_of(drafts, {}), drafts)

    def learn(self, iteration: int) -> Lessons:
        """Nothing."""
        return Lessons()


class EurekaProposer:
    """Best of n with reflection (Ma et al. 2023, arXiv 2310.12931): all see the best candidate of before and what was measured of it."""

    def __init__(self, config: OuterConfig, database: Database, author: Author) -> None:
        self._config, self._database, self._author = config, database, author

    @property
    def model(self) -> str:
        """Name of the language model."""
        return self._author.model

    def propose(self, iteration: int, slot: int) -> Proposal:
        """A draft of each kind from the same prompt, with a seed of its own."""
        rng = np.random.default_rng([self._config.seed, iteration, slot])
        best = self._database.trials(iteration, 1)
        drafts = tuple(self._draft(kind, best, rng) for kind in self._config.designed)
        parents = tuple((trial.iteration, trial.slot) for trial in best)
        return Proposal(candidate_of(drafts, {}), drafts, parents)

    def _draft(self, kind: Kind, best: list[Trial], rng: np.random.Generator) -> Draft:
        lines = [line for trial in best for line in prompts.module_pair(kind, trial, "Best before; improve on it")]
        text = prompts.micro(kind, self._config.form, prompts.INITIAL[kind][0], lines)
        prompt = Prompt(kind, prompts.conversation(prompts.macro(self._config.inner, self._config.budget, []), text))
        return written(self._author, kind, prompt, rng)

    def learn(self, iteration: int) -> Lessons:
        """Nothing: reflection reads the database."""
        return Lessons()


def written(author: Author, kind: Kind, prompt: Prompt, rng: np.random.Generator) -> Draft:
    """A module by the model."""
    done = author.write(kind, prompt.messages, int(rng.integers(2**31 - 16)))
    return Draft(
        kind, author.form, "model", author.model, prompt, done.text, done.verdicts, done.conversation, done.answer
    )


class DekProposer:
    """Dual-level enhancing: prompts evolve (high level), weights are tuned (low level); either may be absent."""

    def __init__(self, config: OuterConfig, database: Database, author: Author, tuning: LowLevelTuning | None) -> None:
        self._config, self._database, self._author, self._tuning = config, database, author, tuning

    @property
    def model(self) -> str:
        """Name of the language model, which names its adapter too."""
        return self._author.model

    def propose(self, iteration: int, slot: int) -> Proposal:
        """A child of one of the best candidates with some modules written anew, or a wholly new candidate."""
        config, rng = self._config, np.random.default_rng([self._config.seed, iteration, slot])
        population = self._database.trials(iteration, config.population)
        parent = None
        if population and rng.random() >= config.fresh_share:
            parent = population[rng.choice(len(population), p=high_level.rank_shares(len(population)))]
        kinds = config.designed if parent is None else self._rewritten(rng)
        inherited = dict(parent.candidate.modules) if parent else {}
        drafts = tuple(self._draft(kind, iteration, rng) for kind in kinds)
        return Proposal(candidate_of(drafts, inherited), drafts, ((parent.iteration, parent.slot),) if parent else ())

    def _rewritten(self, rng: np.random.Generator) -> tuple[Kind, ...]:
        kinds = self._config.designed
        chosen = tuple(kind for kind in kinds if rng.random() < self._config.rewritten)
        return chosen or (kinds[rng.integers(len(kinds))],)

    def _draft(self, kind: Kind, iteration: int, rng: np.random.Generator) -> Draft:
        prompt = self._prompt(kind, iteration, rng)
        tuned = self._config.tuned  # by the settings: replayed, there is no tuner
        share = tuned.uniform_share if tuned and self._config.form == "spec" else 0.0
        if rng.random() < share:
            return drawn(kind, rng, prompt)
        return written(self._author, kind, prompt, rng)

    def _prompt(self, kind: Kind, iteration: int, rng: np.random.Generator) -> Prompt:
        high = self._config.high_level
        if high is None:
            text = prompts.micro(kind, self._config.form, prompts.INITIAL[kind][0], [])
            return Prompt(kind, prompts.conversation(prompts.macro(self._config.inner, self._config.budget, []), text))
        past = self._database.best_prompts(kind, iteration, high.instructions)
        if past and rng.random() < high.replay_share:
            number, prompt = past[rng.choice(len(past), p=high_level.rank_shares(len(past)))]
            return Prompt(kind, prompt.messages, prompt.instruction, number)
        instructions = self._database.instructions(kind, iteration)
        chosen = high_level.choose(instructions, high.instructions, rng)
        best, worst = self._extremes(iteration)
        lines = prompts.pairs(kind, instructions, high.pairs)
        lines += [line for trial in best for line in prompts.module_pair(kind, trial, "Good")]
        lines += [line for trial in worst for line in prompts.module_pair(kind, trial, "Poor")]
        macro = prompts.macro(self._config.inner, self._config.budget, prompts.learnt(best, worst))
        return Prompt(
            kind, prompts.conversation(macro, prompts.micro(kind, self._config.form, chosen.text, lines)), chosen.id
        )

    def _extremes(self, iteration: int) -> tuple[list[Trial], list[Trial]]:
        """The best and the worst candidate of before; the worst only if it is another. There may be a worst without a best: one that was stopped early."""
        best, worst = self._database.trials(iteration, 1), self._database.trials(iteration, 1, worst=True)
        shown = {trial.candidate.key for trial in best}
        return best, [trial for trial in worst if trial.candidate.key not in shown]

    def learn(self, iteration: int) -> Lessons:
        """First the instructions, by the model as it was; then its weights."""
        instructions, verdicts = list[Instruction](), []
        high = self._config.high_level
        if high is not None:
            lines = prompts.learnt(*self._extremes(iteration + 1))
            for place, kind in enumerate(self._config.designed):
                rng = np.random.default_rng([self._config.seed, iteration, 1 << 20, place])
                known = self._database.instructions(kind, iteration + 1)
                made, verdict = high_level.offspring(
                    kind, known, high.instructions, lines, iteration, self._author, rng
                )
                instructions += made
                verdicts.append(verdict)
        facts = self._tuning.learn(iteration, self._author) if self._tuning else {}
        return Lessons(tuple(instructions), tuple(verdicts), facts)
