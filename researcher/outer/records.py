"""Records of the outer loop: instructions, prompts, drafts, verdicts, proposals, evaluated candidates."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from serl.researcher.candidates import Candidate, Result
from serl.researcher.llm.requests import Message
from serl.researcher.modules.contracts import Form, Kind

Evaluator = Callable[[Sequence[Candidate], Path], list[Result]]
"""Evaluates candidates in the folder of the run's candidates and returns the results in their order. Finished work in the folder is not repeated.
Candidates that raced before are passed again, and may train further."""


@dataclass(frozen=True)
class Verdict:
    """The verdict on one answer or one evaluation."""

    kind: Kind | None
    model: str
    attempt: int
    stage: str
    """`endpoint`, `answer`, `static check`, `dry run`, `instruction`, or a stage of the evaluation."""
    reason: str
    """`ok`, or the reason of the failure in a word or two."""
    text: str = ""


@dataclass(frozen=True)
class Instruction:
    """An instruction for writing a kind of module: the part of a prompt that evolves."""

    kind: Kind
    text: str
    origin: str
    """`initial`, `refined`, `mutated` or `crossed`."""
    parents: tuple[int, ...] = ()
    id: int = 0
    """Row id in the database."""
    score_bps: float | None = None
    """Mean performance of the modules written under this instruction; None without modules."""
    uses: int = 0


@dataclass(frozen=True)
class Prompt:
    """A prompt as sent to the model."""

    kind: Kind
    messages: tuple[Message, ...]
    instruction: int | None = None
    """Row id of the instruction in the prompt."""
    replay_of: int | None = None
    """Row id of the past prompt that this one repeats."""


@dataclass(frozen=True)
class Draft:
    """A proposed module, valid or not."""

    kind: Kind
    form: Form
    origin: str
    """`model`, or the operator that needs none: `uniform`, `mutate` or `cross`."""
    model: str
    prompt: Prompt | None
    text: str | None
    """None if no answer contained a valid module."""
    verdicts: tuple[Verdict, ...]
    conversation: tuple[Message, ...] = ()
    """Messages before the last answer: the prompt and, after repairs, earlier answers and errors."""
    answer: dict[str, Any] | None = None
    """The last answer, with its tokens."""


@dataclass(frozen=True)
class Attempt:
    """An attempt of an operator to make the candidate of a slot."""

    operator: str
    model: str
    """Empty for operators without a model."""
    used: bool
    """Whether the attempt made the candidate; if not, the next attempt follows."""


@dataclass(frozen=True)
class Note:
    """What a model learnt from an iteration, in a sentence."""

    model: str
    text: str


@dataclass(frozen=True)
class Proposal:
    """A candidate with its drafts and parents."""

    candidate: Candidate | None
    """None if no draft is valid."""
    drafts: tuple[Draft, ...] = ()
    parents: tuple[tuple[int, int], ...] = ()
    """(iteration, slot) of the parents."""
    attempts: tuple[Attempt, ...] = ()


@dataclass(frozen=True)
class EvaluatedCandidate:
    """A candidate with its result."""

    iteration: int
    slot: int
    candidate: Candidate
    result: Result
    performance_bps: float
    """The paired difference to the incumbent (PA in runs of earlier versions), or for a failed candidate the worst minus a penalty."""


@dataclass(frozen=True)
class Lessons:
    """What a proposer learned from an iteration."""

    instructions: tuple[Instruction, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)
    """Figures of the weight update."""
    notes: tuple[Note, ...] = ()
