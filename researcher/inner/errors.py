"""Errors of the inner loop."""

from serl.researcher.errors import ResearcherError


class ScoreError(ResearcherError):
    """The score could not be measured. This says nothing about the candidate."""


class SealedError(ResearcherError):
    """Something asked for a score on test days before the end of a run."""


class IncumbentError(ResearcherError):
    """The incumbent cannot be trained or scored, so there is nothing to compare with."""


class UnusableError(ResearcherError):
    """A job's output is not a valid policy."""


class SignalledError(UnusableError):
    """A signal ended the job, perhaps from outside, so another try may succeed."""
