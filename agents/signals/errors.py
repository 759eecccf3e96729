"""Errors of forecasts."""

from serl.exchange.errors import SerlError


class SignalError(SerlError, ValueError):
    """Raised when forecasts cannot be trained, tested, read or published as requested; the message says why and what to do."""
