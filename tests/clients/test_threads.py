"""A blocking client in several threads."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from serl.clients.blocking import connect
from serl.clients.errors import ConcurrentCall
from tests.server_fixture import WAIT_MS, start_exchange


def test_a_call_during_a_call_of_another_thread_is_refused() -> None:
    """Reports were lost, and calls did not return."""
    is_begun, may_end = Event(), Event()

    def steps() -> Iterator[float]:
        is_begun.set()
        may_end.wait(WAIT_MS / 1000)
        yield 0.0

    with (
        start_exchange(symbols="DEMO") as served,
        connect(served.endpoint, "ann") as ann,
        ThreadPoolExecutor(1) as other,
    ):
        call = other.submit(ann._run, steps())  # pyrefly: ignore[bad-argument-type]
        try:
            assert is_begun.wait(WAIT_MS / 1000)
            with pytest.raises(ConcurrentCall, match="connect in each thread"):
                ann.buy("DEMO", 1, 100)
        finally:
            may_end.set()
        call.result()
        assert ann.buy("DEMO", 1, 100).state == "open"
        other.submit(ann.mass_cancel).result()
        assert not ann.open_orders(), "threads may take turns"
