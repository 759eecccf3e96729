"""Limits of a served exchange over real sockets: slow consumers, message rates, silence; and permissions of operators."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
import zmq

from serl.clients.blocking import Exchange, connect
from serl.clients.book import L2Book
from serl.clients.errors import Rejected, SessionEnded
from serl.clients.session import Report
from serl.exchange.config import socket_endpoints
from serl.exchange.records import COMMAND, CommandKind, EventKind, Reason, TimeInForce
from tests.server_fixture import RawClient, Served, start_exchange

PROMPT_S = 1.0
"""Time within which an exchange answers, whatever its other clients do."""
KIND, COMMAND_ID, REASON = 0, 2, 10
HALT, RESUME, END_DAY = int(CommandKind.HALT), int(CommandKind.RESUME), int(CommandKind.END_DAY)


@contextmanager
def limited(folder: Path, clock: str = "live", prelude: str = "", **config: Any) -> Iterator[Served]:
    """An exchange with these sections of its configuration."""
    with start_exchange(config=config, folder=folder, clock=clock, prelude=prelude) as served:
        yield served


def bulk(first_id: int, count: int, price_ticks: Any, symbol: int = 0) -> bytes:
    """One-lot NEW GTC buys in one bulk message."""
    rows = np.zeros(count, COMMAND)
    rows["kind"], rows["time_in_force"], rows["qty_lots"], rows["price_ticks"] = CommandKind.NEW, 1, 1, price_ticks
    rows["command_id"], rows["symbol"] = first_id + np.arange(count), symbol
    return bytes(msgpack.packb([32, rows.tobytes()]))


def timed_order(client: Exchange) -> float:
    """Seconds until an order and its cancel are both acknowledged."""
    began = time.perf_counter()
    client.cancel(client.buy("GOOG", 1, 10))
    return time.perf_counter() - began


def receive_until_goodbye(client: RawClient) -> tuple[list[Any], list[Any]]:
    """(events, GOODBYE): everything received until the session ended."""
    events: list[Any] = []
    while (message := client.receive(80, 100))[0] == 80:
        events += message[2]
    return events, message


def test_a_slow_consumer_is_disconnected_and_delays_nobody(tmp_path: Path) -> None:
    limits, intervals = {"outbound_messages_max": 16}, {"heartbeat_s": 0.2}
    with (
        limited(tmp_path, limits=limits, intervals=intervals) as served,
        connect(served.endpoint, "other") as other,
        RawClient(served.endpoint, slow=True) as slow,
    ):
        assert slow.login("slow", cancel_on_disconnect=True)[4] == 1
        slowest, orders, sessions = 0.0, 0, 2
        while sessions == 2:
            assert orders < 2_000_000, "never cut"
            for _ in range(10):
                slow.socket.send(bulk(orders + 1, 500, 90))
                orders += 500
            slowest = max(slowest, timed_order(other))
            sessions = other.ask(132)[5]["sessions"]
        slowest = max(slowest, timed_order(other), timed_order(other))
        assert slowest < PROMPT_S
        while other.book("AMZN", 1) != ([], []):  # it asked for cancel_on_disconnect
            other.wait(0.01)

        seen, goodbye = receive_until_goodbye(slow)
        assert goodbye[1] == "slow_consumer"
        missed = missed_reports(served, "slow", len(seen))
        ended = [event[KIND] for event in missed].count(EventKind.CANCELLED)
        accepted = [event for event in seen + missed if event[KIND] == EventKind.ACCEPTED]
        assert [event[COMMAND_ID] for event in accepted] == list(range(1, ended + 1))
        assert {event[REASON] for event in missed if event[KIND] == EventKind.CANCELLED} == {Reason.DISCONNECT}
        assert missed[-1][KIND] == EventKind.MASS_CANCELLED


def missed_reports(served: Served, name: str, last_report: int) -> list[Any]:
    """Every report after `last_report`, without a gap, over as many sessions as needed."""
    events: list[Any] = []
    ended = True
    while ended:
        with RawClient(served.endpoint) as again:
            assert again.login(name, last_report=last_report + len(events))[0] == 96
            again.send(66, 1)
            while (message := again.receive(80, 98, 100))[0] == 80:
                assert message[1] == last_report + len(events) + 1
                events += message[2]
        ended = message[0] == 100
    return events


def ask(served: Served, socket: str, kind: int, *values: Any) -> list[Any]:
    """A request and its reply, or ERROR."""
    with RawClient(served.endpoint, socket) as raw:
        raw.send(kind, 7, *values)
        return raw.receive()


def test_a_slow_subscriber_delays_nobody_and_recovers(tmp_path: Path) -> None:
    with (
        limited(tmp_path, limits={"outbound_messages_max": 16}) as served,
        connect(served.endpoint, "other") as other,
        RawClient(served.endpoint) as maker,
        l2_subscriber(served, "GOOG") as feed,
    ):
        book = L2Book()
        maker.login("maker")
        book.apply_snapshot(other.ask(129, 1, 0))
        while not feed.poll(20):
            timed_order(other)  # until the subscription has arrived
        slowest = 0.0
        for first in range(1, 300_000, 1000):
            maker.socket.send(bulk(first, 1000, 20 + np.arange(1000), symbol=1))
            while maker.receive(80)[2][-1][COMMAND_ID] != first + 999:
                pass
            slowest = max(slowest, timed_order(other))
        assert slowest < PROMPT_S
        apply_all(feed, book)
        timed_order(other)  # in case the last messages were dropped
        apply_all(feed, book)
        assert (book.gaps, book.needs_snapshot) == (1, True)
        book.apply_snapshot(other.ask(129, 1, 0))
        other.buy("GOOG", 7, 11)
        apply_all(feed, book)
        assert (book.levels(0), book.levels(1)) == other.book("GOOG", 0)
        assert (11, 7, 1) in book.levels(0)


@contextmanager
def l2_subscriber(served: Served, symbol: str) -> Iterator["zmq.Socket[bytes]"]:
    """A SUB socket with minimal receive buffers."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    feed = context.socket(zmq.SUB)
    feed.rcvhwm, feed.rcvbuf = 1, 4096
    feed.connect(socket_endpoints(served.endpoint)["feed"])
    feed.subscribe(f"l2/{symbol}/".encode())
    try:
        yield feed
    finally:
        context.destroy(0)


def apply_all(feed: "zmq.Socket[bytes]", book: L2Book) -> None:
    """Applies messages until none arrives for 0.3 s."""
    while feed.poll(300):
        book.apply(msgpack.unpackb(feed.recv_multipart()[1]))


def receive_answers(raw: RawClient, count: int) -> tuple[list[Any], list[Any]]:
    """(events, ERRORs): `count` of them, for commands with one answer each."""
    events: list[Any] = []
    errors: list[Any] = []
    while len(events) + len(errors) < count:
        message = raw.receive(80, 97)
        if message[0] == 80:
            events += message[2]
        else:
            errors.append(message)
    return events, errors


def test_too_many_messages_are_throttled_and_cancels_do_not_count(tmp_path: Path) -> None:
    with limited(tmp_path, limits={"messages_per_s_max": 5}) as served, RawClient(served.endpoint) as raw:
        raw.login("hasty")
        for command_id in range(1, 9):
            raw.send(1, command_id, 0, 0, 1, 100 + command_id, 1, 0, 0)
        accepted, rejected = receive_answers(raw, 8)
        assert [event[COMMAND_ID] for event in accepted] == [1, 2, 3, 4, 5]
        assert [refusal[1] for refusal in rejected] == ["throttled"] * 3
        assert "command 6" in rejected[0][2]
        began = time.perf_counter()
        raw.send(1, 6, 0, 0, 1, 106, 1, 0, 0)  # the same id, until it is accepted
        while raw.receive(80, 97)[0] == 97:
            time.sleep(0.02)
            raw.send(1, 6, 0, 0, 1, 106, 1, 0, 0)
        assert time.perf_counter() - began < PROMPT_S
        for command_id, order_id in zip(range(7, 13), range(1, 7), strict=True):
            raw.send(2, command_id, order_id, 0)
        accepted, rejected = receive_answers(raw, 6)
        assert [event[KIND] for event in accepted] == [EventKind.CANCELLED] * 6


@pytest.mark.parametrize(
    ("name", "rate", "accepted"), [("quick", 20, 8), ("slow", 2, 2), ("free", 0, 8), ("other", 5, 5)]
)
def test_an_account_can_have_its_own_message_rate(rates: Served, name: str, rate: float, accepted: int) -> None:
    with RawClient(rates.endpoint) as raw:
        welcome = raw.login(name)
        assert welcome[8]["messages_per_s_max"] == rate
        for command_id in range(1, 9):
            raw.send(1, command_id, 0, 0, 1, 100 + command_id, 1, 0, 0)
        events, rejected = receive_answers(raw, 8)
        assert (len(events), len(rejected)) == (accepted, 8 - accepted)
        assert all(refusal[1] == "throttled" and f"more than {rate:g} messages" in refusal[2] for refusal in rejected)


@pytest.fixture(scope="module")
def rates(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """An exchange with a default rate of five messages per second."""
    accounts = {"quick": 20, "slow": 2, "free": 0}
    own = {name: {"messages_per_s_max": rate} for name, rate in accounts.items()}
    with limited(tmp_path_factory.mktemp("rates"), limits={"messages_per_s_max": 5}, accounts=own) as served:
        yield served


def test_cancels_do_not_consume_the_rate_limit(tmp_path: Path) -> None:
    limits = {"messages_per_s_max": 1, "control_messages_per_s_max": 0}
    with limited(tmp_path, limits=limits) as served, RawClient(served.endpoint) as raw:
        raw.login("busy")
        raw.send(1, 1, 0, 0, 1, 100, 1, 0, 0)
        assert raw.receive(80, 97)[0] == 80
        command_id, began = 2, time.perf_counter()
        while time.perf_counter() - began < 1.1:
            raw.send(2, command_id, 999, 0)
            raw.send(66, 1)
            assert raw.receive(80, 97)[2][0][REASON] == Reason.UNKNOWN_ORDER
            command_id += 1
        raw.send(1, command_id, 0, 0, 1, 100, 1, 0, 0)
        assert raw.receive(80, 97)[0] == 80


def test_throttling_works_in_lockstep(tmp_path: Path) -> None:
    with (
        limited(tmp_path, clock="lockstep", limits={"messages_per_s_max": 1}) as served,
        RawClient(served.endpoint) as raw,
    ):
        raw.login("hasty")
        for command_id in (1, 2):
            raw.send(1, command_id, 0, 0, 1, 100, 1, 0, 50)
        assert raw.receive(97)[1] == "throttled"


def test_silence_ends_a_session_and_ping_keeps_it(tmp_path: Path) -> None:
    with (
        limited(tmp_path, intervals={"silence_s": 0.6, "heartbeat_s": 0.1}) as served,
        RawClient(served.endpoint) as silent,
        RawClient(served.endpoint) as pinging,
    ):
        silent.login("silent")
        pinging.login("pinging")
        for _ in range(15):
            pinging.send(66, 5)
            assert pinging.receive(98, 100)[0] == 98
            time.sleep(0.1)
        assert silent.receive(100)[1] == "silence"
        silent.send(1, 1, 0, 0, 1, 100, 1, 0, 0)
        assert silent.receive(97)[1] == "not_logged_in"


def test_lockstep_rejects_commands_beyond_staged_rows_max(tmp_path: Path) -> None:
    with (
        limited(tmp_path, clock="lockstep", limits={"staged_rows_max": 1024}) as served,
        RawClient(served.endpoint) as raw,
    ):
        raw.login("early")
        raw.send(67, 0)
        raw.socket.send(bulk(1, 1000, 100))
        raw.socket.send(bulk(1001, 100, 100))
        assert raw.receive(97)[1] == "throttled"
        raw.socket.send(bulk(1001, 24, 100))
        raw.send(1, 1025, 0, 0, 1, 100, 1, 0, 0)
        assert raw.receive(97)[1] == "throttled"
        raw.send(67, 10)
        while raw.receive(80)[2][-1][COMMAND_ID] != 1024:
            pass


TOKENS = {"tokens": {"alice": "secret", "root": "key"}, "operators": ["root"]}


@pytest.mark.parametrize(("login", "token"), [({}, ""), (TOKENS, "key")])
def test_operators_halt_resume_end_the_day_and_stop(tmp_path: Path, login: dict[str, Any], token: str) -> None:
    with limited(tmp_path, login=login) as served, connect(served.endpoint, "alice", "secret") as alice:
        follow_status(alice, served, token := token or served.operator)
        alice.buy("AMZN", 1, 99, time_in_force=TimeInForce.DAY)
        operate(served, token, HALT)
        assert next_status(alice) == [1, 0, 0]
        with pytest.raises(Rejected, match="HALTED"):
            alice.buy("AMZN", 1, 98)
        assert alice.buy("GOOG", 1, 98).state == "open"
        operate(served, token, RESUME)
        assert next_status(alice) == [0, 0, 0]
        assert alice.buy("AMZN", 1, 98).state == "open"
        operate(served, token, END_DAY)
        assert alice.book("AMZN", 0) == ([(98, 1, 1)], [])
        assert ask(served, "admin", 162, token)[5] == alice.ask(132)[5]["commands"]
        assert ask(served, "admin", 160, token)[0] == 176
        assert served.process.wait(timeout=20) == 0
        with pytest.raises(SessionEnded, match="shutdown"):
            alice.wait(5)


def operate(served: Served, token: str, kind: int) -> None:
    assert ask(served, "admin", 163, token, kind, 0)[5] == 1


def next_status(client: Exchange) -> list[int]:
    """The items of the next status message."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        item = client.wait(1)
        if isinstance(item, tuple) and item[0] == "status/AMZN/":
            return list(item[1][5])
    raise AssertionError("no status message")


def follow_status(client: Exchange, served: Served, token: str) -> None:
    """Subscribes, and waits until the subscription is active."""
    client.subscribe("status", "AMZN")
    while not isinstance(client.wait(0.05), tuple):
        operate(served, token, RESUME)
    while client.wait(0.2) is not None:
        pass


@pytest.mark.parametrize("token", ["", "secret", "no such", None, 5, ["key"]])
@pytest.mark.parametrize("message", [[160], [161, 0, 1], [162], [163, HALT, 0]])
def test_without_an_operators_token_nothing_happens(guarded: Served, message: list[int], token: Any) -> None:
    assert ask(guarded, "admin", message[0], token, *message[1:])[:2] == [97, "not_permitted"]
    assert ask(guarded, "queries", 132, "secret")[5]["commands"] == 0


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with limited(tmp_path_factory.mktemp("guarded"), login=TOKENS) as served:
        yield served


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ([163, "key", int(CommandKind.NEW), 0], "malformed"),
        ([163, "key", HALT, 2], "unknown_symbol"),
        ([163, "key", HALT, -1], "unknown_symbol"),
        ([163, "key", HALT], "malformed"),
        ([161, "key", 5, 1], "clock"),
        ([161, "key"], "malformed"),
        ([199, "key"], "malformed"),
    ],
)
def test_invalid_admin_messages(guarded: Served, message: list[Any], code: str) -> None:
    assert ask(guarded, "admin", *message)[:2] == [97, code]


def test_a_scaled_clock_is_set_held_and_never_goes_back(tmp_path: Path) -> None:
    with limited(tmp_path, clock="scaled:10") as served, connect(served.endpoint, "timed") as client:
        hour_ns = 3_600_000_000_000
        assert ask(served, "admin", 161, served.operator, hour_ns, 0)[4:] == [hour_ns, 1]
        assert ask(served, "queries", 128)[4] == hour_ns
        client.buy("AMZN", 1, 99)
        report = client.wait(5)
        assert isinstance(report, Report)
        assert report.time_ns == hour_ns
        for time_ns in (hour_ns - 1, -2, 1 << 63, -(1 << 63), (1 << 64) - 1):
            assert ask(served, "admin", 161, served.operator, time_ns, 1)[:2] == [97, "clock"]
        assert ask(served, "admin", 161, served.operator, hour_ns + 5, 1)[5] == 1
        assert ask(served, "queries", 128)[4] > hour_ns + 5
        held_ns = ask(served, "admin", 161, served.operator, -1, 0)[4]
        assert hour_ns + 5 < held_ns == ask(served, "queries", 128)[4], "held where it was"


def test_a_scaled_clock_goes_on_from_where_it_is_at_another_speed(tmp_path: Path) -> None:
    second_ns = 1_000_000_000
    with limited(tmp_path, clock="scaled:1") as served:
        before_ns = ask(served, "queries", 128)[4]
        now_ns = ask(served, "admin", 164, served.operator, 1_000_000_000)[4]
        assert before_ns <= now_ns < before_ns + 5 * second_ns, "no leap"
        time.sleep(0.2)
        info = ask(served, "queries", 128)
        assert info[4] > now_ns + 100 * second_ns
        assert info[5][2][1] == 1000.0
        for speed in (0, -1, 999, 10**12 + 1):
            assert ask(served, "admin", 164, served.operator, speed)[:2] == [97, "clock"]
    with limited(tmp_path) as served:
        assert ask(served, "admin", 164, served.operator, 1_000_000)[:2] == [97, "clock"], "a live clock has no speed"


def test_whether_a_symbol_is_halted_can_be_asked(tmp_path: Path) -> None:
    with limited(tmp_path) as served:
        assert ask(served, "queries", 134, 1)[5] == [0, 0, 0]
        ask(served, "admin", 163, served.operator, 17, 1)
        assert [ask(served, "queries", 134, symbol)[5] for symbol in (1, 0)] == [[1, 0, 0], [0, 0, 0]]
        assert ask(served, "queries", 134, 9)[:2] == [97, "unknown_symbol"]


def test_a_bulk_message_has_a_largest_number_of_rows(tmp_path: Path) -> None:
    with limited(tmp_path, limits={"bulk_rows_max": 16}) as served:
        raw = RawClient(served.endpoint)
        raw.login("bulky", rows=True)
        raw.socket.send(bulk(1, 17, 100))
        assert raw.receive(97)[1] == "too_large"
        raw.socket.send(bulk(1, 16, 100))
        assert raw.receive(81)[1] == 1
        raw.close()
