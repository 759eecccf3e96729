"""Errors of execution; each message says what was expected, what was found, and what to do."""

from serl.exchange.errors import SerlError


class DataError(SerlError, ValueError):
    """A file cannot be used as a data set."""


class LayoutMismatchError(SerlError, ValueError):
    """A policy was trained with observations or actions other than those of the environment."""


class OrderRulesError(SerlError, ValueError):
    """The exchange rejects orders of an execution because their quantity or price does not fit the symbol's rules."""


class ProgressError(SerlError, OSError):
    """A progress file cannot be written."""


class ReportError(SerlError, ValueError):
    """A file is not the report of an execution."""
