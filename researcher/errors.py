"""What can be wrong in the researcher; each text says what was expected, what came and what to do."""

from serl.exchange.errors import SerlError


class ResearcherError(SerlError, RuntimeError):
    """Research that cannot go on."""
