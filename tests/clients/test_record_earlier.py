"""Recording an exchange of an earlier version, which does not know news: a stand-in that answers like it."""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgpack
import pytest
import zmq

from serl.clients.news_sender import NewsSender
from serl.exchange.config import socket_endpoints
from serl.exchange.errors import ConfigError
from serl.history.day import read_day
from tests.server_fixture import free_endpoint

SYMBOLS = [[0, "DEMO", "0.01", "1"]]
RESULTS: dict[int, Any] = {
    128: [1, SYMBOLS, ["live", 1.0, 5_000, 0], {"heartbeat_s": 1.0, "silence_s": 30.0}],
    130: [[1, 0, 9_999, 5], [2, 1, 10_001, 5]],
    134: [0, 0, 0],
}
"""INFO, L3 and STATUS, by the kind of the query."""
REFUSED = "expected a query (128 to 137), got kind {}"


def answer(query: list[Any]) -> bytes:
    """The reply to a query; to an unknown one ERROR."""
    kind, request = query[:2]
    if kind not in RESULTS:
        return msgpack.packb([97, "malformed", REFUSED.format(kind), request])
    return msgpack.packb([kind + 16, request, 1, 7, 5_000, RESULTS[kind]])


@contextmanager
def earlier_exchange() -> Iterator[str]:
    """Answers queries and publishes the time until the end."""
    endpoint, stopped = free_endpoint(), threading.Event()
    with zmq.Context() as context, context.socket(zmq.ROUTER) as queries, context.socket(zmq.PUB) as feed:
        queries.linger = feed.linger = 0
        queries.bind(socket_endpoints(endpoint)["queries"])
        feed.bind(socket_endpoints(endpoint)["feed"])

        def serve() -> None:
            while not stopped.is_set():
                feed.send_multipart([b"time/", msgpack.packb([117, 1, 7, 7, int(time.time() * 1e9), []])])
                while queries.poll(50):
                    *route, query = queries.recv_multipart()
                    queries.send_multipart([*route, answer(msgpack.unpackb(query))])

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield endpoint
        finally:
            stopped.set()
            thread.join()


@pytest.mark.long
def test_an_exchange_without_news_is_recorded_without_them(tmp_path: Path) -> None:
    path = tmp_path / "day.parquet"
    with earlier_exchange() as endpoint:
        words = ["record", "--connect", endpoint, "-o", str(path), "--seconds", "0.5"]
        done = subprocess.run([sys.executable, "-m", "serl", *words], capture_output=True, text=True, timeout=60)
        with pytest.raises(ConfigError, match="expected an exchange with news, got one of an earlier version"):
            NewsSender(endpoint, (), "news", "", None)
    assert done.returncode == 0, done.stderr
    assert "note: this exchange is of an earlier version without news; the file will have none\n" in done.stdout
    day = read_day(path)
    assert day.news == () and day.commands["price_ticks"].tolist() == [9_999, 10_001]
