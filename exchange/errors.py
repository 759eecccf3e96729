"""The errors of serl: what was expected, what came, what to do."""


class SerlError(Exception):
    """Base of every error that serl raises on purpose; its text is meant for people."""


class ConfigError(SerlError, ValueError):
    """A setting that cannot be: names the setting, its range and what was given."""


class UnwritableFileError(SerlError, OSError):
    """A file that cannot be written."""


class JournalError(SerlError, RuntimeError):
    """A journal that cannot be used as it is."""


class ExchangeAway(SerlError, ConnectionError):
    """Nobody answers at the endpoint."""


class Refused(SerlError, RuntimeError):
    """A message that the exchange could not take; it changed nothing. `code` is the protocol's."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code


class Rejected(SerlError, ValueError):
    """A command that the market did not take; `reason` is the name of a Reason."""

    def __init__(self, reason: str, sent: str) -> None:
        super().__init__(f"rejected with {reason}: {sent}")
        self.reason = reason
