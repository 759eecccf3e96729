"""Who sent a message, as libzmq knows it, and the log of those that were refused."""

import sys
import time
from typing import NamedTuple

import zmq

from serl.exchange.libzmq import message_property

LINES_MAX = 10
"""Refusals logged per PERIOD_S; the next line says how many were left out."""
PERIOD_S = 10.0


class Peer(NamedTuple):
    """The other end of a connection: its CURVE key in Z85, "" without CURVE, and its IP address."""

    key: str
    address: str


def peer_of(frame: zmq.Frame) -> Peer:
    """The sender of a frame; empty if the connection is gone."""
    return Peer(_frame_property(frame, "User-Id"), _frame_property(frame, "Peer-Address"))


def peer_of_message(address: int) -> Peer:
    """The sender of the zmq_msg_t at an address."""
    return Peer(message_property(address, "User-Id"), message_property(address, "Peer-Address"))


def _frame_property(frame: zmq.Frame, name: str) -> str:
    try:
        return str(frame.get(name))
    except zmq.ZMQError:
        return ""


class Refusals:
    """Logs refused credentials with their source on stderr, a few per period however many there are."""

    def __init__(self) -> None:
        self._period = 0.0
        self._lines = self._omitted = 0

    def log(self, address: str, what: str) -> None:
        """Logs one refusal. what: e.g. `HELLO of 'alice'`."""
        now_s = time.monotonic()
        if now_s - self._period >= PERIOD_S:
            self._period, self._lines = now_s, 0
        if self._lines == LINES_MAX:
            self._omitted += 1
            return
        self._lines += 1
        omitted = f" ({self._omitted} more were not logged)" if self._omitted else ""
        self._omitted = 0
        print(f"refused from {address or 'unknown'}: {what}{omitted}", file=sys.stderr, flush=True)
