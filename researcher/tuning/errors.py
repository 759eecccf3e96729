"""Errors of tuning."""

from serl.researcher.errors import ResearcherError


class TuningError(ResearcherError):
    """A model cannot be tuned, or a saved state does not fit."""


class StoppedError(TuningError):
    """A stopping rule ended tuning: the KL divergence from the base is too large, or the entropy too small."""
