"""The lockstep clock with clients that leave, err, or send too much: time goes on, and nobody acts for another."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest

from serl.exchange.config import load_config
from serl.exchange.errors import ConfigError
from serl.exchange.gateway.accept import END_NS
from serl.exchange.records import COMMAND, CommandFlag, EventKind, Reason, Term, TimeInForce
from tests.exchange.offline_exchange import SECOND_NS, exchange
from tests.exchange.test_limits import bulk
from tests.server_fixture import RawClient, Served, start_exchange

PROMISE, GRANT, REPORTS, ERROR, PING, PONG, BYE = 67, 101, 80, 97, 66, 98, 65
WEEK_NS = 7 * 86_400 * SECOND_NS
INTRADAY = {"auction_every_s": 1, "day": [{"at": "00:00:01", "phase": "intraday"}]}


@contextmanager
def lockstep(
    folder: Path, *names: str, symbol: object = None, **config: object
) -> Iterator[tuple[Served, list[RawClient]]]:
    """An exchange with a lockstep clock, and a client for each name; those that begin with "+" ask for cancel on disconnect."""
    symbols = [{"name": "A", **(symbol if isinstance(symbol, dict) else {})}]
    with ExitStack() as stack:
        served = stack.enter_context(
            start_exchange(symbols="", clock="lockstep", config={"symbols": symbols, **config}, folder=folder)
        )
        clients = [stack.enter_context(RawClient(served.endpoint)) for _ in names]
        for name, client in zip(names, clients, strict=True):
            options = {"cancel_on_disconnect": True} if name.startswith("+") else {}
            assert client.login(name.removeprefix("+"), **options)[0] == 96
        yield served, clients


def buy(client: RawClient, command_id: int, time_ns: int, price_ticks: int = 50) -> None:
    client.send(1, command_id, 0, 0, 1, price_ticks, 1, 0, time_ns)


def start_turns(*clients: RawClient, time_ns: int = 100) -> None:
    """Each has its turn at a time, with a first promise before it so that nobody is left behind."""
    for client in clients:
        client.send(PROMISE, 0)
        client.send(PING, 0)
        client.receive(PONG)
    for client in clients:
        client.send(PROMISE, time_ns)
    for client in clients:
        while client.receive(GRANT)[1] < time_ns:
            pass


def bids(served: Served) -> list[Any]:
    with RawClient(served.endpoint, "queries") as queries:
        queries.send(129, 1, 0, 0)
        found: list[Any] = queries.receive()[5][0]
        return found


@pytest.mark.parametrize("cancels", [False, True])  # True: the login waits until the disk has the changed setting
def test_time_goes_on_without_a_session_that_was_replaced(cancels: bool, tmp_path: Path) -> None:
    with lockstep(tmp_path, "ann", "bob") as (served, (ann, bob)), RawClient(served.endpoint) as again:
        start_turns(ann, bob)
        bob.send(PROMISE, 200)
        bob.send(PING, 1)
        bob.receive(PONG)
        assert again.login("ann", replace=True, cancel_on_disconnect=cancels)[0] == 96
        assert ann.receive(100)[1] == "replaced"
        assert bob.receive(GRANT)[1] == 200


def test_a_disconnect_cancels_what_was_still_to_arrive(tmp_path: Path) -> None:
    with lockstep(tmp_path, "+ann", "bob") as (served, (ann, bob)):
        start_turns(ann, bob)
        buy(ann, 1, 150)
        buy(ann, 2, 160, 51)
        buy(bob, 1, 170, 40)
        ann.send(BYE)
        ann.receive(100)
        bob.send(PROMISE, 160)
        bob.receive(GRANT)
        assert bids(served) == [[50, 1, 1]], "the orders before its last one rest until that arrives"
        bob.send(PROMISE, 1000)
        bob.receive(GRANT)
        assert bids(served) == [[40, 1, 1]]


def test_who_has_commands_on_their_way_keeps_the_number(tmp_path: Path) -> None:
    with (
        lockstep(tmp_path, "ann", "bob", limits={"participants_max": 4}) as (served, (ann, bob)),
        ExitStack() as stack,
    ):
        start_turns(ann, bob)
        buy(ann, 7, 150)
        ann.send(BYE)
        ann.receive(100)
        others = [stack.enter_context(RawClient(served.endpoint)) for _ in range(3)]
        codes = [client.login(f"other{number}")[:2] for number, client in enumerate(others)]
        assert codes[-1] == [ERROR, "login"]
        assert ann.login("ann")[5] == 7, "the next command of hers has another id"
        bob.send(PROMISE, 1000)
        assert ann.receive(REPORTS)[2][0][2] == 7


def test_a_resent_command_is_executed_once_and_answered_again(tmp_path: Path) -> None:
    rows = np.frombuffer(msgpack.unpackb(bulk(1, 3, 50))[1], COMMAND).copy()
    rows["time_ns"] = 300
    with lockstep(tmp_path, "ann") as (served, (ann,)):
        ann.send(PROMISE, 0)
        ann.receive(GRANT)
        buy(ann, 1, 10)
        buy(ann, 1, 20)
        ann.send(PROMISE, 100)
        assert [event[:3:2] for event in ann.receive(REPORTS)[2]] == [[EventKind.ACCEPTED, 1]]
        ann.receive(GRANT)
        buy(ann, 1, 10)  # before the promise: it is not executed again, so its time does not matter
        assert ann.receive()[:2] == [82, 1]
        ann.send(32, rows.tobytes())
        assert ann.receive()[:2] == [82, 1]
        ann.send(PROMISE, 1000)
        assert [event[:3:2] for event in ann.receive(REPORTS)[2]] == [[1, 2], [1, 3]]
        assert bids(served) == [[50, 3, 3]]


def test_a_time_of_another_clock_is_refused(tmp_path: Path) -> None:
    """Unless it is refused, the clock is there for good, as long as nobody else has promised anything."""
    rows = np.frombuffer(msgpack.unpackb(bulk(2, 2, 50))[1], COMMAND).copy()
    rows["time_ns"] = [5, WEEK_NS + 6]
    with lockstep(tmp_path, "ann", "bob") as (_, (ann, bob)):
        for refused in ([1, 1, 0, 0, 1, 50, 1, 0, time.time_ns()], [PROMISE, time.time_ns()], [32, rows.tobytes()]):
            ann.send(*refused)
            code, text = ann.receive(ERROR)[1:]
            assert code == "promise" and "lockstep_ahead_s_max" in text
        buy(ann, 1, WEEK_NS)
        assert ann.receive(REPORTS)[2][0][1] == WEEK_NS
        bob.send(PROMISE, 2 * WEEK_NS + 1)
        assert bob.receive(ERROR)[1] == "promise"
        bob.send(PROMISE, WEEK_NS + 1)
        assert bob.receive(GRANT)[1] == WEEK_NS + 1
        bob.send(PROMISE, END_NS)
        bob.send(PING, 1)
        assert bob.receive()[0] == PONG, "who is done promises the end"


def test_many_scheduled_commands_keep_nobody_waiting(tmp_path: Path) -> None:
    with lockstep(tmp_path, "ann", "bob", symbol=INTRADAY) as (served, (ann, bob)):
        ann.send(PROMISE, WEEK_NS)
        slowest_s = 0.0
        for number in range(5):
            began_s = time.monotonic()
            bob.send(PING, number)
            bob.receive(PONG)
            slowest_s = max(slowest_s, time.monotonic() - began_s)
        served.kill()
    assert slowest_s < 1.0, "a week of auctions each second takes longer"


def test_time_goes_on_to_the_promise_after_many_scheduled_commands(tmp_path: Path) -> None:
    with lockstep(tmp_path, "ann", "bob", symbol=INTRADAY) as (_, (ann, bob)):
        start_turns(ann, bob)
        buy(bob, 1, 1500 * SECOND_NS + 1)
        buy(ann, 1, 1500 * SECOND_NS + 1, 51)
        for client in (ann, bob):
            client.send(PROMISE, 2000 * SECOND_NS)
        for client in (ann, bob):
            assert client.receive(REPORTS)[2][0][1] == 1500 * SECOND_NS + 1
            assert client.receive(GRANT)[1] == 2000 * SECOND_NS
        for client in (ann, bob):
            client.send(PROMISE, END_NS)


def test_the_schedule_stops_after_a_number_of_commands_and_goes_on(tmp_path: Path) -> None:
    with exchange(tmp_path, 0, {"auction_every_s": 1}) as served:
        before: list[int] = []
        calls = 0
        while not served.schedule.run(100 * SECOND_NS, before.append, steps_max=7):
            calls += 1
            assert before[-1] == 7 * calls * SECOND_NS
        assert before == [second * SECOND_NS for second in range(1, 101)]
        assert calls == 14


@pytest.mark.parametrize("steps_s", [[60], pytest.param([2, 5, 60], marks=pytest.mark.long)])
def test_what_commands_make_due_comes_before_later_commands(steps_s: list[int], tmp_path: Path) -> None:
    """The end of an interruption and an expiry that begin among the commands of one step. Both came after all of them, or after the GRANT."""
    band = {"band_high_ticks": 105, "band_action": "auction", "volatility_s": 10}
    with lockstep(tmp_path, "ann", symbol=band) as (_, (ann,)):
        ann.send(PROMISE, 0)
        ann.receive(GRANT)
        ann.send(1, 1, 0, 1, 5, 106, 1, 0, 1)
        buy(ann, 2, SECOND_NS, 110)
        ann.send(6, 3, Term.EXPIRE_NS, 3 * SECOND_NS, 2 * SECOND_NS)
        ann.send(1, 4, 0, 0, 1, 90, TimeInForce.GTT, CommandFlag.TERMS, 2 * SECOND_NS)
        buy(ann, 5, 4 * SECOND_NS)
        for step_s in steps_s:
            ann.send(PROMISE, step_s * SECOND_NS)
        events, granted_ns = [], 0
        while granted_ns < 60 * SECOND_NS:
            message = ann.receive(REPORTS, GRANT)
            if message[0] == GRANT:
                granted_ns = message[1]
            else:
                events += [(event[0], event[1] / SECOND_NS) for event in message[2]]
    assert events[-5:] == [
        (EventKind.ACCEPTED, 2),
        (EventKind.CANCELLED, 3),
        (EventKind.ACCEPTED, 4),
        (EventKind.FILL, 11),
        (EventKind.FILL, 11),
    ]


@pytest.mark.parametrize("clock", ["lockstep", "live"])
def test_one_participant_does_not_take_the_room_of_all(clock: str, tmp_path: Path) -> None:
    limits = {"staged_rows_max": 4096, "staged_rows_per_participant_max": 1024}
    latency = {} if clock == "lockstep" else {"latency": {"orders": {"kind": "constant", "delay_us": 1e9}}}
    config: dict[str, object] = {"symbols": [{"name": "A"}], "limits": limits, **latency}
    with (
        start_exchange(symbols="", clock=clock, config=config, folder=tmp_path) as served,
        RawClient(served.endpoint) as evil,
        RawClient(served.endpoint) as ann,
    ):
        evil.login("evil"), ann.login("ann")
        ann.send(PROMISE, 0)
        ann.receive(GRANT, ERROR)  # ERROR without a lockstep clock
        for part in range(4):
            evil.socket.send(bulk(1 + 1000 * part, 1000, 50))
        code, text = evil.receive(ERROR)[1:]
        assert code == "throttled" and "staged_rows_per_participant_max" in text
        evil.send(BYE)
        evil.receive(100)
        ann.socket.send(bulk(1, 1000, 60))
        ann.send(PING, 1)
        assert ann.receive()[0] == PONG
        if clock == "live":
            return
        ann.send(PROMISE, 10)
        answered = 0
        while answered < 1000:
            answered = ann.receive(REPORTS)[2][-1][2]
        evil.login("evil")
        evil.socket.send(bulk(5001, 1000, 50))
        evil.send(PING, 1)
        assert evil.receive(PONG, ERROR)[0] == PONG, "there is room again once they have arrived"


@pytest.mark.parametrize("clock", ["lockstep", "live"])
def test_many_participants_together_leave_the_others_room(clock: str, tmp_path: Path) -> None:
    """Of 8,192 rows a quarter is reserved, 128 for each of 16 participants; eight others want 1,024 each, which is all."""
    limits = {"staged_rows_max": 8192, "staged_rows_per_participant_max": 1024, "participants_max": 16}
    latency = {} if clock == "lockstep" else {"latency": {"orders": {"kind": "constant", "delay_us": 1e9}}}
    config: dict[str, object] = {"symbols": [{"name": "A"}], "limits": limits, **latency}
    with ExitStack() as stack:
        served = stack.enter_context(start_exchange(symbols="", clock=clock, config=config, folder=tmp_path))
        ann, *many = [stack.enter_context(RawClient(served.endpoint)) for _ in range(9)]
        ann.login("ann")
        ann.send(PROMISE, 0)
        ann.receive(GRANT, ERROR)  # ERROR without a lockstep clock
        answers = []
        for number, evil in enumerate(many):
            evil.login(f"evil{number}")
            for part in range(8):
                evil.socket.send(bulk(1 + 128 * part, 128, 50))
            evil.send(PING, 1)
            answers.append(evil.receive(ERROR, PONG))
        for part in range(2):
            ann.socket.send(bulk(1 + 64 * part, 64, 60))
        ann.send(PING, 1)
        assert ann.receive()[0] == PONG, "her 128 rows wait"
        assert [answer[0] for answer in answers] == [PONG] * 6 + [ERROR] * 2
        assert answers[-1][1] == "throttled" and "128 are reserved for each participant" in answers[-1][2]
        ann.socket.send(bulk(129, 64, 60))
        assert ann.receive()[:2] == [ERROR, "throttled"]
        if clock == "live":
            return
        for one in many:
            one.send(BYE)
        ann.send(PROMISE, 10)
        answered = 0
        while answered < 128:
            answered = ann.receive(REPORTS)[2][-1][2]
        many[0].login("evil0")
        many[0].socket.send(bulk(5001, 1000, 50))
        many[0].send(PING, 1)
        assert many[0].receive(PONG, ERROR)[0] == PONG, "all of it is free again"


def test_a_bulk_message_fits_into_a_participants_room() -> None:
    limits = {"staged_rows_per_participant_max": 1024, "bulk_rows_max": 2000, "message_bytes_max": 1 << 18}
    with pytest.raises(ConfigError, match=r"limits.staged_rows_per_participant_max: expected at least 2000"):
        load_config(None, {"limits": limits})


def test_reasons_are_not_lost(tmp_path: Path) -> None:
    """A command whose number was used by one that the book rejected is a duplicate too."""
    with lockstep(tmp_path, "ann") as (_, (ann,)):
        ann.send(PROMISE, 0)
        ann.receive(GRANT)
        for command_id, order_id in ((3, 99), (3, 99)):
            ann.send(2, command_id, order_id, 5)
        ann.send(PROMISE, 10)
        (event,) = ann.receive(REPORTS)[2]
        assert (event[0], event[10]) == (EventKind.REJECTED, Reason.UNKNOWN_ORDER)
