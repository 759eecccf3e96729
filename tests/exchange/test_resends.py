"""Stored reports are sent again: one command of each session in turn, and only what the session has been sent already."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest

from serl.exchange.budget import Budget
from serl.exchange.config import load_config
from serl.exchange.core import Core
from serl.exchange.gateway.state import FREE, LIVE
from serl.exchange.journal.checked_json import damaged
from serl.exchange.records import COMMAND
from serl.exchange.resends import Resends
from serl.exchange.wire import Kind, RequestError

ROWS_MAX, COMMANDS = 5, 10


class FakeSessions:
    """Collects what sessions are sent, as (route, command id, number of its first report, number of its reports)."""

    def __init__(self) -> None:
        self.limits, self.sent, self.last_report = {"resent_rows_max": ROWS_MAX}, list[Any](), dict[int, int]()

    def last_sent(self, slot: int) -> int | None:
        return self.last_report.get(slot)

    def send_error(self, route: int, error: RequestError) -> None:
        self.sent.append((route, str(error).partition(":")[0]))

    def send(self, route: int, message: bytes) -> bool:
        kind, command_id, first, events = msgpack.unpackb(message)
        assert kind == Kind.DUPLICATE
        self.sent.append((route, command_id, first, len(events)))
        return True


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Core]:
    """An exchange in which participants 0 and 1 sent ten orders each; their sessions have the slots 0 and 1, and the routes 70 and 71."""
    core = Core(load_config(None, {"symbols": [{"name": "A"}]}), tmp_path_factory.mktemp("journal"))
    rows = np.zeros(2 * COMMANDS, COMMAND)
    rows["participant"], rows["command_id"] = np.arange(len(rows)) % 2, 1 + np.arange(len(rows)) // 2
    rows["kind"], rows["qty_lots"], rows["price_ticks"], rows["time_in_force"] = 1, 1, 100, 1
    core.submit(rows)
    yield core
    core.close()


@pytest.fixture
def sessions() -> FakeSessions:
    return FakeSessions()


@pytest.fixture
def resends(core: Core, sessions: FakeSessions, monkeypatch: pytest.MonkeyPatch) -> Resends:
    """Whose turns end with the work: on a busy machine, those of the exchange may end before."""
    monkeypatch.setattr("serl.exchange.resends.QUIET_TURN_S_MAX", 10.0)
    for slot in range(2):
        core.gateway.status[slot], core.gateway.participant[slot], core.gateway.route[slot] = LIVE, slot, 70 + slot
    return Resends(core, sessions, Budget(1e-9))  # pyrefly: ignore[bad-argument-type]


def ids(*command_ids: int) -> np.ndarray:
    return np.array(command_ids, np.int64)


def test_sessions_are_answered_in_turn(resends: Resends, sessions: FakeSessions) -> None:
    resends.put(0, ids(1, 2), ())
    resends.put(0, ids(9), ())
    of_a_message = ids(4, 5, 6)
    resends.put(1, of_a_message, ())
    of_a_message[:] = 0  # the next message is read into the same memory
    assert resends.is_waiting
    resends.send(is_limited=False)
    assert sessions.sent == [(70, 1, 1, 1), (71, 4, 4, 1), (70, 2, 2, 1), (71, 5, 5, 1), (70, 9, 9, 1), (71, 6, 6, 1)]
    assert not resends.is_waiting


def test_what_is_not_executed_yet_is_left_out(resends: Resends, sessions: FakeSessions) -> None:
    resends.put(0, ids(4, 5, 6), {5})
    resends.put(1, ids(5), {5})
    resends.send(is_limited=False)
    assert sessions.sent == [(70, 4, 4, 1), (70, 6, 6, 1)] and not resends.is_waiting


def test_reports_that_cannot_be_read_are_an_error_of_their_command(
    resends: Resends, sessions: FakeSessions, core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged_file(*_: object) -> None:
        raise damaged(Path("events-000000000001.zrows"), "a chunk fails its check")

    resends.put(0, ids(1), ())
    with monkeypatch.context() as patch:
        patch.setattr(core.journal, "answers", damaged_file)
        resends.send(is_limited=False)
    resends.put(0, ids(2), ())
    resends.send(is_limited=False)
    assert sessions.sent == [(70, "the reports of command 1 cannot be read"), (70, 2, 2, 1)]


def test_too_many_commands_are_refused(resends: Resends, sessions: FakeSessions) -> None:
    """A first message with more than the limit left a queue without commands, and the next turn of the loop ended the exchange."""
    with pytest.raises(RequestError, match=r"expected at most 5 commands \(resent_rows_max\).*, got 0 and 6 more;"):
        resends.put(0, np.arange(1, 7), ())
    resends.send(is_limited=False)
    resends.put(0, ids(1, 2, 3), ())
    with pytest.raises(RequestError, match="got 3 and 3 more;"):
        resends.put(0, ids(4, 5, 6), ())
    resends.put(0, ids(4, 5), ())
    resends.send(is_limited=False)
    resends.put(0, ids(6), ())
    resends.send(is_limited=False)
    assert [command_id for _, command_id, *_ in sessions.sent] == [1, 2, 3, 4, 5, 6], "answered ones no longer count"


def test_what_a_session_has_not_been_sent_is_not_sent_again(resends: Resends, sessions: FakeSessions) -> None:
    """It comes once, when its latency is over; what the session gets afterwards does not change that."""
    sessions.last_report[0] = 4
    resends.put(0, ids(4, 5), ())
    sessions.last_report[0] = 9
    resends.send(is_limited=False)
    assert sessions.sent == [(70, 4, 4, 1)]


def test_the_commands_of_a_session_that_ended_are_dropped(resends: Resends, sessions: FakeSessions, core: Core) -> None:
    """The next session in its slot gets none of their reports."""
    resends.put(0, ids(1, 2, 3), ())
    resends.put(1, ids(1), ())
    core.gateway.route[0], core.gateway.status[1] = 90, FREE
    resends.send(is_limited=False)
    assert not sessions.sent and not resends.is_waiting
    core.gateway.route[0] = 70
    resends.put(0, ids(1, 2, 3), ())
    core.gateway.route[0] = 90
    resends.put(0, ids(7, 8, 9), ())
    resends.send(is_limited=False)
    assert [sent[:2] for sent in sessions.sent] == [(90, 7), (90, 8), (90, 9)]


def test_while_orders_arrive_commands_wait_for_the_budget(
    resends: Resends, sessions: FakeSessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("serl.exchange.resends.TURN_S_MAX", 10.0)
    monkeypatch.setattr("serl.exchange.budget.BURST_S", 0.0)
    resends.put(0, ids(1, 2, 3), ())
    resends.send(is_limited=True)
    assert len(sessions.sent) == 1, "the first has used what it may"
    resends.send(is_limited=True)
    assert len(sessions.sent) == 1
    resends.put(0, ids(4, 5, 6), ())  # two wait, and five may
    with monkeypatch.context() as patch:
        patch.setattr("serl.exchange.resends.QUIET_TURN_S_MAX", 0.0)
        resends.send(is_limited=False)
        assert len(sessions.sent) == 1, "others have their turn"
    resends.send(is_limited=False)
    assert len(sessions.sent) == 6, "without orders nobody waits"
