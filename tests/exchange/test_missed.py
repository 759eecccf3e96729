"""Missed reports are found wherever they are stored, by a thread: nobody else waits for them."""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
import yaml

from serl.exchange.budget import Budget
from serl.exchange.catch_up import CatchUp
from serl.exchange.config import load_config
from serl.exchange.core import Core
from serl.exchange.gateway.state import LIVE
from serl.exchange.journal import missed
from serl.exchange.journal.checked_json import damaged
from serl.exchange.journal.event_store import EventStore
from serl.exchange.journal.unreadable import readable
from serl.exchange.outbound import REPORTS_MAX, DelayedReports
from serl.exchange.records import COMMAND, Rows, TimeInForce
from serl.exchange.wire import Kind, RequestError
from tests.exchange.missed import missed_reports
from tests.exchange.test_limits import bulk, limited
from tests.server_fixture import RawClient, launch

PARTICIPANTS, SEGMENT_ROWS = 5, 8192
SLOW_FILES = """
import time
from serl.exchange.journal.event_store import EventStore
in_files, pauses = EventStore.in_files, [1.0]
def slowly(self, before):
    time.sleep(pauses.pop() if pauses else 0.0)
    yield from in_files(self, before)
EventStore.in_files = slowly
"""

NO_BURST = "from serl.exchange import budget; budget.BURST_S = 0.0"
"""An exchange in which nothing that waits for its share is done at once."""


def orders(first: int, count: int) -> Rows:
    """Orders of participants that are chosen at random, so often that each has one event; the ids of all increase together."""
    rows = np.zeros(count, COMMAND)
    rows["kind"], rows["qty_lots"], rows["price_ticks"], rows["time_in_force"] = 1, 1, 100, TimeInForce.IOC
    rows["participant"] = np.random.default_rng(first).integers(0, PARTICIPANTS, count)
    rows["command_id"] = rows["time_ns"] = np.arange(first, first + count)
    return rows


def trade(core: Core, first: int, count: int) -> None:
    """Executes orders, and writes what is finished to its files."""
    core.submit(orders(first, count))
    core.journal.write_events(core.gateway)


@pytest.fixture
def core(tmp_path: Path) -> Core:
    settings = {"symbols": [{"name": "A"}], "journal": {"segment_rows": SEGMENT_ROWS}}
    core = Core(load_config(overrides=settings), tmp_path / "journal")
    trade(core, 1, 60_000)
    return core


def check(core: Core, participant: int, after: int) -> None:
    found, last = missed_reports(core, participant, after), int(core.market.state.report[participant])
    assert found is not None and found["report"].tolist() == list(range(after + 1, last + 1))
    assert (found["participant"] == participant).all()


@pytest.mark.parametrize("compressed", [False, True])
def test_missed_reports_are_found(core: Core, compressed: bool) -> None:
    folder = core.journal.folder
    if compressed:
        core.save_snapshot()
        core.journal.write_events(core.gateway)
        core.journal.close(core.gateway)
        subprocess.run([sys.executable, "-m", "serl", "journal", "compress", str(folder)], check=True)
        assert list(folder.glob("events-*.zrows"))
        core.journal.unlock()
        core = Core(core.config, folder)
    for participant in range(PARTICIPANTS):
        last = int(core.market.state.report[participant])
        for after in (last - 1, last - 1000, last // 2, 1, 0):
            check(core, participant, after)
    assert missed_reports(core, 0, 0, limit=100) is None, "too many"
    core.journal.unlock()


def test_reports_that_are_no_longer_stored(core: Core) -> None:
    oldest = sorted(core.journal.folder.glob("events-*.rows"))[:2]
    for path in oldest:
        path.unlink()
    assert missed_reports(core, 0, 0) is None
    check(core, 0, int(core.market.state.report[0]) - 3000)
    core.journal.unlock()


def test_reports_with_a_gap_are_not_sent(core: Core) -> None:
    """As in a repaired journal, which lacks the files that were damaged."""
    last = int(core.market.state.report[0])
    sorted(core.journal.folder.glob("events-*.rows"))[4].unlink()
    for after in (0, 1000, 6500, 7000):
        assert missed_reports(core, 0, after) is None
    check(core, 0, last - 10_000)
    core.journal.unlock()


def test_what_was_found_stays_found(core: Core) -> None:
    """The only reports of a participant who has been away for long; their file is deleted while those of others are written."""
    rows = orders(60_001, 1)
    rows["participant"] = PARTICIPANTS
    core.submit(rows)
    trade(core, 60_002, 20_000)
    assert core.journal.missed.find(PARTICIPANTS, 0, core.gateway, 10**6) == (False, None)
    wait_until_read(core)
    searched = sorted(core.journal.folder.glob("events-*.rows"))[:-1]  # the last one is in memory
    trade(core, 80_002, 20_000)
    for path in searched:
        path.unlink()
    check(core, PARTICIPANTS, 0)
    core.journal.unlock()


def wait_until_read(core: Core) -> None:
    """Until no search is under way."""
    deadline_s = time.monotonic() + 10
    while not all(request.is_done for request in core.journal.missed._requests.values()):
        assert time.monotonic() < deadline_s


def test_trading_goes_on_meanwhile(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are finished between the search in files and that in memory, again and again."""
    after, first = int(core.market.state.report[3]) // 2, 60_001
    for _ in range(4):
        is_over, _ = core.journal.missed.find(3, after, core.gateway, 10**6)
        assert not is_over
        wait_until_read(core)
        trade(core, first, 20_000)
        first += 20_000
    check(core, 3, after)
    core.journal.unlock()


def test_many_who_wait_are_served_together(core: Core) -> None:
    asked = [(participant, after) for participant in range(PARTICIPANTS) for after in range(0, 300, 20)]
    assert len(asked) > missed.KEPT_MAX > missed.PASS_MAX
    for participant, after in asked:
        core.journal.missed.find(participant, after, core.gateway, 10**6)
    for participant, after in asked:
        check(core, participant, after)
    assert not core.journal.missed._requests
    core.journal.unlock()


@pytest.mark.parametrize("cut", [False, True], ids=["", "beyond what is kept"])
def test_missed_reports_are_sent_in_parts(core: Core, cut: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A login with a million reports stopped the loop until all were sent. What happens meanwhile follows, and then the PONG."""
    sent: list[list[Any]] = []

    def send(route: int, message: bytes) -> bool:
        assert route == 9
        sent.append(msgpack.unpackb(message))
        return True

    kept_max = 3000 if cut else 10**6
    monkeypatch.setattr("serl.exchange.catch_up.ROWS_KEPT_MAX", kept_max)
    monkeypatch.setattr("serl.exchange.catch_up.QUIET_TURN_S_MAX", 1e-5)
    gateway, nothing_left = core.gateway, Budget(1e-9)
    nothing_left.spend(1.0)
    catch_up = CatchUp(core, DelayedReports(gateway, send), send, lambda: 0, 10**6)
    gateway.status[0], gateway.participant[0], gateway.route[0] = LIVE, 3, 9
    found = missed_reports(core, 3, 0)
    assert found is not None
    catch_up.begin(0, found, 0, None)
    assert catch_up.hold(0, 5)
    catch_up.send(True, nothing_left)
    assert len(sent) == 1 and catch_up.last_sent(0) == len(sent[0][2]) == REPORTS_MAX
    assert gateway.live_session[3] == -1
    trade(core, 60_001, 1000)
    while catch_up.is_waiting or catch_up.is_searching:
        catch_up.send(False, nothing_left)
        assert sum(len(behind.rows) for behind in catch_up._ring.values()) <= kept_max, "also of those read later"
    assert [message[0] for message in sent[-2:]] == [80, 98]
    assert gateway.live_session[3] == 0 and catch_up.last_sent(0) is None and not catch_up.hold(0, 6)
    numbers = [message[1] + place for message in sent[:-1] for place in range(len(message[2]))]
    assert numbers == list(range(1, int(core.market.state.report[3]) + 1))
    core.journal.unlock()


def test_a_participant_has_one_search(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks for other reports gives up the search before: its connection may be gone, and each may hold a million rows."""
    searched: list[int] = []
    read, begin = core.journal.missed._read, threading.Event()

    def counted(requests: list[Any]) -> None:
        begin.wait(10)
        searched.extend(request.after for request in requests)
        read(requests)

    monkeypatch.setattr(core.journal.missed, "_read", counted)
    for after in range(200):
        assert core.journal.missed.find(1, after, core.gateway, 10**6) == (False, None)
    begin.set()
    check(core, 1, 199)
    assert set(searched) <= {0, 199}, "the first may have begun already"
    core.journal.missed.find(2, 0, core.gateway, 10**6)
    core.journal.missed.forget(2)
    assert not core.journal.missed._requests
    core.journal.unlock()


def test_files_that_cannot_be_read_are_as_good_as_gone(
    core: Core, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The exchange needs them for nothing else, so it goes on."""

    def damaged_file(self: EventStore, before: int) -> Iterator[Any]:
        raise damaged(Path("events-000000000001.zrows"), "a chunk fails its check")

    monkeypatch.setattr(EventStore, "in_files", damaged_file)
    assert missed_reports(core, 0, 0) is None
    assert "events-000000000001.zrows: a chunk fails its check" in caplog.text
    assert "does not start" not in caplog.text
    with pytest.raises(RequestError, match="event 7 cannot be read"), readable("event 7"):
        raise damaged(Path("x"), "wrong")
    core.journal.unlock()


@pytest.mark.long
def test_others_trade_while_somebody_waits_for_slow_files(tmp_path: Path) -> None:
    path = tmp_path / "exchange.yaml"
    path.write_text(yaml.safe_dump({"symbols": [{"name": "A"}], "journal": {"segment_rows": SEGMENT_ROWS}}))
    exchange = launch("--config", str(path), prelude=SLOW_FILES)
    try:
        with RawClient(exchange.endpoint) as away, RawClient(exchange.endpoint) as other:
            away.login("away")
            rows = orders(1, 30_000)
            for first in range(0, len(rows), 1000):
                away.send(32, rows[first : first + 1000].tobytes())
                away.receive(Kind.REPORTS)
            other.login("other")
            with RawClient(exchange.endpoint) as back:
                back.send(64, 1, 1, "away", "", 10, {"replace": True})
                slowest_s, began_s, number = 0.0, time.monotonic(), 0
                while not back.socket.poll(0):
                    assert time.monotonic() - began_s < 20
                    number, sent_s = number + 1, time.monotonic()
                    other.send(1, number, 0, 0, 1, 100, 1, 0, 0)
                    other.receive(Kind.REPORTS)
                    slowest_s = max(slowest_s, time.monotonic() - sent_s)
                assert time.monotonic() - began_s > 1.0 and slowest_s < 0.7
                assert back.receive(Kind.WELCOME)[4] == 11
                reports = back.receive(Kind.REPORTS)
                assert reports[1] == 11
    finally:
        exchange.stop()


def trade_for(honest: RawClient, seconds: float, ids: Iterator[int]) -> None:
    """Sends orders one after another, so that everything else waits for its share."""
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        honest.send(1, next(ids), 0, 0, 1, 100, 1, 0, 0)
        honest.receive(80)


def test_logins_with_many_missed_reports_wait_for_the_share(tmp_path: Path) -> None:
    """They look through all that happened. A client that logged in and out again and again stopped the loop."""
    with (
        limited(tmp_path, limits={"requests_share": 1e-6}, prelude=NO_BURST) as served,
        RawClient(served.endpoint) as raw,
        RawClient(served.endpoint) as honest,
    ):
        raw.login("back")
        raw.socket.send(bulk(1, 1000, 100))
        while raw.receive(80)[2][-1][2] < 1000:
            pass
        raw.send(65)
        raw.receive(100)
        honest.login("honest")
        ids = iter(range(1, 1_000_000))
        trade_for(honest, 0.3, ids)  # longer than a turn of the idle loop
        raw.send(66, 1)  # a stranger's message, which uses the share up
        trade_for(honest, 0.05, ids)
        assert raw.receive()[1] == "not_logged_in"
        raw.send(64, 1, 1, "back", "", 0, {})
        trade_for(honest, 0.05, ids)
        assert not raw.socket.poll(0)
        raw.send(64, 1, 1, "back", "", 990, {})
        trade_for(honest, 0.05, ids)
        assert raw.receive()[4] == 991, "few reports do not wait"
        assert raw.receive()[1] == 991
        raw.send(65)
        raw.receive(100)
        assert raw.login("back", last_report=0)[4] == 1, "without orders nobody waits"
        assert [raw.receive(80)[1] for _ in range(2)] == [1, 513]
