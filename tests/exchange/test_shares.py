"""What sources of work besides orders get of the exchange's time: counted with a clock that only the work moves."""

import socket
import time
from collections import Counter, deque
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import msgpack
import numpy as np
import pytest
import zmq

from serl.exchange import budget, connections, requests
from serl.exchange.budget import BURST_PERIODS_S, BURST_S, Budget, Charges, Shares
from serl.exchange.config import LimitsConfig
from serl.exchange.connections import Connections
from serl.exchange.gateway.state import new_gateway
from serl.exchange.open_sockets import COUNTS_BYTES, OPEN, open_sockets
from serl.exchange.peer import Peer, Refusals
from serl.exchange.requests import Requests
from serl.exchange.unauthenticated import (
    ADMISSION_S,
    ANSWERS_MIN,
    FLOOD_MESSAGES,
    FLOOD_WAIT_S,
    UnauthenticatedConnections,
)
from serl.exchange.unread_replies import UnreadReplies

PIECE_S, SHARE = 0.001, 0.05


class FakeTime:
    """Clocks that move when they are told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1000.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(budget, "processor_time_s", lambda: self.now_s)


def served_pieces(clock: FakeTime, shares: Shares, flooding: list[str], seconds: float) -> Counter[str]:
    """Pieces of work served while orders arrive each 0.1 ms and these sources always have more to do."""
    served: Counter[str] = Counter()
    end_s = clock.now_s + seconds
    while clock.now_s < end_s:
        shares.note_order()
        clock.now_s += 0.0001
        for name in flooding:
            if not shares.wait_s(name):
                clock.now_s += PIECE_S
                shares[name].spend(PIECE_S)
                served[name] += 1
    return served


def test_sources_that_flood_together_get_one_share(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, names = FakeTime(monkeypatch), ["unauthenticated", "queries", "admin", "feed"]
    shares = Shares(names, SHARE)
    served = served_pieces(clock, shares, names, 20.0)
    assert served.total() * PIECE_S <= 1.1 * (SHARE * 20.0 + len(names) * BURST_S)
    assert min(served.values()) > 0.7 * max(served.values()), "equal parts"


def test_a_source_alone_gets_the_whole_share(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeTime(monkeypatch)
    shares = Shares(["unauthenticated", "queries"], SHARE)
    assert served_pieces(clock, shares, ["queries"], 20.0)["queries"] * PIECE_S > 0.9 * SHARE * 20.0
    shares["queries"].spend(1.0)
    assert shares.wait_s("queries") == shares.waits_s()["queries"] > 10.0
    clock.now_s += 1.0
    assert not shares.are_limited, "without orders nobody waits"
    assert shares.wait_s("queries") == shares.waits_s()["queries"] == 0.0


def test_the_rest_of_a_turn_is_charged_to_those_it_served(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeTime(monkeypatch)
    names = ["unauthenticated", "queries", "admin"]
    shares = Shares(names, SHARE)
    shares.begin_turn()
    clock.now_s += 0.012
    shares["unauthenticated"].spend(0.001)
    shares["admin"].spend(0.002)
    shares.end_turn()
    assert [shares[name].spent_s for name in names] == pytest.approx([0.004, 0.0, 0.008]), "as much more as they took"
    shares.begin_turn()
    shares["queries"].spend(0.001)
    shares.end_turn()
    assert shares["queries"].spent_s == 0.001, "nothing is left to charge, nor to give back"


def test_work_that_nobody_waited_for_is_no_debt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of logins before the first order held back the next ones for as long as they would have taken in their share."""
    clock = FakeTime(monkeypatch)
    shares = Shares(["unauthenticated", "queries"], SHARE)
    shares["unauthenticated"].spend(1.0)
    shares.note_order()
    assert shares.wait_s("unauthenticated") == 0.0
    assert (
        served_pieces(clock, shares, ["unauthenticated"], 20.0)["unauthenticated"] * PIECE_S
        < 1.1 * SHARE * 20.0 + BURST_S
    )


def test_what_a_busy_machine_takes_away_is_not_charged() -> None:
    """Logins were charged for the time in which other processes ran, and hundreds of clients that came back at once waited for minutes."""
    shares = Shares(["unauthenticated", "queries"], SHARE)
    shares.begin_turn()
    time.sleep(0.2)  # as if the process did not run
    shares["unauthenticated"].spend(0.0001)
    shares.end_turn()
    assert shares["unauthenticated"].spent_s < 0.1


def test_no_wait_takes_nothing_of_what_a_source_has_earned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each message that was dropped would have taken the burst from those who log in."""
    FakeTime(monkeypatch)
    source = Budget(SHARE)
    source.hold(0.0)
    source.spend(BURST_S / 2)
    assert not source.wait_s(), "a burst is still allowed"
    source.hold(1.0)
    source.hold(0.5)
    assert source.wait_s() == pytest.approx(1.0)
    quiet = Budget(SHARE, is_limited=lambda: False)
    quiet.hold(1.0)
    assert not quiet.wait_s(), "without orders nobody waits"


def test_charges_grant_a_rate_and_a_burst(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, charges = FakeTime(monkeypatch), Charges(2.0)
    assert sum(charges.take(1) for _ in range(20)) == 2.0 * BURST_PERIODS_S, "a burst"
    clock.now_s += 4.0  # of its debt of 10, it earns 8
    assert not charges.take(1)
    clock.now_s += 2.0  # it has earned 4, and owes 3
    assert charges.take(1) and not charges.take(1)
    assert charges.take(2), "each key has its own"
    clock.now_s += 1000.0
    assert sum(charges.take(1, owes=False) for _ in range(20)) == 2.0 * BURST_PERIODS_S, "no more than a burst is saved"
    clock.now_s += 0.25
    assert charges.take(1, owes=False), "a refusal was not charged"
    assert all(Charges(0.0).take(1, 1e9) for _ in range(3)), "0: no limit"


def test_debts_are_remembered_however_many_keys_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flood of others made the exchange forget the debt of each key that had been silent for ten seconds."""
    clock, charges = FakeTime(monkeypatch), Charges(2.0)
    monkeypatch.setattr(budget, "TRACKED_MAX", 3)
    charges.take(1, 100.0)  # in debt for 45 s
    charges.take(2, 4.0)
    clock.now_s += 44.0
    for key in range(3, 7):
        charges.take(key)
    assert not charges.take(1)
    assert len(charges._charged) <= 5, "the second has earned what it used"


def test_unauthenticated_connections_get_few_answers_each_while_there_is_no_time() -> None:
    is_limited = [False]
    connections = UnauthenticatedConnections(new_gateway(LimitsConfig()), None, 1, 4, lambda: is_limited[0], Refusals())  # pyrefly: ignore[bad-argument-type]
    assert all(connections.may_be_answered(1) for _ in range(2 * ANSWERS_MIN))
    is_limited[0] = True
    answers = {route: sum(connections.may_be_answered(route) for _ in range(100)) for route in range(1, 4)}
    assert answers == {1: 0, 2: ANSWERS_MIN, 3: ANSWERS_MIN}
    connections.forget(1)
    assert not connections.may_be_answered(1), "it would be answered anyway again and again"
    is_limited[0] = False
    connections.forget(1)
    is_limited[0] = True
    assert connections.may_be_answered(1), "its participant paid"


def test_a_flood_while_connections_are_admitted_counts_when_all_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was forgotten: whoever flooded at once after each admission waited only every other time."""
    clock, gateway = FakeTime(monkeypatch), new_gateway(LimitsConfig())
    connections = UnauthenticatedConnections(gateway, None, 1, 4, lambda: True, Refusals())  # pyrefly: ignore[bad-argument-type]

    def flood(route: int) -> None:
        connections.mute(route, Peer("", "127.0.0.1", str(route), -1))
        gateway.muted_messages[gateway.muted_route == route] = FLOOD_MESSAGES
        connections.close_floods()

    flood(1)
    assert connections.flood_wait_s(0.0) == FLOOD_WAIT_S and connections.flood_wait_s(FLOOD_WAIT_S) == 0.0
    clock.now_s += FLOOD_WAIT_S / 2
    flood(2)  # it was admitted before; what it costs makes the wait longer
    assert connections.flood_wait_s(FLOOD_WAIT_S) == 0.0
    clock.now_s += FLOOD_WAIT_S - 0.001
    assert connections.flood_wait_s(0.001) == 0.0
    clock.now_s += 0.001
    assert connections.flood_wait_s(0.0) == 0.0, "all who wait are admitted"
    flood(3)
    clock.now_s += ADMISSION_S / 2
    assert connections.flood_wait_s(0.0) == 0.0
    clock.now_s += ADMISSION_S / 2 + 0.001
    assert connections.flood_wait_s(0.0) == FLOOD_WAIT_S
    clock.now_s += FLOOD_WAIT_S + ADMISSION_S
    assert connections.flood_wait_s(0.0) == 0.0, "waiting times do not add up"


def looks(clock: FakeTime, monkeypatch: pytest.MonkeyPatch, took_s: float, count: int) -> tuple[int, Refusals]:
    """How often `count` connections are looked at in ten seconds of a busy loop, if a look takes took_s."""
    seen = [0]

    def open_sockets(start: int, stop: int, *_: object) -> tuple[np.ndarray, int]:
        if start > 0:
            return np.zeros(0, OPEN), stop
        seen[0] += 1
        clock.now_s += took_s
        found = np.zeros(count, OPEN)
        found["descriptor"], found["port"] = np.arange(count) + 10, 5570
        return found, stop

    monkeypatch.setattr(connections, "open_sockets", open_sockets)
    refusals = Refusals()
    monkeypatch.setattr(connections, "processor_time_s", lambda: clock.now_s)
    watch = Connections([5570], 1000, 1 << 24, refusals, lambda seconds: None)
    end_s = clock.now_s + 10.0
    while clock.now_s < end_s:
        watch.check(lambda _since_ns: ((), ()), 0)
        clock.now_s += 0.0001
    return seen[0], refusals


def test_connections_are_counted_in_a_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeTime(monkeypatch)
    seen, _ = looks(clock, monkeypatch, 0.005, 900)
    assert seen * 0.005 <= 1.1 * connections.SHARE * 10.0
    seen, refusals = looks(clock, monkeypatch, 0.00001, 1005)
    assert seen <= 10.0 / connections.PERIOD_S + 1
    assert refusals.connections_closed == 5 * seen


def test_a_flood_delays_no_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flood that keeps libzmq's thread busy on the loop's processor makes a look last, not cost."""
    clock = FakeTime(monkeypatch)
    monkeypatch.setattr(connections, "processor_time_s", lambda: 0.0)

    def open_sockets(_start: int, stop: int, *_: object) -> tuple[np.ndarray, int]:
        clock.now_s += 0.005
        return np.zeros(0, OPEN), stop

    monkeypatch.setattr(connections, "open_sockets", open_sockets)
    watch = Connections([5570], 1000, 1 << 24, Refusals(), lambda seconds: None)
    for _ in range(100):  # after the first look of all descriptors, which has several parts
        watch.check(lambda _since_ns: ((), ()), 0)
        clock.now_s += 0.001
        assert watch.wait_s <= connections.PERIOD_S


def test_a_message_without_end_is_charged_to_unauthenticated_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, charged, closed = FakeTime(monkeypatch), list[float](), list[int]()
    found = np.zeros(1, OPEN)
    found["descriptor"], found["port"] = 10, 5571

    def open_sockets(start: int, stop: int, *_: object) -> tuple[np.ndarray, int]:
        return found if start == 0 else np.zeros(0, OPEN), stop

    monkeypatch.setattr(connections, "open_sockets", open_sockets)
    monkeypatch.setattr(connections, "_queued_bytes", lambda row: 0)
    monkeypatch.setattr(connections, "close_connection", lambda descriptor, port: closed.append(descriptor))
    refusals = Refusals()
    watch = Connections([5570, 5571], 1000, 1 << 24, refusals, charged.append)
    for _ in range(30):
        if closed:
            break
        refusals.heard.add(-1)  # somebody spoke whose descriptor is unknown: no excuse for this one
        found["received"] += 1 << 20
        watch.check(lambda _since_ns: ((), ()), 0)
        clock.now_s += connections.PERIOD_S
    assert charged == [pytest.approx(int(found["received"][0]) * connections.READ_BYTE_S)] and charged[0] > 0.012


class FakeQueries:
    """A ROUTER: requests arrive as [route, data], replies are collected with their routes."""

    def __init__(self) -> None:
        self.arrived: deque[Any] = deque()
        self.answered: list[bytes] = []

    def put(self, route: bytes) -> None:
        frame = SimpleNamespace(bytes=msgpack.packb([132, 1]), more=False, get=lambda name: "")
        self.arrived.extend((route, frame))

    def recv(self, *_flags: int, copy: bool = True) -> Any:
        del copy
        if not self.arrived:
            raise zmq.Again
        return self.arrived.popleft()

    def send_multipart(self, parts: list[bytes], _flags: int) -> None:
        self.answered.append(parts[0])


def test_who_asks_little_does_not_wait_for_those_who_ask_much(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, socket = FakeTime(monkeypatch), FakeQueries()
    monkeypatch.setattr(requests, "processor_time_s", lambda: clock.now_s)

    def reply(_message: list[Any], _peer: Peer) -> bytes:
        clock.now_s += 0.01
        return b""

    unread = UnreadReplies(1 << 20, lambda descriptor: None)
    answering = Requests(socket, reply, Budget(SHARE), Refusals(), unread)  # pyrefly: ignore[bad-argument-type]
    heavy = [bytes([number]) for number in range(30)]
    for route in heavy * 10:
        socket.put(route)
    while len(socket.answered) < 100:
        answering.answer(0.0)
    socket.put(b"light")
    while b"light" not in socket.answered:
        answering.answer(0.0)
    assert len(socket.answered) <= 102
    while len(socket.answered) < 301:
        answering.answer(0.0)
    assert Counter(socket.answered) == {**dict.fromkeys(heavy, 10), b"light": 1}
    assert not answering.is_waiting


def test_open_sockets_are_found_part_by_part() -> None:
    with ExitStack() as opened:
        listening = opened.enter_context(socket.create_server(("127.0.0.1", 0)))
        other = opened.enter_context(socket.create_server(("127.0.0.1", 0)))
        accepted = []
        for server in [other, *[listening] * 5, other]:
            sender = opened.enter_context(socket.create_connection(server.getsockname()))
            accepted.append(opened.enter_context(server.accept()[0]))
            sender.sendall(b"x" * len(accepted))
            accepted[-1].recv(1, socket.MSG_PEEK)
        port, stop, after, parts = listening.getsockname()[1], accepted[-1].fileno() + 1, 0, []
        while after < stop:
            part, after = open_sockets(after, stop, frozenset({port}), 2)
            parts.append(part)
        found = np.concatenate(parts)
        assert [len(part) for part in parts[:3]] == [2, 2, 1]
        assert found["descriptor"].tolist() == [each.fileno() for each in accepted[1:6]]
        if COUNTS_BYTES:
            assert found["received"].tolist() == [2, 3, 4, 5, 6]
