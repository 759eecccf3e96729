"""A replay on a scaled clock goes as the clock goes: held, quicker, set ahead."""

import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from serl.clients.blocking import connect
from serl.clients.replay import Replayer
from serl.history.generate import OPEN_NS, SECOND_NS, generate_day
from tests.server_fixture import RawClient, start_exchange

SPAWN = multiprocessing.get_context("spawn")


def play(endpoint: str, answered: Any) -> None:
    """Replays half an hour."""
    replayer = Replayer(generate_day(5, end_ns=OPEN_NS + 1800 * SECOND_NS), endpoint)

    def tell(progress: Any) -> None:
        answered.value = progress.answered

    replayer.run(tell)


@contextmanager
def replaying(endpoint: str) -> Iterator[Any]:
    answered = SPAWN.Value("q", 0)
    process = SPAWN.Process(target=play, args=(endpoint, answered))
    process.start()
    try:
        yield answered
    finally:
        process.terminate()
        process.join()


def say(endpoint: str, kind: int, *values: Any) -> list[Any]:
    with RawClient(endpoint, "admin") as admin:
        admin.send(kind, 1, "", *values)
        reply = admin.receive()
        assert reply[0] == kind + 16, reply
        return reply


def grows(value: Any, seconds: float) -> int:
    before = value.value
    time.sleep(seconds)
    return int(value.value - before)


@pytest.mark.timeout(300)
def test_a_replay_follows_the_clock() -> None:
    with start_exchange(symbols="DEMO", clock="scaled:10") as served, replaying(served.endpoint) as answered:
        deadline = time.monotonic() + 120
        while grows(answered, 0.5) == 0:
            assert time.monotonic() < deadline, "the replay begins"
        say(served.endpoint, 161, -1, 0)
        time.sleep(1.0)
        assert grows(answered, 1.0) == 0, "held"
        say(served.endpoint, 161, -1, 1)
        slow = grows(answered, 2.0)
        assert slow > 0, "goes on"
        say(served.endpoint, 164, 60_000_000)
        time.sleep(0.5)
        assert grows(answered, 2.0) > 3 * slow, "six times as quick"
        before = answered.value
        now_ns = say(served.endpoint, 164, 1_000_000)[4]
        say(served.endpoint, 161, now_ns + 300 * SECOND_NS, 1)
        deadline = time.monotonic() + 10
        while answered.value < before + 1000:
            assert time.monotonic() < deadline, "what was due before the time it was set to is played at once"
            time.sleep(0.1)


def test_what_lies_before_the_beginning_is_not_waited_for() -> None:
    day = generate_day(5, end_ns=OPEN_NS + 900 * SECOND_NS)
    from_ns, to_ns = OPEN_NS + 600 * SECOND_NS, OPEN_NS + 602 * SECOND_NS
    with start_exchange(symbols="DEMO", clock="scaled:1") as served:
        replayer = Replayer(day, served.endpoint, from_ns=from_ns, to_ns=to_ns)
        began = time.monotonic()
        done = replayer.run(lambda progress: None)
        took_s = time.monotonic() - began
        replayer.close()
        assert done.answered == int((day.commands["time_ns"] <= to_ns).sum())
        assert 1 < took_s < 60, (
            "the two seconds after the beginning take as long as they did, the ten minutes before do not"
        )
        first_ns = served_trades(served.endpoint)[0][1]
        assert first_ns < day.commands["time_ns"][0] + 100 * SECOND_NS < from_ns, (
            "what lies before keeps out of the window"
        )


def served_trades(endpoint: str) -> list[list[int]]:
    with connect(endpoint, "onlooker") as client:
        return client.trades("DEMO", 10_000)
