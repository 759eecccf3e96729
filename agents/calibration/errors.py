"""Errors of calibrations."""

from serl.exchange.errors import SerlError


class CalibrationError(SerlError, ValueError):
    """Raised when no population can be fitted to the day with these settings; the message says why and what to do."""
