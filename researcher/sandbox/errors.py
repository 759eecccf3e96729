"""Errors of the sandbox."""

from serl.exchange.errors import SerlError
from serl.researcher.errors import ResearcherError


class SandboxUnavailableError(SerlError, RuntimeError):
    """The sandbox does not work on this machine, so untrusted code does not run at all."""


class ReturnedError(SerlError, ValueError):
    """A file that a job left in its folder is not as expected; nothing in it is used."""


class AbandonedError(ResearcherError):
    """The job was abandoned before it ended, so it has no result."""
