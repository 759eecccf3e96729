"""A question to a running exchange on its queries or its admin socket, and the answer (docs/protocol.md)."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import zmq

from serl.exchange.config import socket_endpoints
from serl.exchange.errors import ExchangeAway, Refused
from serl.exchange.keys import read_keys
from serl.exchange.wire import Kind, pack, unpack

REACH_MS = 2000
"""After which nobody is there."""
ANSWER_S = 60.0
"""Of an exchange that is there: a first kill or purge waits for the full rule book to load."""

Request = Callable[..., list[Any]]
"""`ask(kind, *arguments)`: the whole reply. ExchangeAway if nobody answers, Refused if the exchange does not do it."""


@contextmanager
def request_socket(endpoint: str, socket: str, curve: Path | None = None) -> Iterator[Request]:
    """Gives an `Request` on the socket "queries" or "admin" of an exchange; `curve` is a key folder of `serl keys new`."""
    requests = count(1)
    away = ExchangeAway(
        f"no exchange answers at {endpoint}; start one with `serl exchange start`"
        f"{'' if curve else '; one with keys is reached with --curve'}"
    )

    def ask(kind: Kind, *arguments: Any) -> list[Any]:
        request, deadline = next(requests), time.monotonic() + ANSWER_S
        try:
            dealer.send(pack(kind, request, *arguments))
        except zmq.Again:
            raise away from None
        while time.monotonic() < deadline:
            if not dealer.poll(REACH_MS):
                if not dealer.poll(0, zmq.POLLOUT):  # it has gone meanwhile
                    raise away
                continue
            reply: list[Any] = unpack(dealer.recv())
            if reply[0] == Kind.ERROR:
                raise Refused(reply[1], reply[2])
            if reply[1] == request:
                return reply
        raise ExchangeAway(
            f"the exchange at {endpoint} has been asked and has said nothing for {ANSWER_S:g} s: it may be compiling its full rule "
            "book, and answers behind that; ask it with `serl exchange status`"
        )

    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    try:
        dealer = context.socket(zmq.DEALER)
        dealer.linger, dealer.immediate, dealer.sndtimeo = 0, True, REACH_MS
        if curve is not None:
            read_keys(curve).open(dealer)
        dealer.connect(socket_endpoints(endpoint)[socket])
        yield ask
    finally:
        context.destroy(0)
