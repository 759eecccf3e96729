"""What became of a job."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Outcome(StrEnum):
    """How a job ended; all but OK are failures of the job."""

    OK = "ok"
    CRASHED = "crashed"
    """It raised, or ended without an answer."""
    TIMEOUT = "timeout"
    CPU = "cpu"
    MEMORY = "memory"
    THREADS = "threads"
    OUTPUT = "output"
    """It printed too much."""
    FOLDER = "folder"
    """It wrote too much, or what cannot be looked at."""
    SIGNALLED = "signalled"
    """A signal killed it that was not ours."""
    RETURNED = "returned"
    """It ended well, but what it left is not an answer."""
    REFUSED = "refused"
    """The sandbox could not be set up for it; nothing of it ran."""


@dataclass(frozen=True)
class JobResult:
    """How a job ended, and its claim: `value` comes from untrusted code and proves nothing."""

    outcome: Outcome
    text: str
    """What went wrong, for people and language models; empty if nothing did."""
    value: Any = None
    """The job's answer, plain JSON; None unless it ended well."""
    output: str = ""
    """What it printed, cut off at the limit."""
    wall_s: float = 0.0
    start_ms: float = 0.0
    """From the call to the first line of Python inside."""

    @property
    def ok(self) -> bool:
        """Whether there is an answer."""
        return self.outcome is Outcome.OK
