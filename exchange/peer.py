"""The sender of a message, as libzmq knows it, and the log of refused messages."""

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import zmq

from serl.exchange.libzmq import message_property
from serl.exchange.log import LineLimit, log, with_omitted


class Peer(NamedTuple):
    """The other end of a connection: its CURVE key in Z85, "" without CURVE; its IP address; the unique number of the connection; its
    descriptor, -1 if unknown. All are empty if the connection is gone."""

    key: str
    address: str
    number: str
    descriptor: int


def peer_of(frame: zmq.Frame) -> Peer:
    """The sender of a frame; empty if the connection is gone."""
    return _peer(lambda name: _frame_property(frame, name))


def number_of(frame: zmq.Frame) -> str:
    """The number of the connection that a frame came from, in a third of the time of `peer_of`."""
    return _frame_property(frame, "User-Id").partition(" ")[2]


def peer_of_message(address: int) -> Peer:
    """The sender of the zmq_msg_t at an address."""
    return _peer(lambda name: message_property(address, name))


def user_id(key: str, number: int) -> bytes:
    """The User-Id that the ZAP handler assigns to a connection and that `peer_of` reads."""
    return f"{key} {number}".encode()


def _peer(read: Callable[[str], str]) -> Peer:
    key, _, number = read("User-Id").partition(" ")
    return Peer(key, read("Peer-Address"), number, int(read("__fd") or -1))


def _frame_property(frame: zmq.Frame, name: str) -> str:
    try:
        return str(frame.get(name))
    except zmq.ZMQError:
        return ""


class Refusals:
    """Counts what the exchange has refused since its start, and logs refused credentials with their source on stderr, only a few per period
    however many there are."""

    def __init__(self) -> None:
        self.errors: Counter[str] = Counter()
        self.sessions_ended: Counter[str] = Counter()
        """Number of ended sessions by code (docs/protocol.md), like `errors`."""
        self.credentials = self.connections_closed = 0
        self.heard: set[int] = set()
        """Descriptors of connections without a session from which a message was read; connections.py clears it."""
        self._lines = LineLimit()

    def log(self, address: str, what: str) -> None:
        """Logs one refusal. what: e.g. `HELLO of 'alice'`."""
        self.credentials += 1
        omitted = self._lines.admit()
        if omitted < 0:
            return
        text = with_omitted(f"refused from {address or 'unknown'}: {what}", omitted)
        log("credentials_refused", text, address=address, request=what, not_logged=omitted)
