"""Errors of the researcher."""

from serl.exchange.errors import SerlError


class ResearcherError(SerlError, RuntimeError):
    """Base class: the researcher cannot continue."""
