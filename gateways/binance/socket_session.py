"""The state of a WebSocket API connection: the API key that it is logged on with, and its user data streams."""

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from serl.gateways.binance.account import Account
from serl.gateways.binance.api import Endpoint, Gateway, Security, names
from serl.gateways.binance.errors import BinanceError
from serl.gateways.binance.hub import encode
from serl.gateways.binance.outbox import Outbox
from serl.gateways.binance.parameters import Parameters
from serl.gateways.binance.signing import socket_payload

LOGON_KIND = "ED25519"
"""Binance lets only keys of this type log on."""


SUBSCRIPTIONS_MAX = 65_535
"""Maximum number of subscriptions of a connection over its lifetime, as at Binance; an account has at most one at a time."""


class Logon(NamedTuple):
    """The API key of a connection, and the time of its logon."""

    key: str
    since_ms: int


class SocketSession:
    """One connection.

    Attributes:
        logon: set from session.logon to session.logout.
        methods: functions that answer the methods about the connection itself, from their parameters.
    """

    def __init__(self, gateway: Gateway, outbox: Outbox) -> None:
        self.logon: Logon | None = None
        self._gateway, self._outbox = gateway, outbox
        self._connected_ms = _now_ms()
        self._subscriptions: dict[int, Account] = {}
        self._of_logon: set[int] = set()
        self._next_subscription = 0
        self.methods: Mapping[str, Callable[[dict[str, str]], Any]] = {
            "session.logon": self._log_on,
            "session.logout": self._log_out,
            "session.status": self._status,
            "session.subscriptions": self._list,
            "userDataStream.subscribe": self._subscribe,
            "userDataStream.subscribe.signature": self._subscribe_signed,
            "userDataStream.unsubscribe": self._unsubscribe,
        }

    def close(self) -> None:
        """Ends the streams."""
        for number in list(self._subscriptions):
            self._leave(number)

    def _log_on(self, values: dict[str, str]) -> Any:
        account = self._signed(values)
        if account.api_key.kind != LOGON_KIND:
            raise BinanceError(-4056, f"{account.api_key.kind} API key is not supported.")
        self.logon = Logon(account.login, _now_ms())
        return self._status(values)

    def _signed(self, values: dict[str, str]) -> Account:
        """The account of a request with a key and a signature of its own. Raises BinanceError."""
        key = values.get("apiKey")
        _SIGNED.check(self._gateway, Parameters(values), key, lambda: socket_payload(values))
        return self._gateway.find_account(key)

    def _log_out(self, values: dict[str, str]) -> Any:
        """Ends the streams of userDataStream.subscribe; those that were subscribed with a signature stay."""
        self.logon = None
        for number in list(self._of_logon):
            self._terminate(number)
        return self._status(values)

    def _status(self, values: dict[str, str]) -> Any:
        key, since_ms = self.logon or (None, None)
        return {
            "apiKey": key, "authorizedSince": since_ms, "connectedSince": self._connected_ms, "returnRateLimits": True,
            "serverTime": _now_ms(), "userDataStream": bool(self._subscriptions),
        }  # fmt: skip

    def _list(self, values: dict[str, str]) -> Any:
        return [{"subscriptionId": number} for number in self._subscriptions]

    def _subscribe(self, values: dict[str, str]) -> Any:
        if self.logon is None:
            raise BinanceError(-1002, "You are not authorized to execute this request: session.logon is missing.", 401)
        number = self._listen(self._gateway.accounts[self.logon.key])
        self._of_logon.add(number)
        return {"subscriptionId": number}

    def _subscribe_signed(self, values: dict[str, str]) -> Any:
        return {"subscriptionId": self._listen(self._signed(values))}

    def _listen(self, account: Account) -> int:
        if account in self._subscriptions.values():
            raise BinanceError(-2035, "User Data Stream subscription already active.")
        if self._next_subscription == SUBSCRIPTIONS_MAX:
            raise BinanceError(
                -1034, f"Too many subscriptions; a connection may have {SUBSCRIPTIONS_MAX} over its life.", 429
            )
        number, self._next_subscription = self._next_subscription, self._next_subscription + 1
        self._subscriptions[number] = account
        account.listen((self, number), lambda text: self._outbox.put(f'{{"subscriptionId":{number},"event":{text}}}'))
        return number

    def _unsubscribe(self, values: dict[str, str]) -> Any:
        number = Parameters(values).integer("subscriptionId")
        for each in list(self._subscriptions) if number is None else [number]:
            if each not in self._subscriptions:
                raise BinanceError(-1182, "Subscription ID is not active.")
            self._terminate(each)
        return {}

    def _terminate(self, number: int) -> None:
        """Ends a stream and notifies the client."""
        self._leave(number)
        event = {"e": "eventStreamTerminated", "E": _now_ms()}
        self._outbox.put(encode({"subscriptionId": number, "event": event}))

    def _leave(self, number: int) -> None:
        self._of_logon.discard(number)
        self._subscriptions.pop(number).leave((self, number))


async def _unused() -> None:
    """Never called: the session itself answers."""


_SIGNED = Endpoint(lambda call: _unused(), 2, Security.SIGNED, names("returnRateLimits", signed=True))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
