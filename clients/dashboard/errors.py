"""Errors of the dashboard."""

from serl.exchange.errors import SerlError


class AddressInUse(SerlError, RuntimeError):
    """Another process listens at the address of the page."""


class NotALocalHost(SerlError, ValueError):
    """The host to serve the page at is not an address of this machine."""


class ActionFailed(SerlError, RuntimeError):
    """An operator's action that the exchange did not carry out."""
