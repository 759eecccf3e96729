"""Notes on what a run has learnt: statements from measurements for every model, and sentences that capable models write after an iteration."""

import math
from collections.abc import Sequence

import numpy as np

from serl.researcher.llm.requests import Message
from serl.researcher.modules.contracts import Kind
from serl.researcher.outer.author import Author
from serl.researcher.outer.database import Database
from serl.researcher.outer.features import features
from serl.researcher.outer.past_results import PastResults
from serl.researcher.outer.records import Note, Verdict

COUNT_MIN = 3
"""Minimum number of candidates with a choice, and of candidates without it, for a statement."""
SHOWN = 4
"""Best candidates of an iteration that a model is shown for a note; the worst one is added."""


def measured_notes(past: PastResults, kinds: Sequence[Kind], count: int) -> list[str]:
    """The choices whose candidates differ most, in standard errors, from the candidates without them, such as
    'policy rest_percent 3000: +0.40 bps over n=12 (standard error 0.10)'. Other choices confound the differences, as in the means of any search."""
    candidates = past.done
    values = np.array([one.performance_bps for one in candidates])
    having: dict[str, list[int]] = {}
    for index, one in enumerate(candidates):
        for feature in features(one.candidate, kinds):
            having.setdefault(feature, []).append(index)
    found = list[tuple[float, str]]()
    for feature, members in sorted(having.items()):
        inside, outside = values[members], np.delete(values, members)
        if min(len(inside), len(outside)) < COUNT_MIN:
            continue
        gap = float(inside.mean() - outside.mean())
        error = math.sqrt(inside.var(ddof=1) / len(inside) + outside.var(ddof=1) / len(outside))
        text = f"{feature}: {gap:+.2f} bps over n={len(inside)} (standard error {error:.2f})"
        found.append((abs(gap) / error if error else 0.0, text))
    return [text for _, text in sorted(found, key=lambda item: (-item[0], item[1]))[:count]]


def written_notes(database: Database, before: int, count: int) -> list[str]:
    """The last notes that models wrote before an iteration, oldest first."""
    rows = database.rows("SELECT text FROM notes WHERE iteration < ? ORDER BY id DESC LIMIT ?", before, count)
    return [row["text"] for row in rows][::-1]


def write_note(past: PastResults, kinds: Sequence[Kind], author: Author, seed: int) -> tuple[tuple[Note, ...], Verdict]:
    """Let a model say what the iteration `past.before - 1` teaches."""
    known = written_notes(past.database, past.before, SHOWN)
    text, verdict = author.generate_sentence("note", None, _request(past, kinds, known), seed, set(known))
    return ((Note(author.name, text),) if text else ()), verdict


def _request(past: PastResults, kinds: Sequence[Kind], known: Sequence[str]) -> tuple[Message, ...]:
    latest = [one for one in past.scored if one.iteration == past.before - 1]
    shown = latest[:SHOWN] + latest[SHOWN:][-1:]
    lines = [
        f"- {'; '.join(sorted(features(one.candidate, kinds)))[:600]} -> {past.difference(one)} to the incumbent"
        for one in shown
    ]
    lines += [f"- {text}" for text in measured_notes(past, kinds, SHOWN)]
    before = "".join(f"\n- {text}" for text in known)
    return (
        {"role": "system", "content": "You keep the notebook of a search for algorithms that execute large orders. Scores are price advantages in bps."},
        {
            "role": "user",
            "content": f"The last results:\n{chr(10).join(lines)}\nNotes so far:{before or ' none'}\n"
            "Write one new note that helps to design the next candidates, in at most 40 words. Answer with the note alone.",
        },
    )  # fmt: skip
