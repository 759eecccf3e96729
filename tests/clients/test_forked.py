"""A client in a fork of the process that connected it."""

import multiprocessing
import os
from typing import Any

import pytest

from serl.clients.blocking import Exchange, connect
from serl.clients.errors import ForkedClient
from tests.server_fixture import start_exchange

FORK = multiprocessing.get_context("fork")


def use(client: Exchange, found: Any) -> None:
    with client:
        for call in (
            lambda: client.buy("DEMO", 1, 100),
            lambda: client.wait(0.1),
            lambda: client.subscribe("l1", "DEMO"),
        ):
            with pytest.raises(ForkedClient) as raised:
                call()
            found.put(str(raised.value))
    found.put("closed")


def test_a_fork_cannot_use_the_client() -> None:
    """libzmq's calls did not return in it: it used a processor without end."""
    with start_exchange(symbols="DEMO") as served, connect(served.endpoint, "forked") as client:
        found = FORK.Queue()
        process = FORK.Process(target=use, args=(client, found))
        process.start()
        try:
            *texts, last = [found.get(timeout=10) for _ in range(4)]
        finally:
            process.kill()
            process.join()
        assert all(f"got one of process {os.getpid()}, of which this is a fork" in text for text in texts)
        assert last == "closed"
        assert client.buy("DEMO", 1, 100).state == "open", "the fork has not logged out"
