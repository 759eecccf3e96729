"""Which CURVE keys may connect: the ZAP handler (rfc.zeromq.org/spec/27) of an exchange, answered by its loop."""

import zmq
from zmq.utils import z85

from serl.exchange.peer import Refusals

ENDPOINT = "inproc://zeromq.zap.01"
REQUESTS_MAX = 64
"""Requests answered before the loop goes on."""


class Zap:
    """Admits connections by their public key, which becomes their User-Id. libzmq lets nobody in before the answer."""

    def __init__(self, context: "zmq.Context[zmq.Socket[bytes]]", keys: set[str], refusals: Refusals) -> None:
        self._keys, self._refusals = keys, refusals
        self.socket = context.socket(zmq.REP)
        self.socket.bind(ENDPOINT)

    def answer(self) -> None:
        """Answers requests that wait."""
        for _ in range(REQUESTS_MAX):
            try:
                version, request, _domain, address, _id, mechanism, *credentials = self.socket.recv_multipart(
                    zmq.NOBLOCK
                )
            except zmq.Again:
                return
            key = z85.encode(credentials[0]).decode() if mechanism == b"CURVE" else ""
            if key in self._keys:
                status, text = b"200", b"OK"
            else:
                status, text = b"400", b"unknown key"
                self._refusals.log(address.decode(errors="replace"), f"CURVE key {key}")
            self.socket.send_multipart([version, request, status, text, key.encode(), b""])
