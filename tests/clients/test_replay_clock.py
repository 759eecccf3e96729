"""A replay follows a scaled clock that is paused, sped up and set ahead."""

import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from serl.clients.blocking import connect
from serl.clients.replay import Replayer
from serl.clients.values import Trade
from serl.exchange.config import local_operator_token
from serl.exchange.records import Rows
from serl.history.generate import OPEN_NS, SECOND_NS, generate_day
from tests.server_fixture import RawClient, start_exchange

SPAWN = multiprocessing.get_context("spawn")


def replay(endpoint: str, answered: Any) -> None:
    """Replays half an hour."""
    replayer = Replayer(generate_day(5, end_ns=OPEN_NS + 1800 * SECOND_NS), endpoint)

    def report(progress: Any) -> None:
        answered.value = progress.answered

    replayer.run(report)


@contextmanager
def replaying(endpoint: str) -> Iterator[Any]:
    answered = SPAWN.Value("q", 0)
    process = SPAWN.Process(target=replay, args=(endpoint, answered))
    process.start()
    try:
        yield answered
    finally:
        process.terminate()
        process.join()


def admin_request(endpoint: str, kind: int, *values: Any) -> list[Any]:
    with RawClient(endpoint, "admin") as admin:
        admin.send(kind, 1, local_operator_token(endpoint), *values)
        reply = admin.receive()
        assert reply[0] == kind + 16, reply
        return reply


def grows(value: Any, seconds: float) -> int:
    before = value.value
    time.sleep(seconds)
    return int(value.value - before)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_replay_follows_the_clock() -> None:
    with start_exchange(symbols="DEMO", clock="scaled:10") as served, replaying(served.endpoint) as answered:
        deadline = time.monotonic() + 120
        while grows(answered, 0.5) == 0:
            assert time.monotonic() < deadline, "the replay has not begun"
        admin_request(served.endpoint, 161, -1, 0)
        time.sleep(1.0)
        assert grows(answered, 1.0) == 0, "paused"
        admin_request(served.endpoint, 161, -1, 1)
        slow = grows(answered, 2.0)
        assert slow > 0, "running again"
        admin_request(served.endpoint, 164, 60_000_000)
        time.sleep(0.5)
        assert grows(answered, 2.0) > 3 * slow, "six times as fast"
        before = answered.value
        now_ns = admin_request(served.endpoint, 164, 1_000_000)[4]
        admin_request(served.endpoint, 161, now_ns + 300 * SECOND_NS, 1)
        deadline = time.monotonic() + 10
        while answered.value < before + 1000:
            assert time.monotonic() < deadline, "everything due before the new time is sent at once"
            time.sleep(0.1)


def test_commands_before_from_ns_are_sent_at_once() -> None:
    day = generate_day(5, end_ns=OPEN_NS + 900 * SECOND_NS)
    from_ns, to_ns = OPEN_NS + 600 * SECOND_NS, OPEN_NS + 602 * SECOND_NS
    with start_exchange(symbols="DEMO", clock="scaled:1") as served:
        replayer = Replayer(day, served.endpoint, from_ns=from_ns, to_ns=to_ns)
        started_s = time.monotonic()
        progress = replayer.run(lambda progress: None)
        took_s = time.monotonic() - started_s
        replayer.close()
        assert progress.answered == int((day.commands["time_ns"] <= to_ns).sum())
        assert 1 < took_s < 60, "the two seconds after from_ns take two seconds, the ten minutes before them do not"
        first_ns = served_trades(served.endpoint)[0].time_ns
        assert first_ns < day.commands["time_ns"][0] + 100 * SECOND_NS < from_ns, (
            "the trades before from_ns stay before the window"
        )


def served_trades(endpoint: str) -> list[Trade]:
    with connect(endpoint, "observer") as client:
        return client.trades("DEMO", 10_000)


def test_the_speed_counts_from_the_first_paced_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the earlier rows took was caught up with in a burst: at speed 10, ten seconds of market for each."""
    from_ns = OPEN_NS + 300 * SECOND_NS
    with start_exchange(symbols="DEMO") as served:
        replayer = Replayer(generate_day(5, end_ns=OPEN_NS + 600 * SECOND_NS), served.endpoint, 10.0, "", from_ns)
        send, paced = replayer._send, list[Rows]()

        def slowly(rows: Rows) -> None:
            time.sleep(0.1)
            send(rows)
            if rows["time_ns"][0] >= from_ns:
                paced.append(rows)
                raise InterruptedError

        monkeypatch.setattr(replayer, "_send", slowly)
        with pytest.raises(InterruptedError):
            replayer.run(lambda progress: None)
        replayer.close()
    assert paced[0]["time_ns"][-1] < paced[0]["time_ns"][0] + SECOND_NS // 2
