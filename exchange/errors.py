"""The errors of serl. Their texts say what was expected, what was found, and what to do."""


class SerlError(Exception):
    """Base of every error that serl raises for its users."""


class ConfigError(SerlError, ValueError):
    """An invalid setting; the text names the setting, its range and its value."""


class UnwritableFileError(SerlError, OSError):
    """A file that cannot be written."""

    def __str__(self) -> str:
        return str(self.args[0])  # an OSError with an errno would show that instead


class JournalError(SerlError, RuntimeError):
    """A journal that cannot be read or written."""

    finding = ""
    """What was found in a damaged file."""


class DiskFullError(JournalError):
    """The disk has no room for the journal's next file or rows."""


class ExchangeUnreachable(SerlError, ConnectionError):
    """No exchange answers at the endpoint."""


class RequestRejected(SerlError, RuntimeError):
    """The exchange rejected a message, which changed nothing. `code` is the protocol's error code."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code


class Rejected(SerlError, ValueError):
    """A command that the market rejected; `reason` is the name of a Reason."""

    def __init__(self, reason: str, sent: str) -> None:
        super().__init__(f"rejected with {reason}: {sent}")
        self.reason = reason
