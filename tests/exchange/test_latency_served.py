"""Latencies on a served exchange: lower latency arrives first, a participant's messages keep their order, and nothing is delivered early."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
import zmq

from serl.clients.blocking import connect
from serl.exchange.config import socket_endpoints
from serl.exchange.latency import Delays, Lognormal
from serl.exchange.records import COMMAND
from tests.server_fixture import WAIT_MS, RawClient, Served, start_exchange

START_NS = 10 * 3600 * 10**9
US = 1000
FEED = zmq.SUB
SPREAD: dict[str, object] = {"kind": "lognormal", "median_us": 300, "sigma": 2}


def constant(delay_us: float) -> dict[str, object]:
    return {"kind": "constant", "delay_us": delay_us}


ACCOUNTS = {
    "near": {"latency": {"orders": constant(100)}},
    "far": {"latency": {"orders": constant(500)}},
    "listener": {"latency": {"feed": constant(400)}},
    "spread": {"latency": {"orders": SPREAD, "feed": SPREAD}},
}


@contextmanager
def held(folder: Path, journal: Path | None = None, **more: object) -> Iterator[Served]:
    """An exchange whose clock is held at START_NS until it is set."""
    clock = {"kind": "scaled", "start": "10:00", "held": True}
    config = {"clock": clock, "symbols": [{"name": "AMZN"}], "accounts": ACCOUNTS, **more}
    with start_exchange(symbols="", clock="", config=config, folder=folder, journal=journal) as served:
        yield served


@contextmanager
def raw_clients(served: Served, *names: str, **options: bool) -> Iterator[list[RawClient]]:
    """Raw clients that are logged in under these names."""
    clients = [RawClient(served.endpoint) for _ in names]
    try:
        for client, name in zip(clients, names, strict=True):
            assert client.login(name, **options)[0] == 96
        yield clients
    finally:
        for client in clients:
            client.close()


def set_time(served: Served, elapsed_us: float) -> None:
    """Sets the held clock."""
    with RawClient(served.endpoint, "admin") as admin:
        admin.send(161, 1, served.operator, START_NS + round(elapsed_us * US), 0)
        assert admin.receive()[0] == 177


def depth(served: Served) -> list[Any]:
    """[bids, asks] of the book now."""
    with RawClient(served.endpoint, "queries") as queries:
        queries.send(129, 1, 0, 0)
        found: list[Any] = queries.receive()[5]
        return found


def silent(client: RawClient) -> bool:
    """Whether the client receives nothing but heartbeats before the reply to a PING."""
    client.send(66, 5)
    return bool(client.receive()[0] == 98)


def buy(client: RawClient, command_id: int, price_ticks: int, time_ns: int = 0) -> None:
    client.send(1, command_id, 0, 0, 1, price_ticks, 1, 0, time_ns)


def elapsed_us(event: list[int]) -> float:
    return (event[1] - START_NS) / US


def test_lower_latency_arrives_first(tmp_path: Path) -> None:
    with held(tmp_path) as served, raw_clients(served, "far", "near", "plain") as (far, near, plain):
        buy(far, 1, 100)
        assert silent(far)
        buy(near, 1, 100)
        assert silent(near)
        set_time(served, 99)
        assert silent(near)
        set_time(served, 499)
        assert elapsed_us(near.receive(80)[2][0]) == 100
        assert silent(far)
        set_time(served, 500)
        buy(plain, 1, 100)
        first, second = far.receive(80)[2][0], plain.receive(80)[2][0]
        assert (elapsed_us(first), elapsed_us(second)) == (500, 500)
        assert first[13] < second[13], "a scheduled command comes before one that arrives at the same time"


def test_a_bulk_message_has_the_delays_of_single_ones_and_keeps_its_order(tmp_path: Path) -> None:
    rows = np.zeros(40, COMMAND)
    rows["command_id"], rows["kind"], rows["qty_lots"], rows["price_ticks"] = np.arange(1, 41), 1, 1, 100
    delays = Delays(Lognormal.model_validate(SPREAD), 0, "orders", "spread").draw_ns(rows["command_id"])
    expected = np.maximum.accumulate(delays).tolist()
    streams = []
    for bulk in (False, True):
        accounts = {"spread": {"latency": {"orders": SPREAD}}}
        with held(tmp_path, accounts=accounts) as served, raw_clients(served, "spread") as (spread,):
            if bulk:
                spread.send(32, rows.tobytes())
            else:
                for command_id in rows["command_id"].tolist():
                    buy(spread, command_id, 100)
            assert silent(spread)
            set_time(served, 3.6e9)
            events: list[list[int]] = []
            while len(events) < len(rows):
                events += spread.receive(80)[2]
            streams.append([(event[1] - START_NS, event[2]) for event in events])
    assert streams[0] == streams[1] == list(zip(expected, range(1, 41), strict=True))
    assert (np.diff(delays) < 0).any(), "without the order some would have overtaken others"


def test_a_command_resent_before_its_arrival_is_answered_once(tmp_path: Path) -> None:
    with held(tmp_path) as served, raw_clients(served, "far") as (far,):
        buy(far, 1, 100)
        buy(far, 1, 100)
        rows = np.zeros(2, COMMAND)
        rows["command_id"], rows["kind"], rows["qty_lots"], rows["price_ticks"] = [1, 2], 1, 1, 100
        far.send(32, rows.tobytes())
        assert silent(far)
        set_time(served, 500)
        answer = far.receive()
        assert answer[0] == 80
        assert [event[2] for event in answer[2]] == [1, 2]
        buy(far, 1, 100)
        assert far.receive()[:2] == [82, 1]


def test_a_mass_cancel_does_not_overtake_and_a_disconnect_cancels_delayed_orders(tmp_path: Path) -> None:
    with held(tmp_path) as served:
        with raw_clients(served, "far", cancel_on_disconnect=True) as (far,):
            buy(far, 1, 100)
            far.send(5, 2, 65535, 0)
            buy(far, 3, 101)
            assert silent(far)
            set_time(served, 500)
            kinds = [event[0] for event in far.receive(80)[2]]
            assert kinds == [1, 4, 11, 1]
            buy(far, 4, 102)
            far.send(65)
            assert far.receive(100)[1] == "bye"
        assert depth(served)[0] == [[101, 1, 1]]
        set_time(served, 1000)
        assert depth(served)[0] == [[102, 1, 1], [101, 1, 1]]
        set_time(served, 1000.001)
        assert depth(served)[0] == []


def test_a_crash_loses_delayed_commands_and_the_next_start_cancels_on_disconnect(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    with held(tmp_path, journal) as served, raw_clients(served, "far", cancel_on_disconnect=True) as (far,):
        buy(far, 1, 100)
        assert silent(far)
        set_time(served, 500)
        far.receive(80)
        buy(far, 2, 101)
        far.send(65)
        far.receive(100)
        served.kill()
    with held(tmp_path, journal) as served, raw_clients(served, "far") as (far,):
        assert depth(served)[0] == []
        set_time(served, 2000)
        assert silent(far)
        assert depth(served)[0] == []
        far.send(65)
        far.receive(100)
        assert far.login("far")[5] == 1, "command 2 never arrived"
        buy(far, 2, 101)
        assert silent(far)
        set_time(served, 3000)
        assert far.receive(80)[2][0][2] == 2


def test_delayed_commands_are_limited(tmp_path: Path) -> None:
    with (
        held(tmp_path, limits={"staged_rows_max": 1024, "bulk_rows_max": 1024}) as served,
        raw_clients(served, "far") as (far,),
    ):
        rows = np.zeros(1024, COMMAND)
        rows["command_id"], rows["kind"], rows["qty_lots"], rows["price_ticks"] = np.arange(1, 1025), 1, 1, 100
        far.send(32, rows.tobytes())
        buy(far, 1025, 100)
        assert far.receive()[:2] == [97, "throttled"]
        set_time(served, 500)
        events: list[list[int]] = []
        while len(events) < 1024:
            events += far.receive(80)[2]
        buy(far, 1025, 100)
        assert silent(far)
        set_time(served, 1000)
        assert far.receive(80)[2][0][2] == 1025


def test_reports_are_delayed_and_a_new_login_does_not_shorten_that(tmp_path: Path) -> None:
    with held(tmp_path) as served, raw_clients(served, "listener", "plain") as (listener, plain):
        buy(listener, 1, 100)
        assert silent(listener)
        assert depth(served)[0] == [[100, 1, 1]], "the order itself arrived at once"
        buy(listener, 1, 100)
        assert silent(listener), "the duplicate is not answered before the original"
        set_time(served, 100)
        plain.send(1, 1, 0, 1, 1, 100, 1, 0, 0)
        plain.receive(80)
        set_time(served, 399)
        assert silent(listener)
        listener.send(65)
        listener.receive(100)
        assert listener.login("listener", last_report=0)[8]["feed_delayed"] == 1
        assert silent(listener)
        set_time(served, 400)
        assert [event[0] for event in listener.receive(80)[2]] == [1]
        assert silent(listener)
        set_time(served, 500)
        first, events = listener.receive(80)[1:]
        assert (first, [event[0] for event in events], elapsed_us(events[0])) == (2, [3], 100)


def test_the_feed_is_delayed(tmp_path: Path) -> None:
    with held(tmp_path) as served, raw_clients(served, "listener", "plain") as (listener, plain):
        listener.send(65)
        listener.receive(100)
        number = listener.login("listener")[3]
        context = zmq.Context[zmq.Socket[bytes]]()
        feed = context.socket(FEED)
        feed.connect(socket_endpoints(served.endpoint)["feed"])
        for topic in (f"{number}/l1/AMZN/", "l1/AMZN/", "99999999/l1/AMZN/", "time/"):
            feed.subscribe(topic.encode())
        while feed.recv_multipart()[0] != b"time/":
            pass
        received: list[tuple[str, int]] = []

        def listen(count: int) -> None:
            """Receives messages until there are `count` in total, and asserts that no more follow."""
            while feed.poll(200 if len(received) >= count else WAIT_MS):
                topic, data = feed.recv_multipart()
                message = msgpack.unpackb(data)
                if message[2] < message[3]:  # neither a time nor a repeat
                    received.append((topic.decode(), message[5][0]))

        buy(plain, 1, 100)
        plain.receive(80)
        listen(1)
        set_time(served, 399)
        buy(plain, 2, 101)
        plain.receive(80)
        listen(2)
        assert received == [("l1/AMZN/", 100), ("l1/AMZN/", 101)]
        set_time(served, 400)
        listen(3)
        assert received[2:] == [(f"{number}/l1/AMZN/", 100)]
        set_time(served, 799)
        listen(4)
        assert received[3:] == [(f"{number}/l1/AMZN/", 101)]
        context.destroy(0)


def test_a_repeat_is_delayed_as_its_message(tmp_path: Path) -> None:
    intervals = {"time_s": 0.02}
    with held(tmp_path, intervals=intervals) as served, raw_clients(served, "listener", "plain") as (listener, plain):
        listener.send(65)
        listener.receive(100)
        number = listener.login("listener")[3]
        context = zmq.Context[zmq.Socket[bytes]]()
        feed = context.socket(FEED)
        feed.connect(socket_endpoints(served.endpoint)["feed"])
        for topic in (f"{number}/l1/AMZN/", "l1/AMZN/"):
            feed.subscribe(topic.encode())

        def next_message() -> tuple[str, bool, int]:
            """Topic, whether it is a repeat, and the best bid."""
            assert feed.poll(WAIT_MS), "the feed is silent"
            topic, data = feed.recv_multipart()
            message = msgpack.unpackb(data)
            return topic.decode(), message[2] == message[3], message[5][0]

        while next_message() != ("l1/AMZN/", True, 0):
            pass  # until the subscriptions have arrived
        buy(plain, 1, 100)
        while next_message() != ("l1/AMZN/", False, 100):
            pass
        found = [next_message() for _ in range(3)]
        assert found == [("l1/AMZN/", True, 100)] * 3, "what is delayed has no repeat yet"
        set_time(served, 400)
        delayed = list[tuple[str, bool, int]]()
        while len(delayed) < 2:
            if (message := next_message())[0] != "l1/AMZN/":
                delayed.append(message)
        assert delayed == [(f"{number}/l1/AMZN/", is_repeat, 100) for is_repeat in (False, True)]
        context.destroy(0)


def test_the_client_follows_its_delayed_feed(tmp_path: Path) -> None:
    with (
        held(tmp_path) as served,
        connect(served.endpoint, "listener") as listener,
        connect(served.endpoint, "plain") as plain,
    ):
        listener.subscribe("trade", "AMZN")
        assert listener.book("AMZN") == ([], [])
        plain.buy("AMZN", 3, 100)
        plain.sell("AMZN", 1, 100)
        assert listener.wait(0.3) is None
        assert listener.book("AMZN") == ([], [])
        set_time(served, 400)
        item = listener.wait(20)
        assert isinstance(item, tuple)
        assert item[0] == "trade/AMZN/"
        deadline_s = time.monotonic() + 20
        while listener.book("AMZN") != ([(100, 2, 1)], []):
            # what came before the subscription to l2 arrived is missed until the topic's next repeat
            assert time.monotonic() < deadline_s, listener.book("AMZN")
            listener.wait(0.1)


def test_under_a_live_clock_the_tape_is_in_order_of_arrival(tmp_path: Path) -> None:
    config: dict[str, object] = {"latency": {"orders": SPREAD}, "accounts": {"plain": {"latency": {}}}}
    with (
        start_exchange(config=config, folder=tmp_path) as served,
        raw_clients(served, "slow", "plain") as (slow, plain),
    ):
        slow.send(66, 1)
        before_ns = slow.receive(98)[2]
        for command_id in range(1, 301):
            buy(slow, command_id, 100)
            buy(plain, command_id, 101)
        events: list[list[int]] = []
        for client in (slow, plain):
            own: list[list[int]] = []
            while len(own) < 300:
                own += client.receive(80)[2]
            assert [event[2] for event in own] == list(range(1, 301))
            events += own
    events.sort(key=lambda event: event[13])
    assert all(np.diff([event[1] for event in events]) >= 0)
    drawn = Delays(Lognormal.model_validate(SPREAD), 0, "orders", "slow").draw_ns(np.arange(1, 301))
    arrived = np.array([event[1] for event in events if event[8] == 100])
    assert all(arrived >= before_ns + drawn)


def test_under_a_live_clock_an_order_is_answered_after_the_round_trip(tmp_path: Path) -> None:
    config: dict[str, object] = {"latency": {"orders": constant(20_000), "feed": constant(30_000)}}
    with start_exchange(config=config, folder=tmp_path) as served, connect(served.endpoint, "ann") as ann:
        began = time.monotonic()
        order = ann.buy("AMZN", 1, 100)
        assert order.state == "open"
        assert time.monotonic() - began >= 0.05


def lockstep_streams(folder: Path, order: tuple[int, int, int], pause_s: float) -> list[list[Any]]:
    """The messages that three participants receive when they send in this order, with the grouping of reports removed."""
    config: dict[str, object] = {"clock": {"participants": 3}, "latency": {"seed": 5, "orders": SPREAD, "feed": SPREAD}}
    streams: list[list[Any]] = [[], [], []]
    with (
        start_exchange(clock="lockstep", config=config, folder=folder) as served,
        raw_clients(served, "a", "b", "c") as clients,
    ):
        for turn in range(12):
            for index in order:
                for place in range(6):
                    command_id, time_ns = turn * 6 + place + 1, turn * 1_000_000 + place * 50_000
                    side, price = (command_id + index) % 2, 100 + command_id % 3
                    clients[index].send(1, command_id, 0, side, 1 + index, price, 1, 0, time_ns)
                time.sleep(pause_s)
                clients[index].send(67, (turn + 1) * 1_000_000 if turn < 11 else 1 << 62)
            if turn < 11:
                for client, stream in zip(clients, streams, strict=True):
                    while (message := client.receive(80, 101))[0] == 80:
                        stream += message[2]
                    stream.append(message)
        for client, stream in zip(clients, streams, strict=True):
            while not any(len(each) == 14 and each[2] == 72 for each in stream):
                stream += client.receive(80)[2]
            client.send(66, 9)
            while (message := client.receive(80, 98))[0] == 80:
                stream += message[2]
    return streams


@pytest.mark.parametrize(("order", "pause_s"), [((2, 0, 1), 0.0), ((1, 2, 0), 0.003)])
def test_in_lockstep_all_streams_are_independent_of_process_speed(
    order: tuple[int, int, int], pause_s: float, tmp_path: Path
) -> None:
    streams = lockstep_streams(tmp_path, (0, 1, 2), 0.0)
    assert streams == lockstep_streams(tmp_path, order, pause_s)
    for stream in streams:
        grants = [place for place, each in enumerate(stream) if each[0] == 101 and len(each) == 3]
        assert [stream[place][1] for place in grants] == [turn * 1_000_000 for turn in range(1, 12)]
        for place, each in enumerate(stream[: grants[-1]]):
            granted = next(stream[grant][1] for grant in grants if grant >= place)
            assert each[1] <= granted, "no event is delivered before its time"
        assert {each[2] for each in stream if len(each) == 14} >= set(range(1, 73))
