"""Writes the prompts of a run: chooses the instruction and adds what is known about a kind of module."""

from collections.abc import Sequence

import numpy as np

from serl.researcher.modules.contracts import Kind
from serl.researcher.outer import evidence, high_level, prompts
from serl.researcher.outer.author import Author
from serl.researcher.outer.config import Operator, OuterConfig
from serl.researcher.outer.database import Database
from serl.researcher.outer.glossary import glossary
from serl.researcher.outer.notes import measured_notes, written_notes
from serl.researcher.outer.past_results import PastResults
from serl.researcher.outer.prompts import Section
from serl.researcher.outer.records import EvaluatedCandidate, Prompt

ERRORS, ERROR_CHARS_MAX = 3, 300
PAIRS = 2
"""Past modules in a prompt without the high level: this many best and as many worst."""
SIGNALS_TITLE = "What foretells that the price improves for the order, on training days:"
PAST_TITLE = "Past modules, by their difference to the incumbent:"
TASKS: dict[Operator, str] = {
    "rewrite": "Rewrite the first parent's module so that it scores higher.",
    "diff": "Edit the first parent's module so that it scores higher.",
    "combine": "Combine the strengths of both parents in one module.",
}
"""What operators with parents add to an instruction."""


class PromptWriter:
    """Writes prompts from the settings and the database of a run."""

    def __init__(self, config: OuterConfig, database: Database) -> None:
        self._config, self._database = config, database

    def write(
        self, kind: Kind, operator: Operator, author: Author, past: PastResults, parents: Sequence[EvaluatedCandidate], rng: np.random.Generator
    ) -> Prompt:  # fmt: skip
        """The prompt for a module of a kind. Without a parent, it may repeat one of the best past prompts."""
        high = self._config.high_level
        instruction, number, lines = prompts.INITIAL[kind][0], None, list[str]()
        if high is not None:
            best = self._database.best_prompts(kind, past.before, high.instructions)
            if not parents and best and rng.random() < high.replay_share:
                repeated, prompt = best[rng.choice(len(best), p=high_level.rank_shares(len(best)))]
                return Prompt(kind, prompt.messages, prompt.instruction, repeated)
            known = self._database.instructions(kind, past.before)
            chosen = high_level.choose(known, high.instructions, rng)
            instruction, number, lines = chosen.text, chosen.id, prompts.instruction_lines(kind, known, high.pairs)
        if author.size == "tiny":  # a tiny model writes only specifications
            parents = [parent for parent in parents if not _is_code(kind, parent)]
        asked = f"{TASKS.get(operator, '') if parents else ''} {instruction}".strip()
        if author.size == "tiny":
            shown, rest = _parent_sections(kind, past, parents), self._short_sections(kind, past, parents)
            return Prompt(kind, prompts.short_conversation(kind, shown, rest, asked, author.prompt_tokens), number)
        sections = [*self.sections(kind, author, past, parents), Section("Past instructions:", lines, 1)]
        messages = prompts.conversation(
            prompts.macro_prompt(self._config.inner, self._config.budget), kind, author.form, sections, asked,
            author.prompt_tokens, edits=operator == "diff",
        )  # fmt: skip
        return Prompt(kind, messages, number)

    def _short_sections(self, kind: Kind, past: PastResults, parents: Sequence[EvaluatedCandidate]) -> list[Section]:
        """What a tiny model is shown besides the parents: modules, and the gain of each."""
        best, found = past.best, list[Section]()
        if best and not _is_code(kind, best) and _whole(kind, best) not in {_whole(kind, parent) for parent in parents}:
            title = f"The best so far ({_gain(past, best)}), which you must beat:"
            found.append(Section(title, [_whole(kind, best)], 9))
        return [*found, Section(PAST_TITLE, evidence.past_lines(past, kind, self._pairs), 7)]

    @property
    def _pairs(self) -> int:
        return self._config.high_level.pairs if self._config.high_level else PAIRS

    def sections(
        self, kind: Kind, author: Author, past: PastResults, parents: Sequence[EvaluatedCandidate]
    ) -> list[Section]:
        """What is known, in the order in which it is shown."""
        best, kinds, notes = past.best, self._config.module_kinds, self._config.search.notes
        found = [
            Section("Inputs (meaning, and usual range):", glossary(kind, author.form), 4),
            Section("The market on training days:", evidence.market_lines(self._database.fact("market")), 5),
            Section(SIGNALS_TITLE, self._signal_lines(kind), 8),
        ]
        if best and best.result.score:
            own, curve = evidence.module_text(kind, best), evidence.curve_line(best.result)
            found += [
                Section(f"The best so far ({_gain(past, best)}), which you must beat:",
                        [text for text in (evidence.score_text_of(best), own) if text], 9),
                Section("Its behaviour:", [*evidence.behaviour_lines(best.result.score), *filter(None, [curve])], 6),
            ]  # fmt: skip
        return [
            *found,
            *_parent_sections(kind, past, parents),
            Section(PAST_TITLE, evidence.past_lines(past, kind, self._pairs), 7),
            Section("Measured so far:", measured_notes(past, kinds, notes), 3),
            Section("Notes:", written_notes(self._database, past.before, notes), 3),
            Section("Errors of past modules; avoid them:", [text[:ERROR_CHARS_MAX] for text in past.errors(kind, ERRORS)], 2),
        ]  # fmt: skip

    def _signal_lines(self, kind: Kind) -> list[str]:
        return evidence.signal_lines(self._database.signals) if kind is Kind.POLICY else []


def _parent_sections(kind: Kind, past: PastResults, parents: Sequence[EvaluatedCandidate]) -> list[Section]:
    return [
        Section(f"Parent {number} ({_gain(past, parent)}):", [_whole(kind, parent)], 10)
        for number, parent in enumerate(parents, 1)
    ]


def _is_code(kind: Kind, one: EvaluatedCandidate) -> bool:
    module = one.candidate.modules.get(kind)
    return module is not None and module.form == "code"


def _gain(past: PastResults, one: EvaluatedCandidate) -> str:
    return f"{past.difference(one)} to the incumbent"


def _whole(kind: Kind, parent: EvaluatedCandidate) -> str:
    """A parent's whole module: an edit must be able to copy from it."""
    module = parent.candidate.modules.get(kind)
    if module is None:
        return "the default module"
    return f"\n```python\n{module.text.strip()}\n```" if module.form == "code" else module.text.strip()
