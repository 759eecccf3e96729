"""What can be wrong with the data of an execution."""

from serl.exchange.errors import SerlError


class DataError(SerlError, ValueError):
    """A file of which no data set can be made; the text says why and what to do."""
