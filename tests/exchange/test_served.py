"""A real exchange process over real sockets: malformed input, sessions, feed, lockstep."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest

from serl.clients.blocking import connect
from serl.clients.values import FeedMessage
from serl.exchange.keys import new_keys
from serl.exchange.records import COMMAND
from tests.server_fixture import RawClient, Served, launch, start_exchange


@pytest.fixture(scope="module")
def exchange() -> Iterator[Served]:
    with start_exchange() as served:
        yield served


@pytest.fixture
def raw(exchange: Served) -> Iterator[RawClient]:
    client = RawClient(exchange.endpoint)
    yield client
    client.close()


def nested(depth: int) -> bytes:
    return b"\x91" * depth + b"\x01"


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\xc1rubbish", "malformed"),
        (nested(5000), "malformed"),
        (nested(1000), "malformed"),  # msgpack reads as many, and Python 3.11 cannot print them
        (b"\x92\x01" + nested(1000), "malformed"),
        (b"\xdd\xff\xff\xff\xff", "malformed"),
        (b"\xc6\xff\xff\xff\xff", "malformed"),
        (msgpack.packb({"a": 1}), "malformed"),
        (msgpack.packb([]), "malformed"),
        (msgpack.packb([1, 1, 0]), "not_logged_in"),
        (b"x" * 200_000, "too_large"),
        (msgpack.packb([64, 2, 3, "late", "", -1, {}]), "version"),
        (msgpack.packb([64, 1, 1, "", "", -1, {}]), "login"),
        (msgpack.packb([64, 1, 1]), "malformed"),
        (msgpack.packb([999]), "not_logged_in"),
    ],
)
def test_malformed_messages_before_login_get_a_typed_error(raw: RawClient, data: bytes, code: str) -> None:
    raw.socket.send(data)
    assert raw.receive(97)[1] == code


def test_a_connection_hears_seldom_that_it_is_not_logged_in(raw: RawClient) -> None:
    """Commands that were on their way when a session ended got an error each, for time that the next logins needed."""

    def answers_until_the_login() -> list[Any]:
        for command_id in range(1, 65):
            raw.send(1, command_id, 0, 0, 10, 100, 1, 0, 0)
        raw.send(64, 1, 1, "once", "", -1, {})
        answers = [raw.receive()]
        while answers[-1][0] != 96:
            answers.append(raw.receive())
        return [answer[1] if answer[0] == 97 else answer[0] for answer in answers]

    assert answers_until_the_login()[0] == "not_logged_in"
    raw.send(65)
    assert raw.receive()[0] == 100
    answers = answers_until_the_login()
    assert answers[0] == "not_logged_in", "a login begins anew"
    assert len(answers) < 30, "two, unless the machine is busy"
    raw.send(66, 7)
    assert raw.receive()[:2] == [98, 7]
    raw.send(65)
    assert raw.receive()[0] == 100
    raw.send(66, 8)
    assert raw.receive()[1] == "not_logged_in"
    hello = msgpack.packb([64, 1, 1, "once", "", -1, {}])
    raw.socket.send(b"\xdc\x00" + bytes([hello[0] & 0x0F]) + hello[1:])
    assert raw.receive()[0] == 96, "an array with a longer header is a HELLO too"


def test_a_connection_that_floods_before_a_login_is_closed(raw: RawClient) -> None:
    """It was closed only after its messages had taken the exchange 20 ms, which with large ones delayed the orders of others."""
    for command_id in range(1, 1001):
        raw.send(1, command_id, 0, 0, 10, 100, 1, 0, 0)
    assert raw.receive()[1] == "not_logged_in"
    goodbye = raw.receive(100)
    assert goodbye[1] == "rate"
    assert "send HELLO first" in goodbye[2]


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ([1, 1, 0, 0, 10, 100.5, 1, 0, 0], "malformed"),
        ([1, 1, 0, 0, 10, "100", 1, 0, 0], "malformed"),
        ([1, 1, 0, 0, 10, 100], "malformed"),
        ([1, 0, 0, 0, 10, 100, 1, 0, 0], "malformed"),
        ([1, 1, 70_000, 0, 10, 100, 1, 0, 0], "malformed"),
        ([32, b"abc"], "malformed"),
        ([32, b""], "malformed"),
        ([32, np.zeros(2, COMMAND).tobytes()], "malformed"),
        ([67, 5], "clock"),
        ([200], "malformed"),
    ],
)
def test_malformed_messages_after_login_change_nothing(raw: RawClient, message: list[Any], code: str) -> None:
    welcome = raw.login("malformed", replace=True)
    raw.send(*message)
    assert raw.receive(97)[1] == code
    raw.send(65)
    raw.receive(100)
    assert raw.login("malformed")[4:6] == welcome[4:6]
    raw.send(65)


def test_extra_frames_cannot_impersonate_another_client(raw: RawClient) -> None:
    raw.socket.send_multipart([msgpack.packb([66, 1]), b"\0abcd", msgpack.packb([66, 2])])
    assert raw.receive(97)[1] == "malformed"


@pytest.mark.parametrize(
    ("order", "reason"),
    [
        ([9, 0, 10, 100], 2),
        ([0, 0, 0, 100], 4),
        ([0, 0, -5, 100], 4),
        ([0, 0, 2**40, 100], 4),
        ([0, 0, 1, 0], 5),
        ([0, 7, 1, 5], 3),
    ],
)
def test_invalid_orders_are_rejected_with_a_reason(raw: RawClient, order: list[int], reason: int) -> None:
    first = raw.login("wrong", replace=True)[5] + 1
    raw.send(1, first, *order, 1, 0, 0)
    event = raw.receive(80)[2][0]
    assert (event[0], event[2], event[10]) == (2, first, reason)


def test_an_order_of_another_participant_is_unknown(exchange: Served) -> None:
    with connect(exchange.endpoint, "owner") as owner, connect(exchange.endpoint, "thief") as thief:
        order = owner.buy("GOOG", 5, 50)
        thief.session.next_command_id += order.order_id
        with pytest.raises(ValueError, match="UNKNOWN_ORDER"):
            thief.cancel(order)
        owner.cancel(order)


def test_a_duplicate_login_is_refused_unless_it_replaces(exchange: Served) -> None:
    one, two = RawClient(exchange.endpoint), RawClient(exchange.endpoint)
    one.login("twin")
    assert two.login("twin")[1] == "duplicate_login"
    assert two.login("twin", replace=True)[0] == 96
    assert one.receive(100)[1] == "replaced"
    one.close()
    two.close()


def test_a_duplicate_command_is_answered_twice_and_executed_once(raw: RawClient, exchange: Served) -> None:
    first = raw.login("twice", replace=True)[5] + 1
    raw.send(1, first, 1, 0, 7, 60, 1, 0, 0)
    answer = raw.receive(80)
    raw.send(1, first, 1, 0, 7, 60, 1, 0, 0)
    assert raw.receive(82) == [82, first, answer[1], answer[2]]
    rows = np.zeros(2, COMMAND)
    rows["command_id"], rows["kind"], rows["symbol"], rows["order_id"] = [first, first + 1], [1, 2], 1, first
    raw.socket.send(msgpack.packb([32, rows.tobytes()]))
    answers = sorted(raw.receive(80, 82) for _ in range(2))  # new orders may go before stored reports
    assert [each[0] for each in answers] == [80, 82] and answers[1][1] == first
    event = answers[0][2][0]
    assert (event[0], event[2], event[3]) == (4, first + 1, first)
    with connect(exchange.endpoint, "looker") as looker:
        assert (60, 7, 1) not in looker.book("GOOG", 0)[0]


def test_missed_reports_are_resent_after_reconnecting(exchange: Served) -> None:
    one = RawClient(exchange.endpoint)
    first = one.login("returns")[5] + 1
    one.send(1, first, 1, 0, 7, 61, 1, 0, 0)
    seen = one.receive(80)[1]
    one.send(65)
    one.receive(100)
    with connect(exchange.endpoint, "taker") as taker:
        taker.sell("GOOG", 7, 61)
    assert one.login("returns", last_report=seen)[4] == seen + 1
    missed = one.receive(80)
    assert missed[1] == seen + 1
    assert missed[2][0][0] == 3
    assert one.login("returns")[1] == "duplicate_login"
    one.close()


def test_cancel_on_disconnect(exchange: Served) -> None:
    with connect(exchange.endpoint, "careful", cancel_on_disconnect=True) as careful:
        careful.buy("GOOG", 3, 44)
    with connect(exchange.endpoint, "looker2") as looker:
        while (44, 3, 1) in looker.book("GOOG", 0)[0]:
            looker.wait(0.01)


def test_a_followed_book_equals_the_snapshot(exchange: Served) -> None:
    with connect(exchange.endpoint, "maker") as maker, connect(exchange.endpoint, "watcher") as watcher:
        heard = set[str]()
        watcher.subscribe("l2", "AMZN")
        watcher.subscribe("l3", "AMZN")
        while len(heard) < 2:  # what happens before a subscription counts shows as a gap
            maker.cancel(maker.buy("AMZN", 1, 1))
            item = watcher.wait(0.05)
            if isinstance(item, FeedMessage):
                heard.add(item.topic)
        l2, l3 = watcher.follow("AMZN"), watcher.follow("AMZN", "l3")
        orders = [maker.buy("AMZN", 1 + index, 100 - index) for index in range(20)]
        maker.replace(orders[0], 5, 90)
        maker.cancel(orders[1])
        maker.sell("AMZN", 30, 95)
        wanted = maker.book("AMZN", 0)
        while (l2.levels(0), l2.levels(1)) != wanted or (l3.levels(0), l3.levels(1)) != wanted:
            watcher.wait(0.05)
            assert not (l2.gaps or l3.gaps)
        maker.mass_cancel()


def test_tokens_are_required(tmp_path: Path) -> None:
    config: dict[str, object] = {"login": {"tokens": {"alice": "secret", "root": "key"}, "operators": ["root"]}}
    with start_exchange(config=config, folder=tmp_path) as served:
        raw = RawClient(served.endpoint)
        assert raw.login("alice")[1] == "login"
        for token in ("", "\0"):
            raw.send(64, 1, 1, "stranger", token, -1, {})
            assert raw.receive(96, 97)[1] == "login"
        raw.send(64, 1, 1, "alice", "secret", -1, {})
        welcome = raw.receive(96)
        assert welcome[9] is False
        raw.send(17, 1, 0, 0)
        assert raw.receive(80)[2][0][10] == 11
        admin = RawClient(served.endpoint, "admin")
        admin.send(160, 1, "secret")
        assert admin.receive(97)[1] == "not_permitted"
        raw.close()
        admin.close()


def test_curve_keeps_strangers_out(tmp_path: Path) -> None:
    new_keys(tmp_path / "keys")
    with start_exchange(config={"login": {"curve_keys": str(tmp_path / "keys")}}, folder=tmp_path) as served:
        with connect(served.endpoint, "friend", curve=tmp_path / "keys") as friend:
            assert friend.buy("AMZN", 1, 10).state == "open"
        stranger = RawClient(served.endpoint)
        stranger.send(64, 1, 1, "stranger", "", -1, {})
        assert stranger.socket.poll(1000) == 0
        stranger.close()
        for words in (["status"], ["account", "friend"], ["stop"]):
            assert "--curve" in serl(served, *words)
            answered = serl(served, *words, "--curve", str(tmp_path / "keys"))
            assert "no exchange answers" not in answered and "error:" not in answered, answered
        served.process.wait(20)


def serl(served: Served, command: str, *words: str) -> str:
    """The output of a `serl exchange` command."""
    line = [sys.executable, "-m", "serl", "exchange", command, *words, "--connect", served.endpoint]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=60)
    return done.stdout + done.stderr


def test_a_port_in_use_is_named(exchange: Served) -> None:
    with pytest.raises(
        AssertionError,
        match=r"cannot be bound: Address already in use( by \w+ \(process \d+\))?; .*--endpoint tcp://127.0.0.1:\d{5}, which is free",
    ):
        launch("--symbols", "A", endpoint=exchange.endpoint)


def test_a_public_address_needs_keys() -> None:
    with pytest.raises(AssertionError, match="serl keys new"):
        launch("--symbols", "A", endpoint="tcp://0.0.0.0:45670")


@pytest.mark.parametrize("first", [0, 1])
def test_lockstep_executes_by_arrival_time_not_by_sending_order(first: int, tmp_path: Path) -> None:
    config: dict[str, object] = {"clock": {"participants": 2}}
    with start_exchange(clock="lockstep", config=config, folder=tmp_path) as served:
        a, b = RawClient(served.endpoint), RawClient(served.endpoint)
        a.login("a")
        b.login("b")
        turns = [(a, 100, 10), (b, 99, 20)]
        for client, price, time_ns in turns if first == 0 else turns[::-1]:
            client.send(67, 5)
            client.send(1, 1, 0, 0, 1, price, 1, 0, time_ns)
        for client in (a, b):
            client.send(67, 1000)
        for client, _, time_ns in turns:
            assert client.receive(80)[2][0][1] == time_ns
            assert client.receive(101)[1] == 1000
        a.send(1, 2, 0, 0, 1, 5, 1, 0, 500)
        assert a.receive(97)[1] == "promise"
        queries = RawClient(served.endpoint, "queries")
        queries.send(130, 1, 0)
        assert [order[0] for order in queries.receive()[5]] == [1, 2]
        for client in (a, b, queries):
            client.close()
