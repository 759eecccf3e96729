"""The result of a sandboxed job."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Outcome(StrEnum):
    """How a job ended; all but OK are failures of the job."""

    OK = "ok"
    CRASHED = "crashed"
    """It raised an exception, or ended without an answer."""
    TIMEOUT = "timeout"
    CPU = "cpu"
    MEMORY = "memory"
    THREADS = "threads"
    OUTPUT = "output"
    """It printed too much."""
    FOLDER = "folder"
    """It wrote too much, or something that cannot be inspected."""
    SIGNALLED = "signalled"
    """A signal that we did not send killed it."""
    RETURNED = "returned"
    """It ended normally, but the files it left are not a valid answer."""
    REFUSED = "refused"
    """bubblewrap could not set up the sandbox; nothing ran."""


@dataclass(frozen=True)
class JobResult:
    """How a job ended, and its answer. `value` is a claim of untrusted code and proves nothing."""

    outcome: Outcome
    text: str
    """What went wrong, for people and language models; empty if OK."""
    value: Any = None
    """The job's answer as plain JSON; None unless OK."""
    output: str = ""
    """What the job printed, truncated at the limit."""
    wall_s: float = 0.0
    start_ms: float = 0.0
    """Time from the call to the first line of Python in the sandbox."""

    @property
    def ok(self) -> bool:
        """Whether the job ended with an answer."""
        return self.outcome is Outcome.OK
