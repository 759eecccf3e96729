"""What can be wrong with an execution; each text says what was expected, what came and what to do."""

from serl.exchange.errors import SerlError


class DataError(SerlError, ValueError):
    """A file of which no data set can be made; the text says why and what to do."""


class LayoutMismatchError(SerlError, ValueError):
    """A policy was made for other observations or actions than the environment has; the text says both."""


class ProgressError(SerlError, OSError):
    """A progress file that cannot be written."""
