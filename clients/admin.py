"""What operators ask of an exchange, over its admin socket: a question, an answer."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgpack
import zmq

from serl.clients.errors import ExchangeAway, Refused
from serl.exchange.config import socket_endpoints
from serl.exchange.keys import read_keys
from serl.exchange.wire import Kind

ANSWER_MS = 5000


class Admin:
    """Asks with an operator's token ("" on an exchange without tokens); `curve` is a key folder of `serl keys new`."""

    def __init__(self, endpoint: str, token: str = "", curve: Path | None = None) -> None:
        self.endpoint, self._token = endpoint, token
        self._request = 0
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.linger = 0
        if curve is not None:
            read_keys(curve).open(self._socket)
        self._socket.connect(socket_endpoints(endpoint)["admin"])

    def ask(self, kind: Kind, *arguments: Any) -> Any:
        """The result (docs/protocol.md). ExchangeAway if nobody answers, Refused if the exchange does not do it."""
        self._request += 1
        self._socket.send(msgpack.packb([int(kind), self._request, self._token, *arguments]))
        while self._socket.poll(ANSWER_MS):
            reply: list[Any] = msgpack.unpackb(self._socket.recv())
            if reply[0] == Kind.ERROR:
                raise Refused(reply[1], reply[2])
            if reply[1] == self._request:
                return reply[5]
        raise ExchangeAway(
            f"no answer from the admin socket of {self.endpoint}; start an exchange with `serl exchange start`"
        )

    def close(self) -> None:
        """Lets the socket go."""
        self._context.destroy(0)


@contextmanager
def admin(endpoint: str, token: str = "", curve: Path | None = None) -> Iterator[Admin]:
    """An `Admin` for the time of a `with`."""
    asker = Admin(endpoint, token, curve)
    try:
        yield asker
    finally:
        asker.close()
