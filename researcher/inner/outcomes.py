"""What the outcome of a job says about its candidate."""

from serl.researcher.inner.errors import SignalledError, UnusableError
from serl.researcher.sandbox.errors import SandboxUnavailableError
from serl.researcher.sandbox.job_result import JobResult, Outcome


def is_own(result: JobResult | None) -> bool:
    """Whether the candidate itself surely caused a failure. A signal may also come from outside, for example if the machine lacks memory.
    SandboxUnavailableError if nothing of the job ran."""
    if result is not None and result.outcome is Outcome.REFUSED:
        raise SandboxUnavailableError(f"expected a job in the sandbox, got none: {result.text}; continue with --resume")
    return result is None or result.outcome is not Outcome.SIGNALLED


def require_ok(result: JobResult, what: str) -> None:
    """UnusableError if a job failed, SignalledError if the cause may be outside the job, SandboxUnavailableError if nothing of it ran."""
    if not result.ok:
        raise (UnusableError if is_own(result) else SignalledError)(f"{what} {result.outcome.value}: {result.text}")
