"""However the exchange dies, nothing acknowledged is lost and nothing is executed twice."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

from serl.clients.blocking import connect
from serl.exchange.config import load_config
from serl.exchange.core import Core
from serl.exchange.errors import ConfigError, JournalError
from serl.exchange.journal import journal, snapshots
from serl.exchange.journal.meta import cut_operators, operators_at, parts, write_meta
from serl.exchange.journal.segment import HEADER_BYTES
from serl.exchange.journal.stored import stored_paths, stored_rows
from serl.exchange.limits import MarketLimits
from serl.exchange.login import Login, LoginConfig
from serl.exchange.market import Market
from serl.exchange.participants import Participants
from serl.exchange.records import (
    COMMAND,
    CommandKind,
    EventKind,
    Rows,
    Setting,
    Term,
    command,
)
from serl.exchange.snapshot import FIRST_COLUMNS, LATER_FIELDS, SPECIAL
from serl.exchange.terms import Terms, order
from serl.exchange.wire import Kind
from tests.exchange.missed import missed_reports
from tests.exchange.test_damage import flip
from tests.server_fixture import RawClient, Served, launch

OPTIONS = ("--symbols", "A,B")


def load(rng: np.random.Generator, first_id: int, count: int) -> Rows:
    rows = np.zeros(count, COMMAND)
    rows["command_id"] = first_id + np.arange(count)
    rows["kind"] = rng.choice([CommandKind.NEW, CommandKind.CANCEL, CommandKind.REPLACE], count, p=[0.6, 0.3, 0.1])
    rows["order_id"] = rows["command_id"] - rng.integers(1, 50, count)
    rows["symbol"], rows["side"] = rng.integers(0, 2, count), rng.integers(0, 2, count)
    rows["qty_lots"], rows["price_ticks"] = rng.integers(1, 20, count), rng.integers(990, 1010, count)
    rows["time_in_force"] = 1
    return rows


def journaled(folder: Path) -> Rows:
    rows = np.concatenate([stored_rows(path, COMMAND)[:] for path in stored_paths(folder, "commands")])
    return rows[rows["sequence"] > 0]


@pytest.mark.parametrize("kills", [4, pytest.param(20, marks=pytest.mark.long)])
def test_kills_lose_nothing(kills: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    journal = tmp_path / "journal"
    config = tmp_path / "exchange.yaml"
    config.write_text("journal: {segment_rows: 8192}\n")
    seen: list[tuple[int, int, int]] = []  # report, kind, command id of every event that reached us
    acknowledged = last_report = 0
    for _ in range(kills):
        served = launch(*OPTIONS, "--journal", str(journal), "--config", str(config))
        client = connect(served.endpoint, "load", rows=True)
        client.close()
        client = _return(served.endpoint, last_report)
        assert client.session.next_command_id > acknowledged, "an acknowledged command is lost"
        wanted = last_report + int(rng.integers(2000, 12_000))
        while last_report < wanted:
            client.core.send(client.session.rows(load(rng, client.session.next_command_id, 256)))
            item: Any = client.wait(5)
            while item is not None:
                assert item["report"].tolist() == list(range(last_report + 1, last_report + 1 + len(item)))
                last_report += len(item)
                acknowledged = max(acknowledged, int(item["command_id"].max()))
                seen += zip(item["report"].tolist(), item["kind"].tolist(), item["command_id"].tolist(), strict=True)
                item = client.wait(0)
        served.kill()
        assert served.process.stdout is not None
        served.process.stdout.close()
        client.core.context.destroy(0)
    served = launch(*OPTIONS, "--journal", str(journal), "--config", str(config))
    client = _return(served.endpoint, 0)
    again: list[tuple[int, int, int]] = []
    while len(again) < len(seen):
        rows: Any = client.wait(5)
        again += zip(rows["report"].tolist(), rows["kind"].tolist(), rows["command_id"].tolist(), strict=True)
    assert again[: len(seen)] == seen, "history changed"
    _, digest = client.ask(Kind.HASH)[5]
    client.close()
    assert "stopped" in served.stop()
    commands = journaled(journal)
    assert commands["sequence"].tolist() == list(range(1, len(commands) + 1)), "a command is missing or duplicated"
    market = Market(["A", "B"], limits=MarketLimits(participants_max=1024))
    market.submit(commands)
    assert market.state_hash() == digest
    market.validate()


def test_a_crash_does_not_undo_operator_commands(tmp_path: Path) -> None:
    """Nor commands of the exchange itself; also if the next start has other operators."""
    journal, config = tmp_path / "journal", tmp_path / "exchange.yaml"

    def start_with(operators: str) -> Served:
        config.write_text(f"login: {{tokens: {{ann: a, bob: b}}, operators: [{operators}]}}")
        return launch(*OPTIONS, "--journal", str(journal), "--config", str(config))

    def is_halted(endpoint: str, symbol: int) -> bool:
        with connect(endpoint, "bob", token="b") as bob:
            return bool(bob.ask(Kind.STATUS, symbol)[5][0])

    served = start_with("ann")
    with connect(served.endpoint, "ann", token="a") as ann:
        ann.core.send(ann.session.rows(command(CommandKind.HALT, symbol=1, command_id=1)))
        with RawClient(served.endpoint, "admin") as admin:
            admin.send(Kind.OPERATE, 1, "a", int(CommandKind.HALT), 0)
            assert admin.receive()[0] != Kind.ERROR
        assert is_halted(served.endpoint, 0) and is_halted(served.endpoint, 1)
        hashed = ann.ask(Kind.HASH)[5]
    for operators in ("ann", "bob", "bob"):
        served.kill()
        assert served.process.stdout is not None
        served.process.stdout.close()
        served = start_with(operators)
        assert is_halted(served.endpoint, 0) and is_halted(served.endpoint, 1)
        with connect(served.endpoint, "ann", token="a") as ann:
            assert ann.ask(Kind.HASH)[5] == hashed
    served.stop()


def _return(endpoint: str, last_report: int) -> Any:
    """Logs in as the client `load` that already has the reports up to last_report."""
    from serl.clients.blocking import Exchange
    from serl.clients.core import ClientCore
    from serl.clients.session import Session

    session = Session("load", rows=True, replace=True)
    session.last_report = last_report
    client = Exchange(ClientCore(endpoint, session, None))
    client._run(client.core.login())
    return client


def start(folder: Path, **limits: int) -> Core:
    overrides: dict[str, Any] = {
        "symbols": [{"name": "A"}], "journal": {"folder": str(folder), "segment_rows": 8192}, "limits": limits,
    }  # fmt: skip
    return Core(load_config(None, overrides), folder)


@pytest.fixture
def crashed(tmp_path: Path) -> tuple[Path, str]:
    """A journal of 300 commands whose exchange crashed, and the hash of its market."""
    core = start(tmp_path)
    rows = load(np.random.default_rng(1), 1, 300)
    rows["symbol"] = 0
    core.submit(rows)
    digest = core.market.state_hash()
    core.journal.commands.sync()
    core.journal.unlock()
    return tmp_path, digest


def test_restart_gives_the_same_state(crashed: tuple[Path, str]) -> None:
    core = start(crashed[0])
    assert core.market.state_hash() == crashed[1]
    assert core.recovery.commands == 300
    assert core.journal.epoch == 2
    core.close()
    again = start(crashed[0])
    assert (again.market.state_hash(), again.recovery.commands, again.recovery.snapshot_sequence) == (
        crashed[1],
        0,
        300,
    )
    again.close()


def test_commands_are_executed_again_under_the_display_limit_of_their_time(tmp_path: Path) -> None:
    """A journal of a version that had no such limit has no note of it; a later limit does not touch what was accepted before."""
    iceberg = order(1, Terms(display_lots=1), participant=1, qty_lots=2000, price_ticks=10)
    digests: list[str] = []
    for divisor, accepted in ((0, True), (1000, False), (2000, True), (1000, False)):
        core = start(tmp_path, display_divisor_max=divisor)
        assert [core.market.state_hash()] == digests[-1:] or not digests
        core.submit(iceberg)
        iceberg["command_id"] += 2
        assert (core.journal.events.rows[core.event_sequence - 1]["reason"] == 0) == accepted
        digests.append(core.market.state_hash())
        core.journal.commands.sync()
        core.journal.unlock()
        if len(digests) == 1:
            meta = core.journal.meta
            assert meta.pop("display_divisors") == [[1, 0]]
            write_meta(tmp_path, meta)
    core = start(tmp_path)
    assert core.market.state_hash() == digests[-1] and core.recovery.commands == 8
    assert core.journal.meta["display_divisors"] == [[3, 1000], [5, 2000], [7, 1000]]
    core.close()


@pytest.mark.parametrize(
    "changed", [{"price_ticks_max": 950}, {"qty_lots_max": 5}, {"orders_open_max": 1}, {"levels_max": 1}]
)
def test_commands_are_executed_again_under_the_limits_of_their_time(changed: dict[str, int], tmp_path: Path) -> None:
    """A start with lower limits does not take back what was acknowledged before; nor does one with higher ones accept what was rejected."""

    def submit_two(core: Core, first_id: int) -> str:
        for command_id in (first_id, first_id + 1):
            core.submit(command(CommandKind.NEW, command_id=command_id, qty_lots=10, price_ticks=1000 - command_id))
        digest = core.market.state_hash()
        core.journal.commands.sync()
        core.journal.unlock()
        return digest

    core = start(tmp_path)
    digest = submit_two(core, 1)
    core = start(tmp_path, **changed)
    assert core.market.state_hash() == digest and core.recovery.commands == 2
    digest = submit_two(core, 3)
    assert core.market.state.counters["orders_open"] == 2, "the second start has other limits"
    core = start(tmp_path)
    assert core.market.state_hash() == digest and core.recovery.commands == 4
    submit_two(core, 5)
    assert core.market.state.counters["orders_open"] == 4, "the third start has the first limits"


def test_fewer_participants_than_there_are_is_refused(tmp_path: Path) -> None:
    core = start(tmp_path)
    core.journal.participants += [{"name": name, "operator": False} for name in ("ann", "bob", "cid")]
    core.journal.save_participants()
    core.submit(command(CommandKind.NEW, command_id=1, participant=2, qty_lots=1, price_ticks=10))
    core.close()
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(ConfigError, match="participants_max: expected at least 3"):
        start(tmp_path, participants_max=2)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    start(tmp_path, participants_max=3).close()


def test_the_older_snapshot_is_followed_by_the_operators_of_its_time(tmp_path: Path) -> None:
    """Ann halts the market as an operator, then bob resumes it as one."""

    def start_with(operator: str) -> Core:
        login = LoginConfig.model_validate({"tokens": {"ann": "a", "bob": "b"}, "operators": [operator]})
        core = start(tmp_path)
        participants = Participants(core, core.config, Login(login))
        for name in ("ann", "bob"):
            participants.number_or_new(name)
        return core

    core = start_with("ann")
    core.submit(command(CommandKind.NEW, command_id=1, participant=1, qty_lots=1, price_ticks=10))
    core.save_snapshot()
    core.submit(command(CommandKind.RESUME, command_id=2, participant=1))  # not permitted
    core.submit(command(CommandKind.HALT, command_id=1, participant=0))
    core.close()
    core = start_with("bob")
    core.submit(command(CommandKind.RESUME, command_id=2, participant=0))  # not permitted
    core.submit(command(CommandKind.PRINT, command_id=3, participant=1, qty_lots=1, price_ticks=10))
    digest = core.market.state_hash()
    assert core.market.state.halted[0] and core.journal.meta["operators_before"] == [[3, [0]]]
    core.journal.commands.sync()
    core.journal.unlock()
    flip(max(tmp_path.glob("snapshot-*.npz")), 500)
    core = start_with("bob")
    assert (core.market.state_hash(), core.recovery.snapshot_sequence, core.recovery.commands) == (digest, 1, 4)
    core.close()


def test_lost_commands_do_not_count_as_those_of_earlier_operators(tmp_path: Path) -> None:
    meta: dict[str, Any] = {"operators_before": [[3, [0]], [9, [1]]]}
    assert cut_operators(meta, 5) and meta == {"operators_before": [[3, [0]], [5, [1]]]}
    assert [operators_at(meta, sequence) for sequence in (3, 4, 5, 6)] == [[0], [1], [1], None]
    assert parts(meta, 1, 9) == [(1, 4), (4, 6), (6, 9)]
    assert not cut_operators(meta, 5)


def test_a_snapshot_without_account_fees_is_skipped(crashed: tuple[Path, str]) -> None:
    start(crashed[0]).close()
    newest = max(crashed[0].glob("snapshot-*.npz"))
    values = dict(np.load(newest))
    np.savez(newest, **values | {"accounts": values["accounts"][:, : Setting.OWN_FEES]})
    newest.with_suffix(".sha256").write_text(hashlib.sha256(newest.read_bytes()).hexdigest())
    core = start(crashed[0])
    assert (core.market.state_hash(), core.recovery.snapshot_sequence) == (crashed[1], 0)
    core.close()


def test_a_snapshot_of_a_version_with_fewer_columns_is_restored(tmp_path: Path) -> None:
    core = start(tmp_path)
    core.submit(order(1, Terms(display_lots=2), participant=1, qty_lots=20, price_ticks=10))
    core.submit(order(3, Terms(stop_ticks=12, trail_ticks=3), participant=1, qty_lots=5, price_ticks=10))
    core.submit(command(CommandKind.TERM, participant=1, command_id=6, flags=Term.MIN_LOTS, price_ticks=4))
    digest = core.market.state_hash()
    core.close()
    newest = max(tmp_path.glob("snapshot-*.npz"))
    values = dict(np.load(newest))
    names = [name for name in SPECIAL.names or () if name not in ("touch_ticks", "updates")]
    narrower = np.zeros(len(values["specials"]), [(name, SPECIAL[name]) for name in names])
    for name in names:
        narrower[name] = values["specials"][name]
    older = {name: value for name, value in values.items() if name not in LATER_FIELDS} | {"specials": narrower}
    older |= {name: values[name][:, :columns] for name, columns in FIRST_COLUMNS.items()}
    np.savez(newest, **older)
    check = newest.with_suffix(".sha256")
    check.write_text(f"{hashlib.sha256(newest.read_bytes()).hexdigest()} {core.journal.id}")
    core = start(tmp_path)
    assert (core.market.state_hash(), core.recovery.snapshot_sequence, core.recovery.commands) == (digest, 6, 0)
    core.market.validate()
    core.close()


def test_a_snapshot_is_restored_by_the_code_that_is_compiled_already(tmp_path: Path) -> None:
    """numpy reads records as another type than it has written: compiled code would be compiled for that one too."""
    market = Market(2, limits=MarketLimits())
    market.buy(5, 990)
    taken = market.snapshot()
    snapshots.save(tmp_path, "id", snapshots.SavedSnapshot(1, 0, 1, taken))
    (path,) = snapshots.snapshot_paths(tmp_path)
    loaded = snapshots.load(path, "id")
    assert loaded is not None
    assert numba.typeof(loaded.market.orders) == numba.typeof(taken.orders)
    assert numba.typeof(loaded.market.specials) == numba.typeof(taken.specials)
    assert Market.restore(loaded.market, 2, limits=MarketLimits()).state_hash() == market.state_hash()


def test_a_truncated_journal_stops_at_the_last_complete_row(crashed: tuple[Path, str]) -> None:
    path = next(crashed[0].glob("commands-*.rows"))
    with path.open("r+b") as file:
        file.truncate(HEADER_BYTES + 200 * COMMAND.itemsize + 20)
    core = start(crashed[0])
    assert core.recovery.commands == 200
    assert 0 < core.recovery.dropped_bytes <= 20
    core.close()


def test_a_gap_in_the_journal_is_an_error(crashed: tuple[Path, str]) -> None:
    path = next(crashed[0].glob("commands-*.rows"))
    with path.open("r+b") as file:
        file.seek(HEADER_BYTES + 100 * COMMAND.itemsize)
        file.write(b"\xff" * 8)
    with pytest.raises(JournalError, match="command 101 is corrupt but later ones are valid"):
        start(crashed[0])


def test_other_symbols_are_rejected(crashed: tuple[Path, str]) -> None:
    overrides: dict[str, Any] = {
        "symbols": [{"name": "B"}],
        "journal": {"folder": str(crashed[0]), "segment_rows": 8192},
    }
    with pytest.raises(JournalError, match="same symbols or with another folder"):
        Core(load_config(None, overrides), crashed[0])


def test_one_exchange_per_folder(tmp_path: Path) -> None:
    core = start(tmp_path)
    with pytest.raises(JournalError, match="another exchange"):
        start(tmp_path)
    core.close()


def test_segments_rotate_and_answers_are_found_across_them(tmp_path: Path) -> None:
    core = start(tmp_path)
    rows = load(np.random.default_rng(2), 1, 20_000)
    rows["symbol"] = 0
    core.submit(rows)
    assert len(core.journal.segments("commands")) == 3
    reports = missed_reports(core, 0, 0)
    assert reports is not None
    assert reports["report"].tolist() == list(range(1, len(reports) + 1))
    answer = core.journal.answers(0, 5, core.gateway)
    assert len(answer) and set(answer["command_id"].tolist()) == {5}
    trades = core.journal.trades(0, 10, core.gateway)
    assert trades["kind"].tolist() == [EventKind.FILL] * 10
    core.close()


def test_trades_are_looked_for_in_the_last_events_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Anybody may ask for those of a symbol that has none, and nobody trades meanwhile."""
    core = start(tmp_path)
    for command_id, side in ((1, 0), (2, 1)):
        core.submit(command(CommandKind.NEW, command_id=command_id, side=side, qty_lots=1, price_ticks=10))
    rows = np.repeat(command(CommandKind.NEW, qty_lots=1, price_ticks=10), 20_000)
    rows["command_id"] = 3 + np.arange(len(rows))
    core.submit(rows)
    assert len(core.journal.trades(0, 10, core.gateway)) == 1
    read: list[int] = []
    newest = core.journal.newest_events

    def counted(gateway: Any) -> Iterator[Rows]:
        for part in newest(gateway):
            read.append(len(part))
            yield part

    monkeypatch.setattr(core.journal, "newest_events", counted)
    for events_max, found in ((core.event_sequence, 1), (100, 0)):
        monkeypatch.setattr(journal, "TRADES_EVENTS_MAX", events_max)
        read.clear()
        assert len(core.journal.trades(0, 10, core.gateway)) == found
    assert len(read) == 1 and not len(core.journal.trades(0, 0, core.gateway))
    core.close()
