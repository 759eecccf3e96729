"""Sessions that missed reports get them in turn, then follow; what becomes of those that end, do not read, or cannot be served."""

from collections.abc import Iterator

import msgpack
import numpy as np
import pytest

from serl.exchange import catch_up as module
from serl.exchange.budget import Budget
from serl.exchange.catch_up import PINGS_MAX, CatchUp
from serl.exchange.config import load_config
from serl.exchange.core import Core
from serl.exchange.gateway.state import CLOCK_KIND, FREE, LIVE, LOCKSTEP_CLOCK, SLOW, SLOW_SESSIONS
from serl.exchange.latency import Constant, Delays
from serl.exchange.outbound import REPORTS_MAX, DelayedReports
from serl.exchange.records import EVENT
from serl.exchange.wire import Kind
from tests.exchange.missed import missed_reports
from tests.exchange.test_missed import trade

SESSIONS, NOTHING = 3, np.zeros(0, EVENT)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Core]:
    """Participants 0 to 2 have sessions and thousands of reports, the older ones in a file."""
    settings = {"symbols": [{"name": "A"}], "journal": {"segment_rows": 8192}}
    core = Core(load_config(overrides=settings), tmp_path_factory.mktemp("journal"))
    for first in (1, 7501, 15_001):
        trade(core, first, 7500)
    yield core
    core.journal.unlock()


class Sessions:
    """What is sent to sessions, by route: numbers of reports, and PONGs as their negative number."""

    def __init__(self, core: Core) -> None:
        self.core, self.sent, self.refused, self.order = core, dict[int, list[int]](), set[int](), list[int]()
        self.budget = Budget(1e-9)
        self.budget.spend(1.0)
        gateway = core.gateway
        gateway.clock[CLOCK_KIND] = 0
        gateway.live_session[:] = -1
        for slot in range(SESSIONS):
            gateway.status[slot], gateway.participant[slot], gateway.route[slot] = LIVE, slot, slot
        self.delayed = DelayedReports(gateway, self.send)
        self.catch_up = CatchUp(core, self.delayed, self.send, lambda: 0, 10**6)

    def send(self, route: int, message: bytes) -> bool:
        if route in self.refused:
            return False
        kind, number, reports = msgpack.unpackb(message)
        is_pong = kind == Kind.PONG
        self.order.append(route)
        self.sent.setdefault(route, []).extend([-number] if is_pong else range(number, number + len(reports)))
        return True

    def begin(self, slot: int, after: int = 0) -> None:
        missed = missed_reports(self.core, slot, after)
        assert missed is not None
        self.catch_up.begin(slot, missed, after, None)

    def finish(self) -> None:
        while self.catch_up.is_waiting or self.catch_up.is_searching:
            self.catch_up.send(False, self.budget)

    def last(self, slot: int) -> int:
        return int(self.core.market.state.report[slot])


@pytest.fixture
def sessions(stored: Core) -> Sessions:
    return Sessions(stored)


def test_each_session_has_its_turn(sessions: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where not all of their reports are kept."""
    monkeypatch.setattr(module, "ROWS_KEPT_MAX", 9000)
    for slot in range(SESSIONS):
        sessions.begin(slot)
        assert not sessions.catch_up.is_searching
    sessions.finish()
    assert sessions.order[:9] == [0, 1, 2] * 3
    assert [sessions.sent[slot] for slot in range(SESSIONS)] == [
        list(range(1, sessions.last(slot) + 1)) for slot in range(SESSIONS)
    ]
    assert sessions.core.gateway.live_session[:SESSIONS].tolist() == [0, 1, 2]


def test_a_session_without_missed_reports_follows_at_once(sessions: Sessions) -> None:
    sessions.catch_up.begin(0, NOTHING, sessions.last(0), None)
    assert sessions.core.gateway.live_session[0] == 0 and not sessions.sent and not sessions.catch_up.is_waiting
    sessions.begin(1, sessions.last(1) - REPORTS_MAX)
    assert sessions.core.gateway.live_session[1] == 1 and len(sessions.sent[1]) == REPORTS_MAX
    sessions.begin(2, sessions.last(2) - REPORTS_MAX - 1)
    assert sessions.core.gateway.live_session[2] == -1 and sessions.catch_up.last_sent(2) == sessions.last(2) - 1


def test_in_lockstep_all_come_at_once(sessions: Sessions) -> None:
    sessions.core.gateway.clock[CLOCK_KIND] = LOCKSTEP_CLOCK
    sessions.begin(0)
    assert len(sessions.sent[0]) == sessions.last(0) and not sessions.catch_up.is_waiting


def test_a_session_that_ends_is_forgotten(sessions: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    """So is the search for its next reports."""
    monkeypatch.setattr(module, "ROWS_KEPT_MAX", 600)
    sessions.begin(0)
    while not sessions.catch_up.is_searching:
        sessions.catch_up.send(False, sessions.budget)
    assert not sessions.catch_up.is_waiting
    sessions.catch_up.end(0)
    assert not sessions.core.journal.missed._requests and not sessions.catch_up.is_searching
    sessions.begin(1)
    sent = len(sessions.sent[1])
    sessions.core.gateway.status[1] = FREE
    sessions.finish()
    assert len(sessions.sent[1]) == sent and sessions.core.gateway.live_session[1] == -1


def test_a_client_that_does_not_read_gets_nothing_more(sessions: Sessions) -> None:
    sessions.begin(0)
    assert sessions.catch_up.hold(0, 1)
    sessions.refused.add(0)
    sessions.catch_up.send(False, sessions.budget)
    assert not sessions.catch_up.is_waiting and sessions.core.gateway.live_session[0] == -1
    sessions.refused.clear()
    sessions.finish()
    assert len(sessions.sent[0]) == REPORTS_MAX


def test_reports_that_are_gone_end_the_session(sessions: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS_KEPT_MAX", 600)
    sessions.begin(0)
    monkeypatch.setattr(
        sessions.catch_up, "_reports_max", 5
    )  # as if more came meanwhile than a session may fall behind
    gateway, ended = sessions.core.gateway, int(sessions.core.gateway.counter[SLOW_SESSIONS])
    sessions.finish()
    assert gateway.status[0] == SLOW and gateway.counter[SLOW_SESSIONS] == ended + 1
    assert gateway.live_session[0] == -1 and len(sessions.sent[0]) < sessions.last(0)


def test_pings_wait_for_the_reports(sessions: Sessions) -> None:
    assert not sessions.catch_up.hold(0, 1), "it has all"
    sessions.begin(0)
    held = [sessions.catch_up.hold(0, ping) for ping in range(1, PINGS_MAX + 3)]
    assert held == [True] * PINGS_MAX + [False] * 2
    sessions.finish()
    assert sessions.sent[0][-PINGS_MAX - 1 :] == [sessions.last(0), *range(-1, -PINGS_MAX - 1, -1)]


def test_with_a_latency_reports_are_queued(sessions: Sessions) -> None:
    """Present ones follow when all missed ones are queued."""
    missed = missed_reports(sessions.core, 0, 10)
    assert missed is not None
    sessions.catch_up.begin(0, missed, 10, Delays(Constant(kind="constant", delay_us=5.0), 0, "feed", "ann"))
    session = sessions.delayed._sessions[0]
    assert (session.is_behind, session.last_sent, session.last_queued) == (True, 10, 10 + REPORTS_MAX)
    sessions.finish()
    assert not session.is_behind and session.last_queued == sessions.last(0)
    assert not sessions.sent and sessions.core.gateway.live_session[0] == -1


def test_while_orders_arrive_sessions_wait_for_the_budget(sessions: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TURN_S_MAX", 10.0)
    monkeypatch.setattr("serl.exchange.budget.BURST_S", 0.0)
    sessions.begin(0)
    sessions.catch_up.send(True, sessions.budget)
    assert len(sessions.sent[0]) == REPORTS_MAX
    fresh = Budget(1e-9)
    sessions.catch_up.send(True, fresh)
    assert len(sessions.sent[0]) == 2 * REPORTS_MAX and fresh.wait_s() > 0.0, "one part, which is charged"
    monkeypatch.setattr(module, "QUIET_TURN_S_MAX", 0.0)
    sessions.catch_up.send(False, Budget(1.0))
    assert len(sessions.sent[0]) == 2 * REPORTS_MAX, "others have their turn"
