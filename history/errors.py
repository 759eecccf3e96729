"""What can be wrong with a day file or with the source of one."""

from serl.exchange.errors import SerlError


class DayError(SerlError, ValueError):
    """A file that cannot be used as a day file; the text says why and what to do."""


class NotADayFile(DayError):
    """The file is something else."""


class DayVersionError(DayError):
    """The file is a day file of another format version."""


class DayTruncated(DayError):
    """The file ends too early, or holds fewer rows than it says."""


class DayOfAccounts(DayError):
    """The file holds the commands of many participants, where those of one are due."""


class SourceError(SerlError, ValueError):
    """A source of history that cannot be read: not found, not recognised, or incomplete."""


class LobsterError(SourceError):
    """A LOBSTER file with a row that cannot be: names the file, the row (from 1), what was due and what came."""


class ItchError(SourceError):
    """An ITCH file with a message that cannot be: names the file, the byte at which the message begins, what was due."""


class ExportError(SerlError, ValueError):
    """A day that a format cannot hold: says what does not go in."""


class L3CsvError(SourceError):
    """An event CSV with a row that cannot be: names the row (from 1, behind the header), what was due and what came."""


class DepthError(SourceError):
    """A recording of depth diffs with a line that cannot be: names the line (from 1), what was due and what came."""


class DbnError(SourceError):
    """A Databento file that is not market-by-order, or has a record that cannot be: names the record (from 1)."""


class BarsError(SourceError):
    """A table of bars that cannot be read: names the row (from 1) or column, what was due and what came."""
