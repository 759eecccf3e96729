"""Events become feed messages in compiled code, and the loop publishes them without Python."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgpack
import numpy as np
import pytest
import yaml
import zmq

from serl.clients.blocking import connect
from serl.clients.session import Report
from serl.exchange.config import socket_endpoints
from serl.exchange.errors import Rejected
from serl.exchange.feed import BATCH_EVENTS, Feed
from serl.exchange.gateway.feed_state import CHANNELS, LOOP, NOBODY, PUBLISHED, PYTHON
from serl.exchange.gateway.publish import publish_unpublished
from serl.exchange.latency import Constant, Delays
from serl.exchange.market import Market
from serl.exchange.records import COMMAND, EVENT, CommandKind, EventKind, Phase, Rows, TimeInForce, command
from serl.exchange.terms import Terms
from serl.exchange.wire import Kind
from tests.exchange.test_public_feed import sockets
from tests.server_fixture import WAIT_MS, RawClient, Served, launch

SYMBOLS = ["A", "B", "C"]
PYTHON_PUBLISHES_NOTHING = "from serl.exchange.feed import Feed; Feed.publish = lambda *arguments: None"


class Followed:
    """A market of three symbols and its feed, all of which is received."""

    def __init__(self, prefixes: tuple[bytes, ...] = (b"",), delays: Any = lambda participant: None) -> None:
        self.market = Market(SYMBOLS)
        self.market.grant_operator(0)
        self._sender, self._receiver = sockets()
        subscriptions: Any = SimpleNamespace(
            prefixes=dict.fromkeys(prefixes, 1), new=[], read=lambda turn_s: True, owed_by_unauthenticated_s=float
        )
        self.feed = Feed(self._sender, SYMBOLS, 1, 0, delays, subscriptions)
        self.feed.read_subscriptions(0, 0, 1.0)

    def received(self) -> dict[bytes, list[Any]]:
        """The new messages by topic."""
        found: dict[bytes, list[Any]] = {}
        while self._receiver.poll(0):
            topic, body = self._receiver.recv_multipart()
            found.setdefault(topic, []).append(msgpack.unpackb(body))
        return found

    def publish(self, rows: Rows) -> Rows:
        """Executes commands and publishes what happened; returns the events."""
        events = self.market.submit(rows)
        self.feed.publish(self.market.state, events, 0, len(events))
        return events

    def close(self) -> None:
        self._sender.close()
        self._receiver.close()


@pytest.fixture
def followed() -> Iterator[Followed]:
    one = Followed()
    yield one
    one.close()


def resting(count: int) -> Rows:
    """Buy orders of all symbols, and of one that does not exist."""
    random, rows = np.random.default_rng(1), np.zeros(count, COMMAND)
    rows["kind"], rows["participant"], rows["command_id"] = CommandKind.NEW, 1, np.arange(1, count + 1)
    rows["symbol"], rows["qty_lots"] = random.integers(0, 4, count), 1
    rows["price_ticks"], rows["time_ns"] = random.integers(90, 110, count), np.arange(count)
    return rows


@pytest.mark.parametrize("count", [1, 64, 65, BATCH_EVENTS, 5000])
def test_a_batch_is_published_by_symbol_and_in_order(followed: Followed, count: int) -> None:
    events, messages = followed.publish(resting(count)), followed.received()
    for number, name in enumerate(SYMBOLS):
        own = events[events["symbol"] == number]
        bodies = [message[5] for message in messages.get(f"rows/{name}/".encode(), [])]
        rows = np.frombuffer(b"".join(bodies), EVENT)
        assert rows["sequence"].tolist() == own["sequence"].tolist()
        assert rows["price_ticks"].tolist() == own["price_ticks"].tolist()
        orders = [item for message in messages.get(f"l3/{name}/".encode(), []) for item in message[5]]
        assert [order[1] for order in orders] == own["order_number"].tolist()
        levels = {item[1]: item[2] for message in messages.get(f"l2/{name}/".encode(), []) for item in message[5]}
        prices, lots = np.unique(own["price_ticks"], return_counts=True)
        assert levels == dict(zip(prices.tolist(), lots.tolist(), strict=True))


def test_the_loop_leaves_to_python_what_only_python_can_do(followed: Followed) -> None:
    feed, state = followed.feed, followed.market.state

    def publishes(events: Rows) -> bool:
        feed.counter[PUBLISHED] = 0
        return bool(publish_unpublished(feed.state, state, events, len(events)))

    rows = resting(BATCH_EVENTS + 101)
    few, many = followed.market.submit(rows[:100]), followed.market.submit(rows[100:])
    assert not publishes(many) and not followed.received(), "no room"
    assert not publishes(few), "nothing was published of the auctions"
    feed.publish(state, few, 0, 0)
    assert followed.received().keys() >= {f"auction/{name}/".encode() for name in SYMBOLS}
    assert publishes(few), "no symbol collects orders"
    collects = command(CommandKind.PHASE, participant=0, command_id=1, symbol=1, flags=Phase.INTRADAY)
    assert not publishes(followed.market.submit(collects)), "one does"


@pytest.mark.parametrize(
    "prefixes", [(), (b"",), (b"l",), (b"l1/A",), (b"l1/A/", b"rows/C/"), (b"l1/", b"l1/B/"), (b"trade/Z/",), (b"A",), (b"l1/A/x",)]
)  # fmt: skip
def test_prefixes_select_topics(prefixes: tuple[bytes, ...]) -> None:
    one = Followed(prefixes)
    expected = [
        [f"{channel}/{name}/".encode().startswith(prefixes) if prefixes else False for name in SYMBOLS]
        for channel in CHANNELS
    ]
    assert one.feed.state.subscribed.tolist() == expected
    one.close()


def test_who_publishes() -> None:
    def delays(participant: int) -> Delays | None:
        return Delays(Constant(kind="constant", delay_us=1.0), 1, "feed", "slow") if participant == 7 else None

    for prefixes, publisher in (((), NOBODY), ((b"l1/",), LOOP), ((b"7/l1/",), PYTHON), ((b"7/l1/", b"l1/"), PYTHON)):
        one = Followed(prefixes, delays)
        assert one.feed.publisher == publisher, prefixes
        one.close()


def follow(endpoint: str, topic: str) -> "zmq.Socket[bytes]":
    """A subscriber that is heard."""
    feed: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.SUB)
    feed.linger = feed.rcvhwm = 0
    feed.connect(socket_endpoints(endpoint)["feed"])
    feed.subscribe("time/")
    feed.subscribe(topic)
    assert feed.poll(WAIT_MS), "the feed is silent"
    feed.unsubscribe("time/")
    return feed


@contextmanager
def served(folder: Path, prelude: str = "", **journal: object) -> Iterator[Served]:
    """An exchange with these symbols."""
    path = folder / "exchange.yaml"
    settings = {"symbols": [{"name": name} for name in SYMBOLS], "journal": journal, "intervals": {"time_s": 0.05}}
    path.write_text(yaml.safe_dump(settings))
    exchange = launch("--config", str(path), prelude=prelude)
    try:
        yield exchange
    finally:
        exchange.stop()


def test_the_loop_publishes_without_python(tmp_path: Path) -> None:
    with served(tmp_path, PYTHON_PUBLISHES_NOTHING) as exchange:
        feed = follow(exchange.endpoint, "l1/A/")
        with RawClient(exchange.endpoint) as client:
            client.login("ann")
            client.send(1, 1, 0, 0, 5, 100, 0, 0, 0)
            assert client.receive(Kind.REPORTS)
            deadline_s = time.monotonic() + WAIT_MS / 1000
            while (message := msgpack.unpackb(feed.recv_multipart()[1]))[0] != 112 or message[2] == message[3]:
                assert feed.poll(WAIT_MS) and time.monotonic() < deadline_s, "only repeats"
            assert message[5] == [100, 5, 0, 0]
        feed.close()


@pytest.mark.parametrize("is_followed", [False, True])
def test_orders_expire_in_time(tmp_path: Path, is_followed: bool) -> None:
    """Though the loop has no other reason to come back, for up to a tenth of a second."""
    late_ms = list[float]()
    with served(tmp_path) as exchange:
        feed = follow(exchange.endpoint, "l1/A/")
        if not is_followed:
            feed.close()
        with connect(exchange.endpoint, "ann") as client:
            for number in range(16):
                time.sleep(0.02)  # the exchange has nothing to do meanwhile
                expire_ns = time.time_ns() + (50_000_000 if number else 10**10)
                try:
                    client.buy("A", 1, 100, time_in_force=TimeInForce.GTT, terms=Terms(expire_ns=expire_ns))
                except Rejected:
                    assert time.time_ns() > expire_ns, "only if the machine was away until the time had passed"
                    continue
                if not number:
                    continue  # for this one the exchange loads its rule book
                while not isinstance(report := client.wait(5.0), Report) or report.kind != EventKind.CANCELLED:
                    assert report is not None
                late_ms.append((time.time_ns() - expire_ns) / 1e6)
        assert len(late_ms) >= 5 and np.median(late_ms) < 25, late_ms
        feed.close()


def test_topics_chain_over_new_event_files(tmp_path: Path) -> None:
    count = 30_000
    with served(tmp_path, segment_rows=8192) as exchange:
        feed, found, last = follow(exchange.endpoint, "rows/B/"), list[int](), -1
        rows = resting(count)
        rows["symbol"] = 1
        with RawClient(exchange.endpoint) as client:
            client.login("ann")
            for first in range(0, count, 1000):
                client.send(32, rows[first : first + 1000].tobytes())
                client.receive(Kind.REPORTS)
            while len(found) < count:
                assert feed.poll(WAIT_MS), f"{len(found)} events"
                topic, body = feed.recv_multipart()
                if topic == b"rows/B/":
                    _, _, previous, sequence, _, items = msgpack.unpackb(body)
                    assert last in (-1, previous), "a gap"
                    last = sequence
                    found += np.frombuffer(items, EVENT)["sequence"].tolist()
        assert found == list(range(found[0], found[0] + count))
        feed.close()
