"""A connection that floods the feed's socket, or sends it what is no subscription, takes nothing from other subscribers."""

import time
from pathlib import Path

import pytest

from tests.exchange.test_hostile import closed_within, subscriber, wait_for_feed
from tests.exchange.test_limits import limited
from tests.raw_zmtp import frame, raw_connection
from tests.server_fixture import RawClient


@pytest.mark.parametrize("repeated", [b"\x01l1/", b"\x00l1/GOOG/", b"\x05l1/"])
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


@pytest.mark.parametrize("token", [b"", b"\0secret\0"])
def test_what_is_no_subscription_ends_nobodys(tmp_path: Path, token: bytes) -> None:
    """libzmq passes such a message on and keeps the subscription of its sender, so at the end of the connection the topic was counted down twice."""
    login = {"participants": {"eve": {"token": "secret"}}} if token else {}
    with limited(tmp_path, login=login) as served, subscriber(served, token + b"time/") as victim:
        victim.subscribe(b"time/")
        assert victim.poll(5000)
        with raw_connection(served.endpoint) as attacker:
            for first_byte in (b"\x01", b"\x05"):
                attacker.sendall(frame(first_byte + token + b"time/"))
                time.sleep(0.4)
        time.sleep(0.4)
        while victim.poll(0):
            victim.recv_multipart()
        assert victim.poll(4000), "the victim gets nothing any more"
