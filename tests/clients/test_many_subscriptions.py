"""More subscriptions at once than libzmq queues by default."""

import time
from collections.abc import Callable
from typing import Any

import pytest
import zmq

from serl.clients.connection import Connection
from serl.clients.sockets import Sockets
from serl.exchange.config import socket_endpoints
from tests.server_fixture import WAIT_MS, free_endpoint

TOPICS = 3000


@pytest.mark.parametrize("opens", [lambda endpoint: Connection(endpoint, None), Sockets], ids=["client", "dashboard"])
def test_an_exchange_that_starts_later_gets_all_subscriptions(opens: Callable[[str], Any]) -> None:
    """It got the first 1,000; the others were lost without a word."""
    endpoint = free_endpoint()
    client = opens(endpoint)
    for number in range(TOPICS):
        client.feed.subscribe(b"l1/%d/" % number)
    with zmq.Context() as context, context.socket(zmq.XPUB) as feed:
        feed.linger = 0
        feed.bind(socket_endpoints(endpoint)["feed"])
        found = set()
        end_s = time.monotonic() + WAIT_MS / 1000
        while len(found) < TOPICS and time.monotonic() < end_s and (not found or feed.poll(1000)):
            client.feed.poll(0)  # libzmq connects a dashboard's socket within its owner's calls
            if feed.poll(10):
                found.add(feed.recv())
    client.context.destroy(0) if isinstance(client, Connection) else client.close()
    assert len(found) == TOPICS
