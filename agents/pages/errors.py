"""Errors of report files."""

from serl.exchange.errors import SerlError


class ReportFileError(SerlError, ValueError):
    """Raised when a report cannot be written."""
