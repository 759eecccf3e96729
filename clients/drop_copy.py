"""A copy of the events of a participant, or of everybody, as an operator gets it: asked for piece by piece, so that whoever
is slow or was away misses nothing."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import zmq

from serl.clients.errors import ExchangeAway, Refused
from serl.exchange.config import socket_endpoints
from serl.exchange.keys import read_keys
from serl.exchange.records import EVENT, Rows
from serl.exchange.wire import Kind

ANSWER_MS = 5000


class DropCopy:
    """Follows the journal of one exchange. `sequence` is the last event looked at: kept, it is where another one goes on."""

    def __init__(
        self, endpoint: str, *, token: str = "", participant: str = "", after: int = 0, curve: Path | None = None
    ) -> None:
        self.endpoint, self.sequence = endpoint, after
        self._token, self._participant = token, participant
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.linger = 0
        if curve is not None:
            read_keys(curve).open(self._socket)
        self._socket.connect(socket_endpoints(endpoint)["admin"])
        self._request = 0

    def next(self) -> Rows:
        """The EVENT rows of the next piece of the journal, shape (n,); n = 0 does not mean that there are no more (see `pieces`).

        ExchangeAway if nobody answers, Refused without an operator's token or where the journal does not have them.
        """
        self.sequence, data = self._ask()[5]
        return np.frombuffer(data, EVENT)

    def pieces(self) -> Iterator[Rows]:
        """Pieces with at least one row, up to the last event of now; called again it goes on from there."""
        while True:
            before = self.sequence
            rows = self.next()
            if self.sequence == before:
                return
            if len(rows):
                yield rows

    def _ask(self) -> list[Any]:
        self._request += 1
        self._socket.send(
            msgpack.packb([int(Kind.DROP_COPY), self._request, self._token, self._participant, self.sequence])
        )
        while self._socket.poll(ANSWER_MS):
            reply: list[Any] = msgpack.unpackb(self._socket.recv())
            if reply[0] == Kind.ERROR:
                raise Refused(reply[1], reply[2])
            if reply[1] == self._request:
                return reply
        raise ExchangeAway(f"no answer from {self.endpoint}; start an exchange with `serl exchange start`")

    def close(self) -> None:
        """Lets the socket go."""
        self._context.destroy(0)


@contextmanager
def drop_copy(endpoint: str, **options: Any) -> Iterator[DropCopy]:
    """A `DropCopy` for the time of a `with`; options are its."""
    copy = DropCopy(endpoint, **options)
    try:
        yield copy
    finally:
        copy.close()
