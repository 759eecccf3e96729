"""Errors of the inner loop."""

from serl.researcher.errors import ResearcherError


class ScoreError(ResearcherError):
    """The score could not be measured. This says nothing about the candidate."""
