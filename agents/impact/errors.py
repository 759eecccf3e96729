"""Errors of impact measurements."""

from serl.agents.realism.errors import RealismError


class ImpactError(RealismError):
    """Raised when impact cannot be measured with these settings; the message says why and what to do."""
