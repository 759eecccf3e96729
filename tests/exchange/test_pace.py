"""A lockstep clock with a pace, which limits its speed."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from serl.clients.replay import set_clock
from serl.exchange.clock import CURRENT_TIME
from serl.exchange.config import load_config, time_of_day_ns
from serl.exchange.errors import ConfigError, SerlError
from serl.exchange.journal.stored import stored_paths, stored_rows
from serl.exchange.pace import CATCH_UP_NS, Pace
from serl.exchange.records import EVENT, Rows
from serl.exchange.request import request_socket
from serl.exchange.wire import Kind
from tests.server_fixture import RawClient, Served, start_exchange

SECOND_NS = 1_000_000_000
OPEN_NS = time_of_day_ns("09:30")


@pytest.fixture
def monotonic_clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The monotonic clock, which stands still until the test sets it."""
    now = [7 * SECOND_NS]
    monkeypatch.setattr("serl.exchange.pace.time.monotonic_ns", lambda: now[0])
    return now


def test_pace_follows_speed_hold_and_speed_changes(monotonic_clock: list[int]) -> None:
    pace = Pace(OPEN_NS, 30.0, held=False)
    monotonic_clock[0] += SECOND_NS
    assert pace.limit_ns() == OPEN_NS + 30 * SECOND_NS
    assert pace.wall_ns_until(OPEN_NS + 60 * SECOND_NS) == SECOND_NS
    pace.set_speed(2.0)
    monotonic_clock[0] += SECOND_NS
    assert pace.limit_ns() == OPEN_NS + 32 * SECOND_NS
    pace.set(OPEN_NS + 32 * SECOND_NS, run=False)
    monotonic_clock[0] += SECOND_NS
    assert pace.limit_ns() == OPEN_NS + 32 * SECOND_NS
    assert pace.wall_ns_until(OPEN_NS + 33 * SECOND_NS) == math.inf
    assert pace.wall_ns_until(OPEN_NS) == 0


def test_only_a_short_lag_is_recovered(monotonic_clock: list[int]) -> None:
    pace = Pace(OPEN_NS, 30.0, held=False)
    monotonic_clock[0] += CATCH_UP_NS // 2
    pace.limit_catch_up(OPEN_NS)
    assert pace.limit_ns() == OPEN_NS + 15 * CATCH_UP_NS, "a short lag is recovered"
    monotonic_clock[0] += 60 * SECOND_NS
    pace.limit_catch_up(OPEN_NS)
    assert pace.limit_ns() == OPEN_NS + 30 * CATCH_UP_NS
    pace.set(OPEN_NS + 3600 * SECOND_NS, run=True)
    pace.limit_catch_up(OPEN_NS)
    assert pace.limit_ns() == OPEN_NS + 3600 * SECOND_NS, "before the time that it was set to there is no lag"


@contextmanager
def paced(folder: Path, clock: str, **more: object) -> Iterator[Served]:
    config: dict[str, object] = {"clock": {"start": "09:30", "participants": 2, **more}}
    with start_exchange(clock=clock, config=config, folder=folder, journal=folder / "journal") as served:
        yield served


@contextmanager
def two(served: Served) -> Iterator[tuple[RawClient, RawClient]]:
    with RawClient(served.endpoint) as a, RawClient(served.endpoint) as b:
        a.login("a")
        b.login("b")
        yield a, b


def market_ns(served: Served) -> int:
    with request_socket(served.endpoint, "queries") as ask:
        return int(ask(Kind.INFO)[4])


def play(a: RawClient, b: RawClient, turns: int) -> None:
    """Buys trade with sells ten times per second; a sends long before its orders arrive, b just in time."""
    times = [OPEN_NS + number * SECOND_NS // 10 for number in range(1, turns + 1)]
    for number, time_ns in enumerate(times, 1):
        a.send(1, number, 0, 0, 3, 100 + number % 3, 1, 0, time_ns)
    a.send(67, times[-1] + SECOND_NS)
    b.send(67, times[0])
    for number, time_ns in enumerate(times, 1):
        assert b.receive(101)[1] == time_ns
        b.send(1, number, 0, 1, 2, 100 + number % 2, 1, 0, time_ns + 5)
        b.send(67, time_ns + SECOND_NS // 10)
    b.receive(101)


def events(folder: Path) -> Rows:
    rows = np.concatenate([stored_rows(path, EVENT)[:] for path in stored_paths(folder / "journal", "events")])
    return rows[rows["sequence"] > 0]


def test_a_pace_changes_the_duration_but_not_the_tape(tmp_path: Path) -> None:
    tapes, elapsed_s = [], []
    for clock in ("lockstep", "lockstep:2"):
        folder = tmp_path / clock.replace(":", "-")
        folder.mkdir()
        with paced(folder, clock) as served, two(served) as (a, b):
            began = time.monotonic()
            play(a, b, 20)
            elapsed_s.append(time.monotonic() - began)
            served.stop()
        tapes.append(events(folder))
    assert len(tapes[0]) > 60
    np.testing.assert_array_equal(tapes[0], tapes[1])
    assert elapsed_s[0] < 0.7
    min_s = 2.1 / 2 - CATCH_UP_NS * 1e-9
    assert min_s < elapsed_s[1] < min_s + 2, "2.1 s of the market at twice the speed"


def test_time_advances_evenly_between_two_grants(tmp_path: Path) -> None:
    with paced(tmp_path, "lockstep:10") as served, two(served) as (a, b):
        for one in (a, b):
            one.send(67, OPEN_NS + 3600 * SECOND_NS)
        time.sleep(0.5)
        first_ns, began_s = market_ns(served), time.monotonic()
        time.sleep(1.5)
        speed = (market_ns(served) - first_ns) / (time.monotonic() - began_s) * 1e-9
        assert speed == pytest.approx(10, rel=0.2)


def test_a_paced_clock_is_held_resumed_sped_up_and_set(tmp_path: Path) -> None:
    with paced(tmp_path, "lockstep:10", held=True) as served, two(served) as (a, b):
        for one in (a, b):
            one.send(67, OPEN_NS + 3600 * SECOND_NS)
        time.sleep(0.3)
        assert market_ns(served) == OPEN_NS
        set_clock(served.endpoint, "", CURRENT_TIME, run=True)
        time.sleep(0.3)
        set_clock(served.endpoint, "", CURRENT_TIME, run=False)
        held_ns = market_ns(served)
        assert held_ns > OPEN_NS + SECOND_NS
        time.sleep(0.3)
        assert market_ns(served) == held_ns
        target_ns = OPEN_NS + 1800 * SECOND_NS
        set_clock(served.endpoint, "", target_ns, run=False)
        time.sleep(0.3)
        assert market_ns(served) == target_ns
        with request_socket(served.endpoint, "admin") as ask:
            ask(Kind.SPEED, "", 100_000 * 1_000_000)
        set_clock(served.endpoint, "", CURRENT_TIME, run=True)
        assert a.receive(101)[1] == OPEN_NS + 3600 * SECOND_NS
        with pytest.raises(SerlError, match="time cannot go back"):
            set_clock(served.endpoint, "", OPEN_NS, run=True)


def test_a_lockstep_clock_without_a_pace_can_be_neither_held_nor_set(tmp_path: Path) -> None:
    with paced(tmp_path, "lockstep") as served, pytest.raises(SerlError, match="a lockstep clock with a speed"):
        set_clock(served.endpoint, "", CURRENT_TIME, run=False)
    with pytest.raises(ConfigError, match="lockstep:30"):
        load_config(None, {"clock": {"kind": "lockstep", "held": True}})
