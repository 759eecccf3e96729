"""Topics without messages are repeated, so that a subscriber that missed the last one notices it."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgpack
import pytest
import yaml
import zmq

from serl.clients.blocking import Exchange, connect
from serl.clients.book import L2Book
from serl.clients.values import FeedMessage
from serl.exchange.config import socket_endpoints
from serl.exchange.wire import FeedKind, Kind
from tests.server_fixture import Served, launch

TIME_S = 0.02
NO_REPEATS = "from serl.exchange.feed import Feed; Feed.repeat_quiet = lambda self, state: None"
LONGEST = 16
SOONER = f"from serl.exchange import feed; feed.QUIET_INTERVALS_MAX = {LONGEST}"
ONE_BY_ONE = "from serl.exchange import feed; feed.REPEATS_MAX = 1"
CHANNELS = ("l1", "l2", "l3", "trade", "status", "rows", "auction")
Message = list[Any]


@contextmanager
def exchange(folder: Path, prelude: str = "") -> Iterator[Served]:
    """An exchange with three symbols that sends its time every TIME_S."""
    path = folder / "exchange.yaml"
    symbols = [{"name": name} for name in ("AMZN", "GOOG", "INTC")]
    path.write_text(yaml.safe_dump({"symbols": symbols, "intervals": {"time_s": TIME_S}}))
    served = launch("--config", str(path), prelude=prelude)
    try:
        yield served
    finally:
        served.stop()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with exchange(tmp_path_factory.mktemp("quiet"), SOONER) as served:
        yield served


@contextmanager
def subscribed(served: Served, *topics: str) -> Iterator[Callable[[], tuple[str, Message]]]:
    """A function that returns the next message of the feed, with its topic."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    feed = context.socket(zmq.SUB)
    feed.connect(socket_endpoints(served.endpoint)["feed"])
    for topic in topics:
        feed.subscribe(topic)

    def receive() -> tuple[str, Message]:
        assert feed.poll(20_000), "the feed is silent"
        topic, body = feed.recv_multipart()
        return topic.decode(), msgpack.unpackb(body)

    try:
        yield receive
    finally:
        context.destroy(0)


def until(what: Callable[[], bool], client: Exchange) -> None:
    deadline = time.monotonic() + 60
    while not what():
        assert time.monotonic() < deadline, "the condition did not become true"
        client.core.feed.poll(10)
        client.core.receive()  # which leaves the inbox as it is


def wait_for_intervals(client: Exchange, count: int) -> None:
    """Returns when `count` more messages of `time/` have arrived."""
    seen = [0]
    receive = client.core._receive_feed

    def counting(topic: str, message: Message) -> None:
        seen[0] += message[0] == FeedKind.TIME
        receive(topic, message)

    client.core._receive_feed = counting  # pyrefly: ignore[method-assign]
    until(lambda: seen[0] >= count, client)
    client.core._receive_feed = receive  # pyrefly: ignore[method-assign]


def lose_the_last(served: Served, symbol: str, then: Callable[[Exchange, Any], None]) -> None:
    """Calls `then` with a client that has lost the last L2 message of a burst, and the book that it follows."""
    with connect(served.endpoint, "follower") as follower, connect(served.endpoint, "trader") as trader:
        book = follower.follow(symbol, "l2")
        until(lambda: bool(trader.buy(symbol, 1, 100)) and len(book.levels(0)) > 0, follower)
        trader.buy(symbol, 1, 101)
        until(lambda: book.bid_ticks == 101, follower)
        receive, lost = follower.core._receive_feed, list[Message]()

        def lossy(topic: str, message: Message) -> None:
            if message[0] == FeedKind.L2 and message[2] < message[3]:
                lost.append(message)
            else:
                receive(topic, message)

        follower.core._receive_feed = lossy  # pyrefly: ignore[method-assign]
        trader.buy(symbol, 1, 102)
        until(lambda: bool(lost), follower)
        follower.core._receive_feed = receive  # pyrefly: ignore[method-assign]
        assert book.bid_ticks == 101
        then(follower, book)
        trader.mass_cancel()


def test_a_subscriber_that_lost_the_last_message_catches_up(served: Served) -> None:
    def then(follower: Exchange, book: Any) -> None:
        until(lambda: follower.book("AMZN", 1)[0][0].price_ticks == 102, follower)
        assert book.gaps == 1

    lose_the_last(served, "AMZN", then)


@pytest.mark.long
def test_without_repeats_it_does_not(tmp_path: Path) -> None:
    def then(follower: Exchange, book: Any) -> None:
        wait_for_intervals(follower, 20)
        assert follower.book("AMZN", 1)[0][0].price_ticks == 101
        assert book.gaps == 0

    with exchange(tmp_path, NO_REPEATS) as silent:
        lose_the_last(silent, "AMZN", then)


def test_a_snapshot_before_the_subscription_is_noticed(served: Served) -> None:
    with connect(served.endpoint, "trader") as trader:
        book = L2Book()
        book.apply_snapshot(trader.ask(Kind.L2, 1, 0))
        trader.buy("GOOG", 1, 100)
        for first in (True, False):  # also where another one is subscribed already, for long
            with subscribed(served, "l2/GOOG/") as receive:
                _, message = receive()
                assert message[2] == message[3] and message[5] == []
                book.apply(message)
                assert (book.needs_snapshot, book.gaps) == (first, 1)
                book.apply_snapshot(trader.ask(Kind.L2, 1, 0))
                assert book.bid_ticks == 100
        trader.mass_cancel()


def test_repeats_become_rare_until_somebody_subscribes(served: Served) -> None:
    with subscribed(served, "l3/INTC/", "time/") as receive:

        def next_repeat() -> int:
            """The number of intervals until the next repeat."""
            intervals = 0
            while (received := receive())[0] == "time/":
                intervals += 1
            assert received[1][2] == received[1][3]
            return intervals

        next_repeat()
        assert [next_repeat() for _ in range(6)] == [1, 2, 4, 8, LONGEST, LONGEST]

        def until_repeated_for_another() -> int:
            with subscribed(served, "l3/INTC/") as other:
                other()
                return next_repeat()

        assert any(until_repeated_for_another() < LONGEST for _ in range(5))


def test_repeats_of_a_state_give_it_and_others_are_empty(served: Served) -> None:
    with connect(served.endpoint, "trader") as trader, subscribed(served, "") as receive:
        trader.buy("AMZN", 3, 100)
        quotes = [100, 3, 0, 0]
        found: dict[str, Any] = {}
        while len(found) < len(CHANNELS) or found["l1"] != quotes:
            topic, message = receive()
            channel, _, symbol = topic.partition("/")
            if symbol == "AMZN/" and message[2] == message[3]:
                found[channel] = message[5]
        status = trader.ask(Kind.STATUS, 0)[5]
        assert found == {
            "l1": quotes, "l2": [], "l3": [], "trade": [], "status": status, "rows": b"", "auction": []
        }  # fmt: skip
        trader.mass_cancel()


@pytest.mark.long
def test_each_topic_gets_its_turn(tmp_path: Path) -> None:
    with exchange(tmp_path, ONE_BY_ONE) as served, subscribed(served, "l2/", "time/") as receive:
        found: dict[str, int] = defaultdict(int)
        run, longest = 0, 0
        while len(found) < 3:
            topic, _ = receive()
            run = 0 if topic == "time/" else run + 1
            longest = max(longest, run)
            found[topic] += topic != "time/"
            found.pop("time/", None)
        assert longest == 1


@pytest.mark.long
def test_a_client_returns_a_repeat_only_where_it_missed_messages(served: Served) -> None:
    with connect(served.endpoint, "reader") as reader, connect(served.endpoint, "trader") as trader:
        for channel in ("trade", "l1"):
            reader.subscribe(channel, "GOOG")
        wait_for_intervals(reader, 5)
        assert not reader.core.inbox, "it was told nothing that a repeat could correct"
        trader.sell("GOOG", 2, 100)
        items = list[Any]()
        until(lambda: next_items(reader, items) and items[-1].topic == "l1/GOOG/", reader)
        wait_for_intervals(reader, 5)
        assert not reader.core.inbox
        reader.core._heard._last["l1/GOOG/"] = (1, 0)  # as if it had missed it
        until(lambda: bool(reader.core.inbox), reader)
        (item,) = reader.core.inbox
        assert isinstance(item, FeedMessage)
        assert item.topic == "l1/GOOG/" and item.message[5] == [0, 0, 100, 2]
        trader.mass_cancel()


def next_items(client: Exchange, items: list[Any]) -> bool:
    """Moves the inbox to `items`; whether there is any item."""
    client.core.receive()
    while client.core.inbox:
        items.append(client.core.inbox.popleft())
    return bool(items)
