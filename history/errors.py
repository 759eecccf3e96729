"""Errors of day files, of their sources and of exports."""

from serl.exchange.errors import SerlError


class DayError(SerlError, ValueError):
    """The file cannot be used as a day file."""


class NotADayFile(DayError):
    """The file is not a day file."""


class DayVersionError(DayError):
    """The day file has a format version that this serl cannot read."""


class DayTruncated(DayError):
    """The file ends too early or has fewer rows than its metadata says."""


class DayOfAccounts(DayError):
    """Expected the commands of one participant, got a day with those of several."""


class SourceError(SerlError, ValueError):
    """The source cannot be read: it is not found, in an unknown format, or incomplete."""


class LobsterError(SourceError):
    """An invalid row in a LOBSTER file; names the file and the row (from 1)."""


class ItchError(SourceError):
    """An invalid message in an ITCH file; names the file and the byte offset of the message."""


class SourceRejected(SourceError):
    """A market rejects too many of the commands that were made from a source."""


class ExportError(SerlError, ValueError):
    """The export format cannot represent the day."""


class L3CsvError(SourceError):
    """An invalid row in an event CSV; names the row (from 1, after the header)."""


class TardisError(SourceError):
    """An invalid row in a CSV file of Tardis; names the row (from 1, after the header)."""


class IexError(SourceError):
    """Captured packets without DEEP messages, or with an invalid one; names the byte or the time of the message."""


class PitchError(SourceError):
    """An invalid message of Cboe PITCH; names the byte offset of the message, or its line (from 1)."""


class CoinApiError(SourceError):
    """An invalid row in a limit book file of CoinAPI; names the row (from 1, after the header)."""


class DepthError(SourceError):
    """An invalid line in a recording of depth diffs; names the line (from 1)."""


class DbnError(SourceError):
    """A Databento file without market-by-order data or with an invalid record; names the record (from 1)."""


class BarsError(SourceError):
    """An invalid table of bars; names the row (from 1) or the column."""
