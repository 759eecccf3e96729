"""Errors of LLM traders."""

from serl.exchange.errors import ConfigError, SerlError


class MindsConfigError(ConfigError):
    """Raised for invalid settings of LLM traders, or a file of events that cannot be read."""


class MindsError(SerlError, RuntimeError):
    """Raised when LLM traders cannot start or did not finish."""


class DecisionRefused(Exception):
    """A decision that is not carried out. `reason` is the name under which statistics count it; the text is told to the mind.

    Nothing that users see: it never leaves the run.
    """

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason
