"""Errors of a run of the researcher."""

from serl.researcher.errors import ResearcherError


class RunError(ResearcherError):
    """A run is missing, exists already, or has other settings."""
