"""What the outer loop keeps: instructions, drafts of modules, verdicts, trials."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from serl.researcher.candidates import Candidate, Result
from serl.researcher.llm.requests import Message
from serl.researcher.modules.contracts import Form, Kind

Evaluator = Callable[[Sequence[Candidate], Path], list[Result]]
"""What candidates are worth, in their order; a folder for files. What was finished in the folder is not done again."""


@dataclass(frozen=True)
class Verdict:
    """What became of one answer."""

    kind: Kind | None
    model: str
    attempt: int
    stage: str
    """`endpoint`, `answer`, `read`, `trial`, `instruction`, or a stage of the evaluation."""
    reason: str
    """`ok`, or why not, in a word or two."""
    text: str = ""


@dataclass(frozen=True)
class Instruction:
    """How a module of a kind should be written: the part of a prompt that evolves."""

    kind: Kind
    text: str
    origin: str
    """`initial`, `refined`, `mutated` or `crossed`."""
    parents: tuple[int, ...] = ()
    id: int = 0
    """In the database."""
    score_bps: float | None = None
    """Mean performance of the modules that were written under it; None if there are none yet."""
    uses: int = 0


@dataclass(frozen=True)
class Prompt:
    """A conversation as it was sent."""

    kind: Kind
    messages: tuple[Message, ...]
    instruction: int | None = None
    """Id."""
    replay_of: int | None = None
    """Id of the prompt that this one repeats."""


@dataclass(frozen=True)
class Draft:
    """A module as it was proposed, valid or not."""

    kind: Kind
    form: Form
    origin: str
    """`model` or `uniform`."""
    model: str
    prompt: Prompt | None
    text: str | None
    """None if no answer held a module that keeps its contract."""
    verdicts: tuple[Verdict, ...]
    conversation: tuple[Message, ...] = ()
    """What the last answer answered: the prompt, and after repairs the errors too."""
    answer: dict[str, Any] | None = None
    """The last answer, with its tokens."""


@dataclass(frozen=True)
class Proposal:
    """A candidate and how it came about."""

    candidate: Candidate | None
    """None if nothing valid came."""
    drafts: tuple[Draft, ...] = ()
    parents: tuple[tuple[int, int], ...] = ()
    """(iteration, slot) of the candidates that it descends from."""


@dataclass(frozen=True)
class Trial:
    """A candidate that was evaluated."""

    iteration: int
    slot: int
    candidate: Candidate
    result: Result
    performance_bps: float
    """PA, or for what failed the worst PA less a penalty."""


@dataclass(frozen=True)
class Lessons:
    """What an iteration has taught."""

    instructions: tuple[Instruction, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)
    """Of tuning."""
