"""What can go wrong with a dashboard."""

from serl.exchange.errors import SerlError


class PageAddressTaken(SerlError, RuntimeError):
    """The address that the page should be served at is not free."""


class NoSuchHost(SerlError, ValueError):
    """The host that the page should be served at is none of this machine."""


class NotSent(SerlError, RuntimeError):
    """An action of a page that did not reach the exchange."""
