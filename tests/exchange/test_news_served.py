"""News of a running exchange: published, queried, refused, kept over a kill, and in lockstep neither missed nor seen early."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgpack
import pytest
import zmq

from serl.clients import asynchronous
from serl.clients.blocking import Exchange, connect
from serl.clients.errors import ExchangeUnreachable, RequestRejected
from serl.clients.session import Grant
from serl.exchange.config import socket_endpoints
from serl.exchange.news import REPLY_MESSAGES_MAX, News, NewsKind
from serl.exchange.request import Request, request_socket
from serl.exchange.wire import Kind, subscription
from tests.server_fixture import RawClient, Served, launch, start_exchange

NEWS, VALUE = int(NewsKind.NEWS), int(NewsKind.VALUE)


def publish(ask: Request, text: str, token: str = "", **fields: Any) -> tuple[int, int]:
    """Publishes a message; returns its number and time."""
    values = {"kind": NEWS, "symbol": "", "headline": text, "body": "", "value": None, "source": "wire"} | fields
    sequence, time_ns = ask(Kind.PUBLISH_NEWS, token, *values.values())[5]
    return sequence, time_ns


def follow(client: Exchange) -> None:
    """Subscribes from the last message on. Without `after` the exchange decides when that is: a message sent right behind it may be left out."""
    client.subscribe_news(after=max((each.sequence for each in client.news(1)), default=0))


def received(client: Exchange, count: int) -> list[News]:
    """The next messages; fails unless they come soon."""
    found: list[News] = []
    while len(found) < count:
        item = client.wait(5)
        assert item is not None, f"expected {count} messages, got {found}"
        found += [item] if isinstance(item, News) else []
    return found


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with start_exchange() as exchange:
        yield exchange


@pytest.fixture
def ask(served: Served) -> Iterator[Request]:
    with request_socket(served.endpoint, "admin") as request:
        yield request


def test_a_message_is_published_numbered_and_can_be_queried(served: Served, ask: Request) -> None:
    with connect(served.endpoint, "reader") as reader:
        reader.subscribe_news(after=0)
        first, time_ns = publish(ask, "Strike at the harbour", body="Ships\nwait.", value=0.4)
        publish(ask, "", kind=VALUE, symbol="AMZN", value=22_300)
        *_, story, value = received(reader, first + 1)
        assert story == News(first, time_ns, NEWS, "", "Strike at the harbour", "Ships\nwait.", 0.4, "wire")
        assert value[2:] == (VALUE, "AMZN", "", "", 22_300, "wire") and value.sequence == first + 1
        assert reader.wait(0) is None
        assert reader.news(2) == [story, value] and reader.news(1) == [value] and reader.news(0) == []
        assert reader.ask(Kind.STATISTICS)[5]["news"] == first + 1

    async def later() -> list[Any]:
        client = await asynchronous.connect(served.endpoint, "reader")
        async with client:
            client.subscribe_news(after=first)
            return [await client.wait(5), await client.news(2)]

    assert asyncio.run(later()) == [value, [story, value]]


def test_a_late_client_reads_more_than_a_reply_holds(served: Served, ask: Request) -> None:
    numbers = [publish(ask, f"Story {count}")[0] for count in range(2 * REPLY_MESSAGES_MAX + 3)]
    with connect(served.endpoint, "late") as late:
        assert [each.sequence for each in late.news(len(numbers))] == numbers
        late.subscribe_news(after=numbers[0] - 1)
        assert [each.sequence for each in received(late, len(numbers))] == numbers
        assert len(late.news(10**6)) == numbers[-1]


def test_a_client_that_missed_messages_on_the_feed_gets_them(served: Served, ask: Request) -> None:
    with connect(served.endpoint, "deaf") as deaf:
        follow(deaf)
        first, _ = publish(ask, "Heard")
        assert [each.sequence for each in received(deaf, 1)] == [first]
        deaf.core.feed.disconnect(deaf.core._endpoints["feed"])
        missed = [publish(ask, text)[0] for text in ("Missed", "Missed too")]
        deaf.core.feed.connect(deaf.core._endpoints["feed"])
        assert [each.sequence for each in received(deaf, 2)] == missed, "the last number is repeated each second"
        after, _ = publish(ask, "Heard again")
        assert [each.sequence for each in received(deaf, 1)] == [after]


def test_the_last_number_is_repeated_on_the_feed(served: Served, ask: Request) -> None:
    number, time_ns = publish(ask, "Quiet afterwards")
    with zmq.Context() as context, context.socket(zmq.SUB) as feed:
        feed.connect(socket_endpoints(served.endpoint)["feed"])
        feed.subscribe(b"news/")
        assert feed.poll(10_000)
        topic, body = feed.recv_multipart()
    assert topic == b"news/" and msgpack.unpackb(body) == [120, 1, number, number, time_ns, []]


@pytest.mark.parametrize(
    ("fields", "code", "text"),
    [
        ({"symbol": "IBM"}, "unknown_symbol", "expected a symbol of this exchange, or none, got 'IBM'"),
        ({"body": "ä" * 2048}, "too_large", r"4096 bytes \(news_bytes_max\)"),
        ({"kind": 7}, "malformed", "kind: expected a number from 1 to 5"),
        ({"kind": VALUE, "value": 1}, "malformed", "expected the symbol whose value it is"),
        ({"source": 3}, "malformed", r"expected \[169, request, token"),
        ({"headline": ""}, "malformed", "expected a headline or a value"),
    ],
)  # fmt: skip
def test_refusals_change_nothing(fields: dict[str, Any], code: str, text: str, served: Served, ask: Request) -> None:
    before, _ = publish(ask, "Before")
    with pytest.raises(RequestRejected, match=text) as refused:
        publish(ask, "Refused", **fields)
    assert refused.value.code == code
    assert publish(ask, "After")[0] == before + 1


def test_a_message_that_closes_the_connection_is_an_error_at_once(served: Served) -> None:
    """`serl exchange news --body "$(cat article.txt)"` waited a minute, and then told the user that the exchange may be compiling."""
    started_s = time.monotonic()
    with request_socket(served.endpoint, "admin") as ask:
        before, _ = publish(ask, "Before")
        with pytest.raises(ExchangeUnreachable, match=r"closed the connection .* request_bytes_max"):
            publish(ask, "Long", body="x" * 10_000)
        assert time.monotonic() - started_s < 10
        assert publish(ask, "After")[0] == before + 1, "the next request connects again"


def test_only_operators_publish_and_readers_need_the_permission(tmp_path: Path) -> None:
    participants = {
        "root": {"token": "r", "permissions": ["operate"]},
        "ann": {"token": "a", "permissions": ["trade", "data"]},
        "bob": {"token": "b", "permissions": ["trade"]},
    }
    config: dict[str, Any] = {"login": {"participants": participants}, "limits": {"news_per_s_max": 0.2}}
    with start_exchange(config=config, folder=tmp_path) as exchange, request_socket(exchange.endpoint, "admin") as ask:
        for token in ("a", "b", ""):
            with pytest.raises(RequestRejected, match="permission operate"):
                publish(ask, "Forged", token)
        with connect(exchange.endpoint, "ann", "a") as ann, connect(exchange.endpoint, "bob", "b") as bob:
            follow(ann)
            assert ann.wait(0.2) is None
            assert publish(ask, "Heard by one", "r")[0] == 1
            assert received(ann, 1)[0].headline == "Heard by one"
            bob.subscribe_news()
            with pytest.raises(RequestRejected, match="may read data"):
                bob.wait(5)
            with pytest.raises(RequestRejected, match="may read data"):
                bob.news()
        publish(ask, "Just in time", "r")
        with pytest.raises(RequestRejected, match="news_per_s_max") as refused:
            publish(ask, "Too soon", "r")
        assert refused.value.code == "throttled"
        with zmq.Context() as context, context.socket(zmq.SUB) as feed:
            feed.connect(socket_endpoints(exchange.endpoint)["feed"])
            for topic in (b"news/", subscription(b"news/", "b")):
                feed.subscribe(topic)
            assert not feed.poll(1500), "the feed is not for everybody"
            feed.subscribe(subscription(b"news/", "a"))
            assert feed.poll(10_000)


def test_a_kill_loses_nothing_acknowledged(tmp_path: Path) -> None:
    options = ("--symbols", "AMZN", "--journal", str(tmp_path / "journal"))
    served = launch(*options)
    with ExitStack() as stack:
        client = stack.enter_context(connect(served.endpoint, "reader"))
        follow(client)
        with request_socket(served.endpoint, "admin") as ask:
            times = [publish(ask, f"Before the kill {count}")[1] for count in range(3)]
        before = received(client, 3)
        served.kill()
        assert served.process.stdout is not None
        served.process.stdout.close()
        path = tmp_path / "journal" / "news.jsonl"
        path.write_bytes(path.read_bytes() + b'{"sequence": 4, "head')  # the exchange died while it wrote
        with start_exchange(symbols="AMZN", journal=tmp_path / "journal", endpoint=served.endpoint) as again:
            with request_socket(again.endpoint, "admin") as ask:
                number, time_ns = publish(ask, "After the kill")
            assert number == 4 and time_ns >= times[-1]
            (after,) = received(client, 1)
            assert client.news() == [*before, after] and [each.time_ns for each in before] == times
            assert client.wait(0) is None, "what was published before comes once"


def grants(raw: RawClient, count: int) -> list[int]:
    return [raw.receive(101)[1] for _ in range(count)]


def test_in_lockstep_nobody_misses_a_message_or_sees_one_early() -> None:
    """A message at the time of a turn comes after it and before the next one, for everybody."""
    with (
        start_exchange(symbols="A", clock="lockstep") as served,
        connect(served.endpoint, "a") as first,
        connect(served.endpoint, "b") as second,
        RawClient(served.endpoint) as writer,
        request_socket(served.endpoint, "admin") as ask,
    ):
        writer.login("writer")
        first.subscribe_news(after=0)
        second.subscribe_news(after=0)
        for turn in range(1, 40):
            time_ns = turn * 1000
            for client in (first, second):
                client.core.send(msgpack.packb([Kind.PROMISE, time_ns]))
            writer.send(Kind.PROMISE, time_ns)
            assert grants(writer, 1) == [time_ns]
            for client in (first, second):
                assert client.turn(time_ns).time_ns == time_ns
                found = list(client.core.inbox)
                client.core.inbox.clear()
                assert [each.time_ns for each in found if isinstance(each, News)] == (
                    [time_ns - 1000] if turn > 1 else []
                )
                assert not any(isinstance(each, Grant) for each in found)
            assert publish(ask, f"During turn {turn}") == (turn, time_ns)
            assert first.news(1) == ([] if turn == 1 else [first.news(2)[-1]])
            assert [each.sequence for each in first.news(1)] == ([turn - 1] if turn > 1 else [])


def test_in_lockstep_a_message_of_a_later_time_waits_after_a_kill(tmp_path: Path) -> None:
    options = ("--symbols", "A", "--clock", "lockstep", "--journal", str(tmp_path / "journal"))
    served = launch(*options)
    with RawClient(served.endpoint) as writer, request_socket(served.endpoint, "admin") as ask:
        writer.login("writer")
        writer.send(Kind.PROMISE, 5000)
        assert grants(writer, 1) == [5000]
        assert publish(ask, "Acknowledged, but not published") == (1, 5000)
    served.kill()
    assert served.process.stdout is not None
    served.process.stdout.close()
    with (
        start_exchange(symbols="A", clock="lockstep", journal=tmp_path / "journal") as again,
        connect(again.endpoint, "reader") as reader,
    ):
        reader.subscribe_news(after=0)
        assert reader.turn(5000).time_ns == 5000 and reader.news() == [] and not reader.core.inbox
        reader.turn(5001)
        assert [each.headline for each in received(reader, 1)] == ["Acknowledged, but not published"]


def test_news_waits_for_the_latency_of_a_participant(tmp_path: Path) -> None:
    config: dict[str, Any] = {"accounts": {"far": {"latency": {"feed": {"kind": "constant", "delay_us": 2}}}}}
    with (
        start_exchange(symbols="A", clock="lockstep", config=config, folder=tmp_path) as served,
        connect(served.endpoint, "far") as far,
        request_socket(served.endpoint, "admin") as ask,
        zmq.Context() as context,
        context.socket(zmq.SUB) as feed,
    ):
        feed.connect(socket_endpoints(served.endpoint)["feed"])
        feed.subscribe(f"{far.session.topic_prefix}news/")
        follow(far)
        assert far.turn(1000).time_ns == 1000
        publish(ask, "From afar")
        far.turn(2000), far.turn(2999)
        assert not far.core.inbox
        far.turn(3001)
        assert [each.headline for each in received(far, 1)] == ["From afar"]
        assert feed.poll(5000) and msgpack.unpackb(feed.recv_multipart()[1])[5][0][4] == "From afar", "no repeat"


def test_the_commands_publish_and_list(served: Served, tmp_path: Path) -> None:
    def typed(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "serl", *words, "--connect", served.endpoint], capture_output=True, text=True
        )

    done = typed("exchange", "news", "Élan at AMZN", "--symbol", "AMZN", "--kind", "fundamental", "--value", "0.12")
    assert done.returncode == 0 and " published at " in done.stdout, done.stderr
    refused = typed("exchange", "news", "--kind", "value", "--symbol", "AMZN", "--value", "1.5")
    assert refused.returncode == 2 and refused.stderr == "error: --value: expected an integer of ticks, got '1.5'\n"
    path = tmp_path / "news.csv"
    path.write_text('kind,symbol,headline,value\nmacro,,"Rates, again",4.25\nvalue,GOOG,,51000\n')
    done = typed("news", "send", str(path))
    assert done.stdout == "published 2 of 2 messages\n", done.stderr
    listed = [json.loads(line) for line in typed("news", "list", "--last", "3").stdout.splitlines()]
    assert [each["headline"] for each in listed] == ["Élan at AMZN", "Rates, again", ""]
    assert [each["value"] for each in listed] == [0.12, 4.25, 51_000] and listed[2]["kind"] == "value"
    path.write_text("kind,symbol,headline\nnews,IBM,Unlisted\n")
    refused = typed("news", "send", str(path))
    assert refused.returncode == 2 and "message 1: expected one of the symbols AMZN, GOOG, got IBM" in refused.stderr
