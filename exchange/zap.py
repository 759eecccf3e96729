"""Decides which CURVE keys may connect and numbers the connections: the ZAP handler (rfc.zeromq.org/spec/27) of an exchange, run by its loop."""

import time
from itertools import count

import zmq
from zmq.utils import z85

from serl.exchange.budget import Budget, processor_time_s
from serl.exchange.peer import Refusals, user_id

ENDPOINT = "inproc://zeromq.zap.01"
DOMAIN = b"serl"
"""With a domain, libzmq also asks about connections without CURVE."""
TURN_REQUESTS_MAX = 16
"""Maximum number of connections admitted in one turn of the loop."""


class Zap:
    """Admits connections by their public key, or all if `keys` is None. The key and a unique number become the connection's User-Id. libzmq admits
    no connection before the answer: while the budget has no time, the connection waits in its handshake, and its sender's data waits in TCP."""

    def __init__(
        self, context: "zmq.Context[zmq.Socket[bytes]]", keys: set[str] | None, refusals: Refusals, budget: Budget
    ) -> None:
        self._budget = budget
        self._keys, self._refusals, self._numbers = keys, refusals, count(1)
        self.socket = context.socket(zmq.REP)
        self.socket.bind(ENDPOINT)

    def answer(self, turn_s: float) -> None:
        """Answers waiting requests; begins none after `turn_s`."""
        began = time.monotonic()
        for _ in range(TURN_REQUESTS_MAX):
            if time.monotonic() - began > turn_s:
                return
            start = processor_time_s()
            try:
                version, request, _domain, address, _id, mechanism, *credentials = self.socket.recv_multipart(
                    zmq.NOBLOCK
                )
            except zmq.Again:
                return
            key = z85.encode(credentials[0]).decode() if mechanism == b"CURVE" else ""
            if self._keys is None or key in self._keys:
                status, text = b"200", b"OK"
            else:
                status, text = b"400", b"unknown key"
                self._refusals.log(address.decode(errors="replace"), f"CURVE key {key}")
            self.socket.send_multipart([version, request, status, text, user_id(key, next(self._numbers)), b""])
            self._budget.spend(processor_time_s() - start)
