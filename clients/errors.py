"""Errors of clients."""

import re

from serl.exchange.errors import ExchangeUnreachable as ExchangeUnreachable
from serl.exchange.errors import Rejected as Rejected
from serl.exchange.errors import RequestRejected as RequestRejected
from serl.exchange.errors import SerlError

_NAMED = re.compile(r"command (\d+) ")


def refused_command(error: RequestRejected) -> int:
    """The id of the command that the exchange did not accept; 0 if the refusal names none."""
    named = _NAMED.match(str(error).removeprefix(f"{error.code}: "))
    return int(named[1]) if named else 0


def unreachable_advice(with_keys: bool) -> str:
    """Advice for a user whose exchange does not answer."""
    keys = (
        "check the keys: the exchange logs those that it refuses"
        if with_keys
        else "give the keys if it has some (--curve)"
    )
    return f"start an exchange with `serl exchange start`, check the address, or {keys}"


def no_reply(endpoint: str, seconds: float, *, with_keys: bool) -> ExchangeUnreachable:
    """The error about an exchange that has not answered for `seconds`. with_keys: the client has CURVE keys."""
    return ExchangeUnreachable(f"no reply from {endpoint} for {seconds:g} s; {unreachable_advice(with_keys)}")


def silent(endpoint: str, seconds: float) -> ExchangeUnreachable:
    """The error about an exchange that has sent nothing for `seconds`."""
    return ExchangeUnreachable(
        f"expected a heartbeat from {endpoint}, got nothing for {seconds:g} s; check that the exchange is running"
    )


class LoginRefused(SerlError, PermissionError):
    """The exchange refused the login; `code` is an error code of docs/protocol.md."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"login refused ({code}): {text}")
        self.code = code


class SessionEnded(SerlError, ConnectionError):
    """The exchange ended the session; `code` says why: shutdown, slow_consumer, silence, replaced or bye; in a turn also restarted."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"the exchange ended the session ({code}): {text}")
        self.code = code


def not_kept() -> SessionEnded:
    """The error about rows that would be lost: there is no session to send them in, and none keeps them for later."""
    return SessionEnded(
        "not_logged_in",
        "expected a session that takes rows, got one that logs in again; send them after that",
    )


class ForkedClient(SerlError, RuntimeError):
    """A fork of a process uses a client of that process."""


class ConcurrentCall(SerlError, RuntimeError):
    """A thread uses a client that is in a call of another thread."""


class PriceOffTick(SerlError, ValueError):
    """A price that is not a multiple of the tick size."""


class UnknownSymbol(SerlError, KeyError):
    """The exchange does not list the symbol."""

    def __str__(self) -> str:
        return str(self.args[0])


class UnknownChannel(SerlError, ValueError):
    """The feed has no such channel."""


class ReportGap(SerlError, RuntimeError):
    """Reports are missing and the exchange no longer stores them: positions and open orders may be incomplete."""


class FeedGap(SerlError, RuntimeError):
    """Feed messages are missing: a recording beyond the gap would show a market that never existed."""


class NotAnEventFile(SerlError, ValueError):
    """The file to append to does not end with an event."""
