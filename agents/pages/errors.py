"""What can be wrong with a report's file."""

from serl.exchange.errors import SerlError


class ReportFileError(SerlError, ValueError):
    """A file that a report cannot be written to."""
