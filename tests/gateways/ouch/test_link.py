"""The session of a user on the exchange, message by message."""

import time

import msgpack
import numpy as np
import pytest

from serl.exchange.records import EVENT
from serl.exchange.wire import Kind
from serl.gateways.ouch.link import LinkSession
from tests.clients.stand_in import LIMITS, SYMBOLS

SECOND_NS = 10**9


def test_the_time_follows_every_message_that_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rejections of the gateway had times before those of earlier messages, by up to a second."""
    session, local_s = LinkSession("alice", ""), [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: local_s[0])

    def receive(after_s: float, *message: object) -> None:
        local_s[0] += after_s
        session.receive(msgpack.packb(message))

    rows = np.zeros(1, EVENT)
    receive(0, Kind.WELCOME, 1, 1, 3, 1, 0, SYMBOLS, ["live", 1.0, 50 * SECOND_NS, 0], LIMITS, False)
    receive(1, Kind.HEARTBEAT, 51 * SECOND_NS)
    local_s[0] += 2
    assert session.now_ns() == 53 * SECOND_NS
    rows["time_ns"] = 54 * SECOND_NS
    receive(0.5, Kind.REPORT_ROWS, 1, rows.tobytes())
    assert session.now_ns() == 54 * SECOND_NS
    rows["time_ns"] = 54 * SECOND_NS  # it was on its way for a second
    receive(1, Kind.REPORT_ROWS, 2, rows.tobytes())
    assert session.now_ns() == 55 * SECOND_NS
