"""Errors of comparisons of days."""

from serl.exchange.errors import SerlError


class RealismError(SerlError, ValueError):
    """Raised for days or settings that cannot be compared; the message says why and what to do."""


class NoSuchSymbol(RealismError):
    """Raised when the day does not have the symbol."""


class EmptyWindow(RealismError):
    """Raised when the window has no visible message."""


class NoTrades(RealismError):
    """Raised when the window has no trade."""


class NoTwoSidedBook(RealismError):
    """Raised when the book never has a bid and an ask at the same time in the window."""
