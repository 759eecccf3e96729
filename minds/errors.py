"""Errors of LLM traders."""

from serl.exchange.errors import ConfigError, SerlError

FAILED = "error: "
"""How the text begins that says why a mind stopped, if an error stopped it. Names of minds have no colon."""


class MindsConfigError(ConfigError):
    """Raised for invalid settings of LLM traders, or for a file of events that cannot be read."""


class MindsError(SerlError, RuntimeError):
    """Raised when LLM traders cannot start or did not finish."""


class DecisionRefused(Exception):
    """A decision is not carried out. `reason` is the name under which statistics count it; the text is shown to the mind.

    Users do not see this error: it never leaves the run.
    """

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason
