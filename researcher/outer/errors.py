"""Errors of a run of the researcher."""

from serl.researcher.errors import ResearcherError


class RunError(ResearcherError):
    """A run is missing, exists already, has other settings or data, or is at work elsewhere."""
