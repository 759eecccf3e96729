"""A duplicate command gets the stored reply without a scan of the journal, however old it is."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from serl.exchange.config import load_config
from serl.exchange.core import Core
from serl.exchange.journal.answers import CHUNK_ROWS, is_answer
from serl.exchange.records import COMMAND, CommandKind, EventKind, Rows
from serl.exchange.wire import Kind
from tests.server_fixture import RawClient, Served, launch

SEGMENT_ROWS = 8192
PARTICIPANTS = 5


def start(folder: Path) -> Core:
    overrides: dict[str, Any] = {
        "symbols": [{"name": "A"}],
        "journal": {"folder": str(folder), "segment_rows": SEGMENT_ROWS},
    }
    return Core(load_config(None, overrides), folder)


def orders(rng: np.random.Generator, command_ids: Any, participants: Any) -> Rows:
    """Orders around one price, cancels and replaces."""
    count = len(command_ids)
    rows = np.zeros(count, COMMAND)
    rows["command_id"], rows["participant"] = command_ids, participants
    rows["kind"] = rng.choice([CommandKind.NEW, CommandKind.CANCEL, CommandKind.REPLACE], count, p=[0.6, 0.3, 0.1])
    rows["order_id"] = np.maximum(1, rows["command_id"] - rng.integers(1, 50, count))
    rows["side"], rows["qty_lots"] = rng.integers(0, 2, count), rng.integers(1, 20, count)
    rows["price_ticks"], rows["time_in_force"] = rng.integers(990, 1010, count), 1
    return rows


def mixed(rng: np.random.Generator, first_id: int, count: int) -> Rows:
    """Orders of many participants, one of which is rare, with gaps in their ids and occasional stale ids."""
    participants = rng.choice(PARTICIPANTS, count, p=[0.4, 0.3, 0.2, 0.0999, 0.0001])
    command_ids = first_id + 3 * np.arange(count)
    stale = rng.random(count) < 0.01
    command_ids[stale] = rng.integers(1, first_id + 1, int(stale.sum()))
    return orders(rng, command_ids, participants)


def scanned(core: Core) -> Rows:
    """All events, oldest first."""
    events: Rows = np.concatenate(list(core.journal.newest_events(core.gateway))[::-1])
    return events


def assert_answers(core: Core, rng: np.random.Generator) -> None:
    """Asserts that answers equal those found by a scan of all events."""
    events = scanned(core)
    for participant in range(PARTICIPANTS):
        own = events[(events["participant"] == participant) & is_answer(events)]
        known = np.unique(own["command_id"])
        chosen = np.unique(np.concatenate((known[:3], known[-3:], rng.permutation(known)[:100])))
        for command_id in [*chosen.tolist(), *(chosen + 1).tolist(), 1 << 40]:
            expected = own[own["command_id"] == command_id]
            assert np.array_equal(core.journal.answers(participant, command_id, core.gateway), expected)


@pytest.mark.long
def test_answers_are_found_throughout_the_journal(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    core = start(tmp_path)
    sent = 0
    for count in (10, CHUNK_ROWS // 2, 30_000, 3000):
        core.submit(mixed(rng, 1 + 3 * sent, count))
        sent += count
        assert_answers(core, rng)
    core.close()
    core = start(tmp_path)
    assert_answers(core, rng)
    core.submit(mixed(rng, 1 + 3 * sent, 10_000))
    assert_answers(core, rng)
    core.journal.unlock()  # simulates a crash
    lost = sorted(tmp_path.glob("events-*.rows"))
    lost[-1].unlink()
    core = start(tmp_path)
    assert_answers(core, rng)
    core.close()


def test_an_older_journal_is_indexed_at_its_first_start(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    core = start(tmp_path)
    core.submit(mixed(rng, 1, 40_000))
    core.close()
    saved = sorted(tmp_path.glob("*.answers.npy"))
    assert len(saved) == len(list(tmp_path.glob("events-*.rows"))) - 1, "all but the current segment"
    tables = [path.read_bytes() for path in saved]
    for path in saved:
        path.unlink()
    core = start(tmp_path)
    assert_answers(core, rng)
    assert [path.read_bytes() for path in saved] == tables
    core.close()


def test_an_answer_across_segments_is_complete(tmp_path: Path) -> None:
    core = start(tmp_path)
    count = 3 * SEGMENT_ROWS
    rows = orders(np.random.default_rng(5), 1 + np.arange(count), 0)
    rows["kind"], rows["side"], rows["price_ticks"] = CommandKind.NEW, 0, 1000
    core.submit(rows)
    all_of_them = orders(np.random.default_rng(5), [count + 1, count + 2], 0)
    all_of_them["kind"] = [CommandKind.MASS_CANCEL, CommandKind.NEW]
    core.submit(all_of_them)
    answer = core.journal.answers(0, count + 1, core.gateway)
    assert (answer["kind"] == EventKind.CANCELLED).sum() == count
    assert len(np.unique(answer["command_sequence"])) == 1
    assert np.array_equal(core.journal.answers(0, count + 1, core.gateway, 5000), answer[:5000]), "in several chunks"
    core.close()


def test_events_that_are_gone_have_no_answers(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    core = start(tmp_path)
    core.submit(orders(rng, 1 + np.arange(40_000), 0))
    core.journal.write_events(core.gateway)
    gone, *_, current = sorted(tmp_path.glob("events-*.rows"))
    gone.unlink()
    assert not len(core.journal.answers(0, 5, core.gateway))
    assert len(core.journal.answers(0, 20_000, core.gateway)) and current.exists()
    core.close()


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """An exchange that has executed a million commands; `old` sent the first ones, `busy` all others."""
    folder = tmp_path_factory.mktemp("journal")
    rng = np.random.default_rng(7)
    core = Core(load_config(None, {"symbols": [{"name": "A"}], "journal": {"folder": str(folder)}}), folder)
    for name in ("old", "busy"):
        core.journal.participants.append({"name": name, "cancel_on_disconnect": False, "operator": False})
    core.journal.save_participants()
    core.submit(orders(rng, 1 + np.arange(2000), 0))
    for first_id in range(1, 1_000_000, 100_000):
        core.submit(orders(rng, first_id + np.arange(100_000), 1))
    core.close()
    served = launch("--symbols", "A", "--journal", str(folder))
    yield served
    served.stop()


@pytest.mark.parametrize(("name", "last_id"), [("old", 2000), pytest.param("busy", 1_000_000, marks=pytest.mark.long)])
def test_resending_old_ids_does_not_slow_the_exchange(long: Served, name: str, last_id: int) -> None:
    """A scan took 1.2 s for 64 ids of one participant and 4.5 s for 64 of the other, including the client's decoding."""
    with RawClient(long.endpoint) as raw:
        raw.login(name)
        for count, seconds_max in ((64, 0.2), (1024, 1.0)):
            assert min(answer_seconds(raw, last_id, count) for _ in range(3)) < seconds_max


def answer_seconds(raw: RawClient, last_id: int, count: int) -> float:
    """Seconds until `count` ids, spread over everything sent and resent in one message, are answered."""
    rows = np.zeros(count, COMMAND)
    rows["command_id"] = np.linspace(1, last_id, count).astype(np.int64)
    rows["kind"] = CommandKind.NEW
    began = time.perf_counter()
    raw.send(Kind.BULK, rows.tobytes())
    answers = [raw.receive(Kind.DUPLICATE) for _ in range(count)]
    seconds = time.perf_counter() - began
    assert [answer[1] for answer in answers] == rows["command_id"].tolist()
    assert all(event[2] == answer[1] for answer in answers for event in answer[3])
    assert all(len(answer[3]) for answer in answers)
    return seconds
