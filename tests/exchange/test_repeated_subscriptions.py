"""A connection that floods the feed's socket with subscriptions that it has already holds up no other subscriber."""

from pathlib import Path

import pytest

from tests.exchange.test_hostile import closed_within, subscriber, wait_for_feed
from tests.exchange.test_limits import limited
from tests.raw_zmtp import frame, raw_connection
from tests.server_fixture import RawClient


@pytest.mark.parametrize("repeated", [b"\x01l1/", b"\x00l1/GOOG/"])
def test_a_connection_that_repeats_its_subscriptions_is_closed(tmp_path: Path, repeated: bytes) -> None:
    """libzmq stores them without end, and new subscribers waited behind them for minutes."""
    with limited(tmp_path) as served, RawClient(served.endpoint) as raw, subscriber(served, b"l2/AMZN/") as feed:
        raw.login("honest")
        ids = iter(range(1, 10_000))
        wait_for_feed(feed, raw, ids)
        with raw_connection(served.endpoint) as attacker:
            assert closed_within(attacker, frame(repeated) * 100 + frame(b"\x01l2/AMZN/") * 100)
        with subscriber(served, b"l1/") as late:
            wait_for_feed(late, raw, ids)
        feed.poll(100)
        while feed.poll(0):
            feed.recv_multipart()
        wait_for_feed(feed, raw, ids)
