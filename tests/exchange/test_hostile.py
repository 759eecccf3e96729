"""Hostile clients beside an honest one: nobody silences, starves or exhausts the exchange for another. Each test fails on an exchange without the limit that it is about."""

import os
import resource
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
import zmq

from serl.exchange.config import socket_endpoints
from serl.exchange.records import COMMAND
from serl.exchange.resends import EVENTS_MAX
from tests.exchange.test_limits import bulk, limited
from tests.raw_zmtp import frame, raw_connection
from tests.server_fixture import RawClient, Served, start_exchange

LONG = pytest.mark.long
PROMPT_S = 5.0
"""Time within which an honest client is answered during an attack, on a busy machine."""


def resident_bytes(served: Served) -> int:
    """Memory without files: the journal's pages belong to the page cache."""
    resident, files = Path(f"/proc/{served.process.pid}/statm").read_text().split()[1:3]
    return (int(resident) - int(files)) * os.sysconf("SC_PAGE_SIZE")


def ask(served: Served, name: str, *message: Any) -> list[Any]:
    with RawClient(served.endpoint, name) as raw:
        raw.send(*message)
        return raw.receive()


def assert_prompt(raw: RawClient, command_id: int) -> None:
    """An order is answered, and a query."""
    began = time.perf_counter()
    raw.send(1, command_id, 0, 0, 1, 100, 1, 0, 0)
    assert raw.receive(80)[2][0][2] == command_id
    assert time.perf_counter() - began < PROMPT_S


@contextmanager
def subscriber(served: Served, topic: bytes) -> Iterator["zmq.Socket[bytes]"]:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    feed = context.socket(zmq.SUB)
    feed.connect(socket_endpoints(served.endpoint)["feed"])
    feed.subscribe(topic)
    try:
        yield feed
    finally:
        context.destroy(0)


def wait_for_feed(feed: "zmq.Socket[bytes]", raw: RawClient, command_ids: Iterator[int]) -> None:
    """Trades until a message of the feed arrives."""
    for _ in range(100):
        raw.send(1, next(command_ids), 0, 0, 1, 100, 1, 0, 0)
        raw.receive(80)
        if feed.poll(100):
            feed.recv_multipart()
            return
    raise AssertionError("the feed is silent")


def closed_within(connection: socket.socket, data: bytes, seconds: float = 20) -> bool:
    """Whether the exchange closes a connection that keeps sending these bytes."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            connection.sendall(data)
        except OSError:
            return True
        time.sleep(0.005)
    return False


def test_a_strangers_unsubscribe_silences_nobody() -> None:
    with start_exchange() as served, RawClient(served.endpoint) as raw, subscriber(served, b"l2/AMZN/") as feed:
        raw.login("honest")
        ids = iter(range(1, 10_000))
        wait_for_feed(feed, raw, ids)
        with raw_connection(served.endpoint) as stranger, raw_connection(served.endpoint) as another:
            stranger.sendall(frame(b"\x00l2/AMZN/") * 5)
            another.sendall(frame(b"\x01l2/AMZN/") * 3 + frame(b"\x00l2/AMZN/") * 5)
            time.sleep(0.5)  # what they might do has happened
            wait_for_feed(feed, raw, ids)
            wait_for_feed(feed, raw, ids)
        wait_for_feed(feed, raw, ids)


def test_a_subscription_ends_with_its_connection() -> None:
    with start_exchange() as served, RawClient(served.endpoint) as raw:
        raw.login("honest")
        ids = iter(range(1, 10_000))
        for _ in range(2):
            with subscriber(served, b"l2/AMZN/") as feed:
                wait_for_feed(feed, raw, ids)


@pytest.mark.parametrize(
    "flood", [b"\x00l2/AMZN/", *(pytest.param(each, marks=LONG) for each in (b"\x01l2/AMZN/", b"\x01nothing"))]
)
def test_a_flood_of_subscriptions_delays_no_order(flood: bytes) -> None:
    with start_exchange() as served, RawClient(served.endpoint) as raw, raw_connection(served.endpoint) as attacker:
        raw.login("honest")
        assert_prompt(raw, 1)
        attacker.setblocking(False)
        data, began, command_id = frame(flood) * 5000, time.monotonic(), 2
        while time.monotonic() - began < 2:
            with suppress(OSError):
                attacker.send(data)
            if command_id < 100:
                assert_prompt(raw, command_id)
                command_id += 1


def test_long_subscriptions_are_refused_unread() -> None:
    with start_exchange() as served, RawClient(served.endpoint) as raw:
        raw.login("honest")
        before = resident_bytes(served)
        for _ in range(10):
            with raw_connection(served.endpoint) as attacker:
                assert closed_within(attacker, frame(b"\x01" + os.urandom(500_000)))
        assert_prompt(raw, 1)
        assert resident_bytes(served) < before + 30_000_000


def test_a_connection_with_too_many_unknown_topics_is_closed(tmp_path: Path) -> None:
    with limited(tmp_path, limits={"unknown_topics_max": 8}) as served:  # noqa: SIM117
        with raw_connection(served.endpoint) as patient, raw_connection(served.endpoint) as attacker:
            patient.sendall(b"".join(frame(b"\x01x%d" % number) for number in range(8)))
            assert closed_within(attacker, b"".join(frame(b"\x01y%d" % number) for number in range(9)))
            patient.sendall(frame(b"\x01l2/"))
            patient.settimeout(0.5)
            with pytest.raises(TimeoutError):
                assert patient.recv(1), "closed"


@pytest.mark.parametrize(
    ("name", "message"), [("queries", [129, 1, 0, 1000]), pytest.param("admin", [163, 1, "guess", 17, 0], marks=LONG)]
)
def test_a_flood_of_requests_delays_no_order(name: str, message: list[Any]) -> None:
    with start_exchange() as served, RawClient(served.endpoint) as raw, RawClient(served.endpoint, name) as attacker:
        raw.login("honest")
        assert_prompt(raw, 1)
        data, began, command_id = msgpack.packb(message), time.monotonic(), 2
        while time.monotonic() - began < 2:
            with suppress(zmq.Again):
                for _ in range(500):
                    attacker.socket.send(data, zmq.NOBLOCK)
            assert_prompt(raw, command_id)
            command_id += 1
        assert ask(served, "queries", 128, 5)[1] == 5


def test_a_market_of_many_orders_is_not_read_at_once(tmp_path: Path) -> None:
    with limited(tmp_path, limits={"snapshot_orders_max": 10}) as served, RawClient(served.endpoint) as raw:
        raw.login("honest")
        for command_id in range(1, 12):
            assert_prompt(raw, command_id)
        for message in ([130, 1, 0], [133, 1], [135, 1, 0]):
            assert ask(served, "queries", *message)[:2] == [97, "too_large"]
        assert ask(served, "queries", 132, 1)[5]["orders_open"] == 11
        raw.send(2, 12, 1, 0)
        raw.receive(80)
        assert len(ask(served, "queries", 130, 1, 0)[5]) == 10


def test_a_session_that_never_reads_holds_little_memory() -> None:
    with start_exchange() as served, RawClient(served.endpoint) as raw, RawClient(served.endpoint, slow=True) as mute:
        raw.login("honest")
        assert_prompt(raw, 1)
        mute.send(64, 1, 1, "mute", "", -1, {})
        mute.socket.sndtimeo = 200
        before = resident_bytes(served)
        rows = np.zeros(1024, COMMAND)
        rows["kind"], rows["order_id"] = 2, 999_999  # cancels of nothing: the book does not grow
        for number in range(10_000):
            rows["command_id"] = np.arange(1, 1025) + number * 1024
            try:
                mute.socket.send(msgpack.packb([32, rows.tobytes()]))
            except zmq.Again:
                break
        assert_prompt(raw, 2)
        assert resident_bytes(served) < before + 400_000_000, "65 MB of reports, and the journal's buffers"


def test_more_connections_than_descriptors_do_not_end_the_exchange(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (400, limits[1]))
    try:
        with limited(tmp_path, limits={"connections_max": 100}) as served:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            with RawClient(served.endpoint) as raw:
                raw.login("honest")
                assert_prompt(raw, 1)
                port = int(served.endpoint.rpartition(":")[2])
                held = [socket.create_connection(("127.0.0.1", port + number % 4)) for number in range(700)]
                time.sleep(0.5)
                for command_id in range(2, 20):
                    assert_prompt(raw, command_id)
                with RawClient(served.endpoint) as other:
                    assert served.process.poll() is None
                    for each in held:
                        each.close()
                    assert other.login("newcomer")[0] == 96
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.parametrize("others", [{}, {"orders_open_max": 3}])
def test_names_that_do_nothing_lock_no_newcomer_out(tmp_path: Path, others: dict[str, int]) -> None:
    with limited(tmp_path, limits={"participants_max": 8}, other_accounts=others) as served:
        with RawClient(served.endpoint) as trader:
            trader.login("trader")
            assert_prompt(trader, 1)
            trader.send(65)
            trader.receive(100)
        for number in range(20):
            with RawClient(served.endpoint) as raw:
                assert raw.login(f"name{number}")[0] == 96
                raw.send(65)
                raw.receive(100)
        with RawClient(served.endpoint) as trader:
            assert trader.login("trader")[5] == 1, "its last command"


def test_new_names_have_a_rate(tmp_path: Path) -> None:
    with limited(tmp_path, limits={"new_names_per_s_max": 0.5}) as served, RawClient(served.endpoint) as raw:
        codes = []
        for number in range(8):
            raw.send(64, 1, 1, f"name{number}", "", -1, {})
            reply = raw.receive(96, 97)
            codes.append(reply[0] if reply[0] == 96 else reply[1])
            if reply[0] == 96:
                raw.send(65)
                raw.receive(100)
        assert codes[0] == 96
        assert codes[-1] == "rate"
        raw.send(64, 1, 1, "name0", "", -1, {})
        assert raw.receive(96, 97)[0] == 96, "a known name"


@pytest.mark.parametrize("time_ns", [1 << 62, (1 << 63) - 1])
def test_lockstep_refuses_arrivals_after_the_end_of_time(tmp_path: Path, time_ns: int) -> None:
    with limited(tmp_path, clock="lockstep") as served, RawClient(served.endpoint) as raw:
        raw.login("late")
        raw.send(67, 0)
        raw.send(1, 1, 0, 0, 1, 100, 1, 0, time_ns)
        assert raw.receive(80, 97)[1] == "promise"
        raw.send(1, 1, 0, 0, 1, 100, 1, 0, 5)
        raw.send(67, 10)
        assert raw.receive(80)[2][0][2] == 1


@pytest.mark.parametrize("message", [[66, 1], [200], [1, -1]])
def test_a_session_with_too_many_messages_besides_orders_ends(tmp_path: Path, message: list[int]) -> None:
    with limited(tmp_path, limits={"control_messages_per_s_max": 5}) as served, RawClient(served.endpoint) as raw:
        raw.login("noisy")
        for _ in range(40):
            raw.send(*message)
        assert raw.receive(100)[1] == "rate"


def test_a_stranger_with_too_many_messages_is_disconnected(tmp_path: Path) -> None:
    with limited(tmp_path, limits={"control_messages_per_s_max": 5}) as served:
        with raw_connection(served.endpoint, "orders", b"DEALER") as stranger:
            assert closed_within(stranger, frame(b"\xc1") * 20)
        with RawClient(served.endpoint) as raw:
            assert raw.login("honest")[0] == 96


def test_strangers_share_one_budget_while_orders_arrive(tmp_path: Path) -> None:
    with limited(tmp_path, limits={"requests_share": 1e-6}) as served, RawClient(served.endpoint) as raw:
        raw.login("honest")
        with raw_connection(served.endpoint, "orders", b"DEALER") as stranger:
            with suppress(OSError):
                for first_id in range(1, 5000, 10):  # orders arrive as long as the stranger's messages do
                    for command_id in range(first_id, first_id + 10):
                        raw.send(1, command_id, 0, 0, 1, 100, 1, 0, 0)
                    stranger.sendall(frame(b"\xc1") * 10)
            assert closed_within(stranger, frame(b"\xc1"))
        errors = ask(served, "queries", 132, 1)[5]["errors"]
        assert errors["malformed"] < 1000, "a connection's own limit"


@pytest.mark.parametrize("name", ["orders", "queries"])
def test_a_message_without_end_takes_no_memory(tmp_path: Path, name: str) -> None:
    with limited(tmp_path, limits={"unread_bytes_max": 1 << 20}) as served:
        with raw_connection(served.endpoint, name, b"DEALER") as attacker:
            assert closed_within(attacker, frame(bytes(4000), 1) * 16)
        with raw_connection(served.endpoint, "orders", b"DEALER") as attacker:
            attacker.sendall(frame(msgpack.packb([64, 1, 1, "attacker", "", -1, {}])))
            assert attacker.recv(1000), "WELCOME"
            assert closed_within(attacker, frame(bytes(60_000), 1))
        assert ask(served, "queries", 132, 1)[5]["connections_closed"] == 2


def test_a_message_without_end_is_noticed_while_nothing_else_happens(tmp_path: Path) -> None:
    """Not after as many waits of an idle exchange as a look has parts: it fills gigabytes a second."""
    took_s = []
    with limited(tmp_path, limits={"unread_bytes_max": 1 << 20}) as served:
        for _ in range(6):
            with raw_connection(served.endpoint, "orders", b"DEALER") as attacker:
                attacker.settimeout(0.5)  # the end of a connection that nobody reads may stay unnoticed
                began = time.monotonic()
                with suppress(OSError):
                    while time.monotonic() - began < 2:
                        attacker.sendall(frame(bytes(65_000), 1))
                took_s.append(time.monotonic() - began)
    assert min(took_s) < 0.3, took_s


def test_a_client_that_the_exchange_kept_waiting_is_not_closed(tmp_path: Path) -> None:
    with limited(tmp_path, limits={"unread_bytes_max": 1 << 20}) as served, RawClient(served.endpoint) as raw:
        raw.login("fast")
        served.process.send_signal(signal.SIGSTOP)
        for number in range(100):  # 7 MB
            raw.socket.send(bulk(1 + number * 1000, 1000, 100))
        time.sleep(0.3)
        served.process.send_signal(signal.SIGCONT)
        last = 0
        while last < 100_000:
            last = raw.receive(80)[2][-1][2]


def test_commands_sent_again_are_answered_and_nobody_is_sent_away(tmp_path: Path) -> None:
    with limited(tmp_path, limits={"control_messages_per_s_max": 3}) as served, RawClient(served.endpoint) as raw:
        raw.login("back")
        messages = [bulk(1 + number * 100, 100, 100) for number in range(10)]
        for message in messages:
            raw.socket.send(message)
        last = 0
        while last < 1000:
            last = raw.receive(80)[2][-1][2]
        for message in messages:
            raw.socket.send(message)
        answers = [raw.receive(82, 97, 100) for _ in range(1000)]
        assert [answer[:2] for answer in answers] == [[82, command_id] for command_id in range(1, 1001)]
        for _ in range(2):
            raw.send(5, 1001, 65535, 0)
        answer = raw.receive(82)
        assert answer[1:3] == [1001, 1001]
        assert len(answer[3]) == EVENTS_MAX, "of a thousand: a message of 20 bytes must not cost as much again"


def test_commands_sent_again_wait_for_the_share_while_orders_arrive(tmp_path: Path) -> None:
    limits = {"requests_share": 1e-6, "resent_rows_max": 2000}
    with limited(tmp_path, limits=limits) as served, RawClient(served.endpoint) as raw:
        raw.login("stale")
        for first_id in (1, 1001):
            raw.socket.send(bulk(first_id, 1000, 100))
        while raw.receive(80)[2][-1][2] < 2000:
            pass
        with RawClient(served.endpoint) as honest:
            honest.login("honest")
            for command_id in range(1, 5001):
                honest.send(1, command_id, 0, 0, 1, 100, 1, 0, 0)
            for _ in range(10):
                raw.socket.send(bulk(1, 1000, 100))
            while (reply := raw.receive(82, 97))[0] == 82:
                pass
            assert reply[1] == "throttled", "ten thousand rows do not fit"
            assert "resent_rows_max" in reply[2]


def test_rows_of_bulk_messages_count_against_the_rate(tmp_path: Path) -> None:
    with limited(tmp_path, limits={"messages_per_s_max": 10}) as served, RawClient(served.endpoint) as raw:
        raw.login("bulky")
        raw.socket.send(bulk(1, 100, 100))
        assert raw.receive(80, 97)[0] == 80, "a full bucket"
        raw.socket.send(bulk(101, 100, 100))
        assert raw.receive(97)[1] == "throttled"
        raw.send(1, 101, 0, 0, 1, 100, 1, 0, 0)
        assert raw.receive(97)[1] == "throttled", "it owes 90 rows"
        raw.send(65)
        raw.receive(100)
        raw.login("bulky")
        raw.send(1, 101, 0, 0, 1, 100, 1, 0, 0)
        assert raw.receive(80, 97)[1] == "throttled", "a new login does not pay"


def test_cancels_have_a_rate_of_their_own(tmp_path: Path) -> None:
    limits = {"messages_per_s_max": 1, "cancels_per_s_max": 3}
    with limited(tmp_path, limits=limits) as served, RawClient(served.endpoint) as raw:
        raw.login("busy")
        raw.send(1, 1, 0, 0, 1, 100, 1, 0, 0)
        raw.receive(80)
        for command_id in range(2, 8):
            raw.send(2, command_id, 999, 0)
        replies = [raw.receive(80, 97) for _ in range(2)]
        while replies[-1][0] == 80:
            replies.append(raw.receive(80, 97))
        assert replies[-1][1] == "throttled"
        assert "more than 3 messages" in replies[-1][2]


def test_a_message_of_many_frames_is_dropped_in_parts() -> None:
    with start_exchange() as served, RawClient(served.endpoint) as raw:
        for name in ("orders", "queries"):
            with raw_connection(served.endpoint, name, b"DEALER") as attacker:
                attacker.sendall(frame(b"x", 1) * 100_000 + frame(b"x"))
        raw.login("honest")
        assert_prompt(raw, 1)
        assert ask(served, "queries", 128, 5)[1] == 5
