"""What can be wrong with a run of the researcher."""

from serl.researcher.errors import ResearcherError


class RunError(ResearcherError):
    """A run that is not there, is there already, or is of other settings."""
