"""What can be wrong with the days that are compared."""

from serl.exchange.errors import SerlError


class RealismError(SerlError, ValueError):
    """Days or settings of which no report can be made; the text says why and what to do."""


class NoSuchSymbol(RealismError):
    """The day does not have the symbol."""


class EmptyWindow(RealismError):
    """The window holds no visible message."""


class NoTrades(RealismError):
    """The window holds no trade."""


class NoTwoSidedBook(RealismError):
    """The window never shows a bid and an ask together."""
