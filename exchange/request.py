"""Requests to a running exchange on its queries or admin socket (docs/protocol.md)."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import zmq

from serl.exchange.config import local_operator_token, socket_endpoints
from serl.exchange.errors import ConfigError, ExchangeUnreachable, RequestRejected
from serl.exchange.keys import read_keys
from serl.exchange.wire import Kind, pack, unpack, with_token

CONNECT_TIMEOUT_MS = 2000
REPLY_TIMEOUT_S = 60.0
"""Reply timeout of a connected exchange: its first kill or purge waits for the full rule book to load."""
LAST_REPLY_MS = 100
"""How long a reply that was sent before the connection closed may take to be read."""

Request = Callable[..., list[Any]]
"""`request(kind, *arguments)` returns the whole reply. Raises ExchangeUnreachable without a reply, RequestRejected if the exchange rejects the request,
ConfigError for arguments that no message can have."""


@contextmanager
def request_socket(endpoint: str, socket: str, curve: Path | None = None, token: str = "") -> Iterator[Request]:
    """Opens the socket "queries" or "admin" of an exchange and yields a `Request`.

    curve: a key folder of `serl keys new`. token: for queries; admin requests pass theirs as the first argument. If a token is empty, the
    operator credential of this user's exchange on this machine is used.
    """
    request_numbers, is_given = count(1), bool(token)
    token = token or local_operator_token(endpoint)

    def unreachable() -> (
        ExchangeUnreachable
    ):  # a new error each time: a stored one would keep alive the frames that it passed through
        keys = (
            ", or check the keys: the exchange logs those that it refuses"
            if curve
            else ", or give --curve if it has keys"
        )
        return ExchangeUnreachable(f"no exchange answers at {endpoint}; start one with `serl exchange start`{keys}")

    def request(kind: Kind, *arguments: Any) -> list[Any]:
        nonlocal token
        try:
            return attempt(kind, *arguments)
        except RequestRejected as error:
            latest = token if is_given else local_operator_token(endpoint)
            if error.code not in ("not_permitted", "login") or latest == token:
                raise
            token = latest  # the exchange was restarted and has another operator credential
            return attempt(kind, *arguments)

    def attempt(kind: Kind, *arguments: Any) -> list[Any]:
        number, deadline = next(request_numbers), time.monotonic() + REPLY_TIMEOUT_S
        if kind >= Kind.ACCOUNT:
            arguments = (arguments[0] or token, *arguments[1:])
        else:
            arguments = tuple(with_token(arguments, token))
        data = _packed(kind, number, *arguments)
        while monitor.poll(0):  # of earlier connections
            monitor.recv_multipart()
        try:
            dealer.send(data)
        except zmq.Again:
            raise unreachable() from None
        while time.monotonic() < deadline:
            zmq.select([dealer, monitor], [], [], CONNECT_TIMEOUT_MS / 1000)
            if not dealer.poll(LAST_REPLY_MS if monitor.poll(0) else 0):
                if monitor.poll(0):
                    raise ExchangeUnreachable(
                        f"the exchange at {endpoint} closed the connection instead of replying to {len(data):,} bytes: it has ended, or they are more "
                        "than its limits request_bytes_max and, for news, news_bytes_max allow; send less, or start it again"
                    )
                if not dealer.poll(0, zmq.POLLOUT):  # it has disconnected
                    raise unreachable()
                continue
            reply: list[Any] = unpack(dealer.recv())
            if reply[0] != Kind.ERROR:
                if reply[1] == number:
                    return reply
            elif reply[3] in (number, 0):  # 0: of a request without a number
                raise RequestRejected(reply[1], reply[2])
        raise ExchangeUnreachable(
            f"the exchange at {endpoint} has not replied for {REPLY_TIMEOUT_S:g} s: it may be compiling its full rule book; "
            "check it later with `serl exchange status`"
        )

    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    try:
        dealer = context.socket(zmq.DEALER)
        monitor = dealer.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        dealer.linger, dealer.immediate, dealer.sndtimeo = 0, True, CONNECT_TIMEOUT_MS
        if curve is not None:
            read_keys(curve).open(dealer)
        dealer.connect(socket_endpoints(endpoint)[socket])
        yield request
    finally:
        context.destroy(0)


def _packed(*message: Any) -> bytes:
    """The bytes of a message. Raises ConfigError for values that no message can have."""
    try:
        return pack(*message)
    except (OverflowError, UnicodeEncodeError) as error:
        raise ConfigError(
            f"expected text in UTF-8 and integers of at most 64 bits, got others ({error}); correct them"
        ) from None
