"""What can go wrong between a client and an exchange."""

from serl.exchange.errors import ExchangeAway as ExchangeAway
from serl.exchange.errors import Refused as Refused
from serl.exchange.errors import Rejected as Rejected
from serl.exchange.errors import SerlError


class LoginRefused(SerlError, PermissionError):
    """The exchange did not take the HELLO; `code` is the protocol's."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"login refused ({code}): {text}")
        self.code = code


class SessionEnded(SerlError, ConnectionError):
    """The exchange said GOODBYE; `code` says why."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"the exchange ended the session ({code}): {text}")
        self.code = code


class PriceOffTick(SerlError, ValueError):
    """A price that is no multiple of the tick size."""


class UnknownSymbol(SerlError, KeyError):
    """A symbol that the exchange does not list."""

    def __str__(self) -> str:
        return str(self.args[0])


class ReportGap(SerlError, RuntimeError):
    """Reports are missing that the exchange no longer keeps: positions and open orders may be incomplete."""


class FeedGap(SerlError, RuntimeError):
    """Messages of the feed are missing: what came after them would be a market that never was."""


class NotEvents(SerlError, ValueError):
    """A file that is to be gone on with holds something else."""
