"""Errors of the sandbox."""

from serl.exchange.errors import SerlError


class SandboxUnavailableError(SerlError, RuntimeError):
    """The sandbox does not work on this machine, so untrusted code does not run at all."""


class ReturnedError(SerlError, ValueError):
    """A file that a job left in its folder is not what was expected; nothing of it is used."""
