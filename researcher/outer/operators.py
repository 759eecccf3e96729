"""Operators: each makes drafts of modules, from nothing or from parents, with or without a model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from serl.researcher.candidates import Candidate, Module
from serl.researcher.modules.contracts import Form, Kind, form_of
from serl.researcher.outer import signal_draft, uniform
from serl.researcher.outer.archive import choose_parents
from serl.researcher.outer.author import Author, verdict_of
from serl.researcher.outer.bandit import Arm
from serl.researcher.outer.config import Operator, OuterConfig
from serl.researcher.outer.mutation import cross, mutate
from serl.researcher.outer.past_results import PastResults
from serl.researcher.outer.prompting import PromptWriter
from serl.researcher.outer.records import Draft, EvaluatedCandidate, Prompt
from serl.researcher.outer.surrogate_draft import SCORED_MIN, best_of_pool, measurable
from serl.researcher.signals import Signals
from serl.researcher.validation.validate import validate

PARENTS: dict[Operator, int] = {
    "fresh": 0,
    "signal": 0,
    "uniform": 0,
    "rewrite": 1,
    "diff": 1,
    "mutate": 1,
    "surrogate": 1,
    "combine": 2,
    "cross": 2,
}
"""Number of parents that each operator needs."""
MECHANICAL: frozenset[Operator] = frozenset({"cross", "mutate", "signal", "surrogate", "uniform"})
"""Operators without a model."""
SIGNAL_SHARE = 0.5
"""Share of the new specifications in the surrogate's pool that are drawn from signals, if there are any."""


@dataclass(frozen=True)
class Made:
    """The outcome of an attempt: drafts, the modules inherited with them, and the parents."""

    drafts: tuple[Draft, ...]
    inherited: dict[Kind, Module]
    parents: tuple[EvaluatedCandidate, ...]

    @property
    def candidate(self) -> Candidate | None:
        """The inherited modules, replaced by the valid drafts. None if no draft is valid."""
        return candidate_of(self.drafts, self.inherited)


def candidate_of(drafts: tuple[Draft, ...], inherited: dict[Kind, Module]) -> Candidate | None:
    """The parent's modules, replaced by the valid drafts. None if no draft is valid."""
    made = {draft.kind: Module(draft.form, draft.text) for draft in drafts if draft.text is not None}
    return Candidate(inherited | made) if made else None


def specification_draft(kind: Kind, operator: str, text: str, prompt: Prompt | None = None) -> Draft:
    """A validated specification that an operator without a model made. With a prompt, the model can learn from it."""
    report = validate(kind, text, "spec")
    return Draft(kind, "spec", operator, operator, prompt, text if report.ok else None, (verdict_of(report, operator, 0),),
                 prompt.messages if prompt else ())  # fmt: skip


def uniform_draft(kind: Kind, rng: np.random.Generator, prompt: Prompt | None = None) -> Draft:
    """A specification drawn uniformly."""
    return specification_draft(kind, "uniform", uniform.draw(kind, rng), prompt)


def generated_draft(author: Author, kind: Kind, prompt: Prompt, rng: np.random.Generator, base: str | None = None) -> Draft:  # fmt: skip
    """A draft that the language model generates, whole or as edits of `base`."""
    done = author.generate(kind, prompt.messages, int(rng.integers(2**31 - 16)), base)
    return Draft(
        kind, form_of(kind, author.form), "model", author.model, prompt, done.text, done.verdicts, done.conversation, done.answer,
    )  # fmt: skip


def some_of(kinds: Sequence[Kind], share: float, rng: np.random.Generator) -> tuple[Kind, ...]:
    """Each kind with probability `share`, and at least one."""
    if len(kinds) == 1:
        return tuple(kinds)
    chosen = tuple(kind for kind in kinds if rng.random() < share)
    return chosen or (kinds[int(rng.integers(len(kinds)))],)


class Operators:
    """The operators of a run."""

    def __init__(self, config: OuterConfig, authors: Sequence[Author], writer: PromptWriter, signals: Signals) -> None:
        """`signals` are the market's signals; empty if they are not used or not known."""
        self._config, self._authors, self._writer = config, {author.name: author for author in authors}, writer
        self._signals = signals if any(one.counts for one in signals.values()) else {}

    @property
    def drawn_first(self) -> Arm:
        """The arm that makes the first candidates."""
        return Arm("signal" if self._signals else "uniform")

    def arms(self, past: PastResults) -> list[Arm]:
        """The arms that can be tried now: operators with enough parents, each with every model that can do what the operator asks."""
        found = list[Arm]()
        for operator in self._config.search.operators:
            if PARENTS[operator] > len(past.archive):
                continue
            if operator == "surrogate" and len(measurable(past.scored)) < SCORED_MIN:
                continue
            if operator == "signal" and not self._signals:
                continue
            if operator in MECHANICAL:
                found.append(Arm(operator))
            elif operator == "diff":
                code = any(
                    module.form == "code" for one in past.archive for module in one.candidate.candidate.modules.values()
                )
                found += [
                    Arm(operator, name)
                    for name, one in self._authors.items()
                    if code and one.size == "large" and one.form == "code"
                ]
            else:
                found += [Arm(operator, name) for name in self._authors]
        return found

    def apply(self, arm: Arm, past: PastResults, rng: np.random.Generator) -> Made:
        """An attempt of an arm."""
        operator = cast(Operator, arm.operator)
        author = self._authors.get(arm.model)
        parents = (
            tuple(choose_parents(past.archive, past.offspring, PARENTS[operator], rng)) if PARENTS[operator] else ()
        )
        inherited = self._inherited(parents, past, rng)
        kinds = self._kinds(operator, parents, rng)
        drafts = tuple(self._draft(operator, kind, author, past, parents, inherited, rng) for kind in kinds)
        if not parents and past.best and set(inherited) - set(kinds):
            parents = (past.best,)  # the candidate descends from it through the kinds that it keeps
        return Made(drafts, inherited, parents)

    def _inherited(self, parents: Sequence[EvaluatedCandidate], past: PastResults, rng: np.random.Generator) -> dict[Kind, Module]:  # fmt: skip
        """The modules that are kept: the best candidate's, the parent's, or each from one of the two parents."""
        if not parents:
            return past.best_modules
        each = [dict(parent.candidate.modules) for parent in parents]
        picked = {kind: each[rng.integers(len(each))].get(kind) for kind in self._config.module_kinds}
        return {kind: module for kind, module in picked.items() if module is not None}

    def _kinds(self, operator: Operator, parents: Sequence[EvaluatedCandidate], rng: np.random.Generator) -> tuple[Kind, ...]:  # fmt: skip
        """The kinds whose modules are made anew."""
        kinds, config = self._config.module_kinds, self._config
        if operator == "signal":
            return (Kind.POLICY,)
        if operator in ("mutate", "surrogate"):
            return (kinds[int(rng.integers(len(kinds)))],)
        if operator == "cross":
            differing = [kind for kind in kinds if len({one.candidate.modules.get(kind) for one in parents}) > 1]
            return some_of(differing or kinds, config.rewritten, rng)
        return some_of(kinds, config.rewritten if parents else 1 - config.search.kept, rng)

    def _draft(
        self, operator: Operator, kind: Kind, author: Author | None, past: PastResults, parents: Sequence[EvaluatedCandidate],
        inherited: Mapping[Kind, Module], rng: np.random.Generator,
    ) -> Draft:  # fmt: skip
        texts = _specifications(parents, kind)
        if author is None:
            if operator == "signal":
                return specification_draft(kind, operator, signal_draft.draw(self._signals, rng))
            if operator == "uniform" or not texts:
                return uniform_draft(kind, rng)
            if operator == "cross" and len(texts) == 2:
                return specification_draft(kind, "cross", cross(kind, texts[0], texts[1], rng))
            if operator == "surrogate":
                elites = _specifications([one.candidate for one in past.archive], kind)
                made = best_of_pool(kind, texts[0], inherited, measurable(past.scored), elites, self._new, rng)
                return specification_draft(kind, "surrogate", made)
            return specification_draft(kind, "mutate", mutate(kind, texts[0], rng))
        base = _code_of(parents[0], kind) if operator == "diff" else None
        if operator == "diff" and base is None:
            operator = "rewrite"  # the parent's module is a specification or the default
        prompt = self._writer.write(kind, operator, author, past, parents, rng)
        if rng.random() < self._uniform_share(form_of(kind, author.form)):
            return uniform_draft(kind, rng, prompt)
        return generated_draft(author, kind, prompt, rng, base)

    def _new(self, kind: Kind, rng: np.random.Generator) -> str:
        """A new specification for the pool of the surrogate."""
        if kind is Kind.POLICY and self._signals and rng.random() < SIGNAL_SHARE:
            return signal_draft.draw(self._signals, rng)
        return uniform.draw(kind, rng)

    def _uniform_share(self, form: Form) -> float:
        """The share of specifications drawn uniformly. It comes from the settings, because a replay has no tuner."""
        tuned = self._config.active_low_level
        return tuned.uniform_share if tuned and form == "spec" else 0.0


def _specifications(candidates: Sequence[EvaluatedCandidate], kind: Kind) -> list[str]:
    found = [one.candidate.modules.get(kind) for one in candidates]
    return [module.text for module in found if module and module.form == "spec"]


def _code_of(parent: EvaluatedCandidate, kind: Kind) -> str | None:
    module = parent.candidate.modules.get(kind)
    return module.text if module and module.form == "code" else None
