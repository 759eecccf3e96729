"""`serl journal verify`, `info` and `repair`."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from serl.exchange.core import Core
from serl.exchange.errors import JournalError
from serl.exchange.journal.cli import journal as command
from serl.exchange.journal.compress import compress_finished
from serl.exchange.journal.inspect import find_meta, verify
from serl.exchange.journal.meta import save_participants
from serl.exchange.journal.news_log import NEWS, read_news, write_news
from serl.exchange.journal.participants_file import EXCHANGE_NAME
from serl.exchange.journal.repair import repair
from serl.exchange.journal.segment import HEADER_BYTES, first_sequence
from serl.exchange.journal.stored import stored_paths
from serl.exchange.limits import MarketLimits
from serl.exchange.market import Market
from serl.exchange.news import News, NewsKind
from serl.exchange.records import COMMAND, EVENT, CommandKind, Rows, Rule, Setting
from serl.exchange.records import command as commands
from serl.exchange.wire import Kind
from tests.exchange.test_damage import contents, edit, flip, start, submit
from tests.server_fixture import RawClient, start_exchange


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Rows]:
    """A journal of 40,000 commands in three files, closed and crashed after 500 more; and its commands."""
    folder = tmp_path_factory.mktemp("journal")
    core = start(folder)
    core.journal.participants.append({"name": "ann", "cancel_on_disconnect": False, "operator": False})
    core.journal.save_participants()
    submit(core, 40_000)
    core.close()
    core = start(folder)
    submit(core, 500)
    rows = core.journal.commands_after(0, 10**6, core.gateway)
    parts = []
    while rows is not None and len(rows):
        parts.append(np.array(rows))
        rows = core.journal.commands_after(int(rows[-1]["sequence"]), 10**6, core.gateway)
    core.journal.commands.sync()
    core.journal.unlock()
    return folder, np.concatenate(parts)


def digest_of(rows: Rows) -> str:
    market = Market(["A"], limits=MarketLimits(participants_max=1024))
    market.submit(np.array(rows))
    return market.state_hash()


def opened(folder: Path) -> tuple[int, str]:
    """(last command, state hash) of the exchange on a folder."""
    core: Core = start(folder)
    found = core.command_sequence, core.market.state_hash()
    core.close()
    return found


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(command, list(arguments))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def command_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("commands-*.rows"))


def test_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    for name in ("verify", "info"):
        result = CliRunner().invoke(command, [name, str(tmp_path / "none")])
        assert str(result.exception) == f"{tmp_path / 'none'}: does not exist; give the folder of a journal"


def test_an_undamaged_journal(journal: tuple[Path, Rows], tmp_path: Path) -> None:
    folder = shutil.copytree(journal[0], tmp_path / "journal")
    code, text = run("verify", str(folder))
    assert code == 0 and "all" in text and "DAMAGED" not in text, text
    _, text = run("info", str(folder))
    assert "1 to 40,500" in text and "restart from command  40,000" in text, text
    code, text = run("repair", str(folder), str(tmp_path / "new"))
    assert "saved commands 1 to 40,500" in text and "nothing is lost" in text, text
    assert repair(folder, tmp_path / "again").snapshot_sequence == 40_000
    assert opened(tmp_path / "new") == (40_500, digest_of(journal[1]))


@pytest.mark.parametrize(
    ("file", "row", "saved", "text"),
    [
        (-1, 9479, None, "valid commands from"),  # after the last snapshot: what follows cannot be executed
        (0, 100, (102, 40_500), "commands 1 to 101: not in the new journal"),  # a snapshot makes up for it
        (0, 0, (2, 40_500), "commands 1 to 1: not in the new journal"),
    ],
)
def test_a_damaged_command(
    journal: tuple[Path, Rows], tmp_path: Path, file: int, row: int, saved: tuple[int, int] | None, text: str
) -> None:
    folder = shutil.copytree(journal[0], tmp_path / "journal")
    path = command_files(folder)[file]
    flip(path, HEADER_BYTES + row * COMMAND.itemsize + 8)
    before = contents(folder)
    code, output = run("verify", str(folder))
    assert code == 1 and f"DAMAGED  {path.name}" in output, output
    result = repair(folder, tmp_path / "new")
    assert contents(folder) == before, "the repair changed the damaged journal"
    damaged = int(path.stem.partition("-")[2]) + row
    assert (result.saved_first, result.saved_last) == (saved or (1, damaged - 1))
    assert any(text in line for line in result.lost), result.lost
    assert opened(tmp_path / "new") == (result.saved_last, digest_of(journal[1][: result.saved_last]))


def test_without_snapshots_every_command_is_saved(journal: tuple[Path, Rows], tmp_path: Path) -> None:
    folder = shutil.copytree(journal[0], tmp_path / "journal")
    for path in folder.glob("snapshot-*"):
        path.unlink()
    result = repair(folder, tmp_path / "new")
    assert (result.saved_first, result.saved_last, result.snapshot_sequence) == (1, 40_500, 0)
    assert opened(tmp_path / "new") == (40_500, digest_of(journal[1]))


def test_without_commands_the_snapshots_are_saved(journal: tuple[Path, Rows], tmp_path: Path) -> None:
    folder = shutil.copytree(journal[0], tmp_path / "journal")
    for path in command_files(folder):
        path.unlink()
    result = repair(folder, tmp_path / "new")
    assert (result.saved_first, result.saved_last, result.snapshot_sequence) == (0, 40_000, 40_000)
    assert opened(tmp_path / "new") == (40_000, digest_of(journal[1][:40_000]))


def test_a_damaged_snapshot_saves_nothing(journal: tuple[Path, Rows], tmp_path: Path) -> None:
    """What follows it could not be executed: the new journal ends where the last undamaged one can bring it."""
    folder = shutil.copytree(journal[0], tmp_path / "journal")
    older, newest = sorted(folder.glob("snapshot-*.npz"))
    flip(newest, 2000)
    flip(command_files(folder)[-1], HEADER_BYTES + 5 * COMMAND.itemsize)
    last = first_sequence(command_files(folder)[-1]) + 4
    assert first_sequence(older) < last < first_sequence(newest)
    result = repair(folder, tmp_path / "new")
    assert (result.saved_last, result.snapshot_sequence) == (last, first_sequence(older))
    assert [path.name for path in (tmp_path / "new").glob("snapshot-*.npz")] == [older.name]
    assert opened(tmp_path / "new") == (last, digest_of(journal[1][:last]))


def test_a_compressed_file_with_a_damaged_header_costs_only_its_commands(
    journal: tuple[Path, Rows], tmp_path: Path
) -> None:
    folder = shutil.copytree(journal[0], tmp_path / "journal")
    compress_finished(folder)
    first, second, *_ = stored_paths(folder, "commands")
    assert first.suffix == ".zrows"
    flip(first, 0)
    result = repair(folder, tmp_path / "new")
    assert (result.saved_first, result.saved_last) == (first_sequence(second), 40_500)
    assert opened(tmp_path / "new") == (40_500, digest_of(journal[1]))


@pytest.mark.parametrize("is_own", [True, False])
def test_news_of_another_journal_is_not_taken(is_own: bool, journal: tuple[Path, Rows], tmp_path: Path) -> None:
    folder = shutil.copytree(journal[0], tmp_path / "journal")
    journal_id = find_meta(folder)["id"] if is_own else "of another"
    write_news(folder / NEWS, journal_id, [News(1, 1, NewsKind.NEWS, "", "x", "", None, "")])
    repair(folder, tmp_path / "new")
    assert len(read_news(tmp_path / "new" / NEWS).messages) == is_own


def test_a_lost_meta_is_restored_from_its_copy(journal: tuple[Path, Rows], tmp_path: Path) -> None:
    folder = shutil.copytree(journal[0], tmp_path / "journal")
    edit(folder / "meta.json", lambda meta: meta.update(salt=1))
    assert "meta-copy.json is a good copy" in run("verify", str(folder))[1]
    repair(folder, tmp_path / "new")
    assert opened(tmp_path / "new") == (40_500, digest_of(journal[1]))
    (folder / "meta-copy.json").unlink()
    with pytest.raises(JournalError, match="with an undamaged"):
        repair(folder, tmp_path / "other")


def test_lost_names_are_said(journal: tuple[Path, Rows], tmp_path: Path) -> None:
    folder = shutil.copytree(journal[0], tmp_path / "journal")
    (folder / "participants.json").write_text("{")
    assert "DAMAGED  participants.json" in run("verify", str(folder))[1]
    result = repair(folder, tmp_path / "new")
    assert any("the name of participant 0, now lost-0" in line for line in result.lost)
    assert opened(tmp_path / "new")[0] == 40_500


def crash(core: Core) -> None:
    core.journal.write_events(core.gateway)
    core.journal.commands.sync()
    core.journal.unlock()


def test_lost_operators_are_found_in_the_commands(tmp_path: Path) -> None:
    """The exchange and those whose commands were not rejected; not a stranger who tried, nor one who set up its own account."""
    folder = tmp_path / "journal"
    core = start(folder)
    entries = [
        {"name": name, "operator": name in (EXCHANGE_NAME, "ann")} for name in (EXCHANGE_NAME, "ann", "bob", "cid")
    ]
    core.journal.participants += entries
    core.journal.save_participants()
    for number in (0, 1):
        core.market.grant_operator(number)
    core.submit(commands(CommandKind.NEW, command_id=1, participant=1, qty_lots=1, price_ticks=10))
    core.save_snapshot()
    core.submit(commands(CommandKind.RULE, flags=Rule.LOT, price_ticks=2))  # of the exchange
    core.submit(
        commands(CommandKind.ACCOUNT, order_id=4, flags=Setting.POSITION_LOTS_MAX, price_ticks=5)
    )  # of one that sends nothing
    core.submit(commands(CommandKind.HALT, command_id=1, participant=2))  # not permitted
    core.submit(commands(CommandKind.PRINT, command_id=2, participant=1, qty_lots=2, price_ticks=10))
    own = {"flags": Setting.SELF_TRADE, "price_ticks": 1}
    core.submit(commands(CommandKind.ACCOUNT, command_id=1, participant=3, order_id=3, **own))
    digest = core.market.state_hash()
    crash(core)
    (folder / "participants.json").write_text("{")
    result = repair(folder, tmp_path / "new")
    core = start(tmp_path / "new")
    assert (core.market.state_hash(), core.command_sequence) == (digest, 6)
    found = [(entry["name"], entry["operator"]) for entry in core.journal.participants]
    assert found == [(EXCHANGE_NAME, True), ("lost-1", True)] + [(f"lost-{number}", False) for number in (2, 3, 4)]
    assert [line for line in result.lost if "participant 1, an operator, now lost-1" in line], result.lost
    core.close()


def test_a_number_of_a_snapshot_is_not_given_to_another(tmp_path: Path) -> None:
    """Whose commands are in files that were deleted."""
    folder = tmp_path / "journal"
    core = start(folder)
    for participant in (0, 1):
        core.submit(commands(CommandKind.NEW, command_id=1, participant=participant, qty_lots=1, price_ticks=10))
    core.save_snapshot()
    core.journal.rotate_commands(core.gateway)
    core.map_segments()
    core.submit(commands(CommandKind.NEW, command_id=2, participant=0, qty_lots=1, price_ticks=10))
    crash(core)
    command_files(folder)[0].unlink()
    (folder / "participants.json").write_text("{")
    repair(folder, tmp_path / "new")
    core = start(tmp_path / "new")
    assert [entry["name"] for entry in core.journal.participants] == ["lost-0", "lost-1"]
    core.close()


def test_damaged_events_and_snapshots_are_said(journal: tuple[Path, Rows], tmp_path: Path) -> None:
    folder = shutil.copytree(journal[0], tmp_path / "journal")
    events, snapshot = min(folder.glob("events-*.rows")), max(folder.glob("snapshot-*.npz"))
    flip(events, HEADER_BYTES + 5000)
    flip(snapshot, 2000)
    _, output = run("verify", str(folder))
    assert f"DAMAGED  {events.name}" in output and f"DAMAGED  {snapshot.name}" in output, output
    repair(folder, tmp_path / "new")
    assert opened(tmp_path / "new") == (40_500, digest_of(journal[1]))


def test_a_folder_that_is_no_journal(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="give the folder of a journal"):
        repair(tmp_path, tmp_path / "new")


def test_names_of_another_journal_are_not_taken(journal: tuple[Path, Rows], tmp_path: Path) -> None:
    folder = shutil.copytree(journal[0], tmp_path / "journal")
    save_participants(folder, "of another", [{"name": "eve", "cancel_on_disconnect": False, "operator": True}])
    result = repair(folder, tmp_path / "new")
    assert any("the name of participant 0, now lost-0" in line for line in result.lost), result.lost
    core = start(tmp_path / "new")
    assert [(each["name"], each["operator"]) for each in core.journal.participants] == [("lost-0", False)]
    core.close()


@pytest.mark.parametrize("kept_rows", [0, 50])
def test_a_journal_whose_last_events_are_lost_starts(
    journal: tuple[Path, Rows], kept_rows: int, tmp_path: Path
) -> None:
    """The file was not finished, and a restart would have continued it."""
    folder = shutil.copytree(journal[0], tmp_path / "journal")
    core = start(folder)
    core.save_snapshot()
    core.journal._save_snapshot()
    core.journal.unlock()
    os.truncate(stored_paths(folder, "events")[-1], HEADER_BYTES + kept_rows * EVENT.itemsize)
    assert any("are missing" in finding.damage for finding in verify(folder))
    repair(folder, tmp_path / "new")
    assert opened(tmp_path / "new") == (40_500, digest_of(journal[1]))
    assert opened(tmp_path / "new") == (40_500, digest_of(journal[1]))


def test_a_journal_starts_whose_lost_events_would_have_room_in_the_file_before(tmp_path: Path) -> None:
    """A file ends before its last row, if the events of a command may not have room in it."""
    folder = tmp_path / "journal"
    core = start(folder)
    submit(core, 16_362 // 2)
    submit(core, 2)
    core.close()
    _, second = stored_paths(folder, "events")
    assert first_sequence(second) <= core.event_sequence <= 16_384
    flip(second, 20)
    repair(folder, tmp_path / "new")
    assert opened(tmp_path / "new")[0] == core.command_sequence


def test_a_client_of_a_repaired_journal_hears_that_its_reports_are_lost(tmp_path: Path) -> None:
    """Its login stopped an exchange in lockstep for good: it was to be sent reports until it has all."""
    folder = tmp_path / "journal"
    core = start(folder)
    core.journal.participants.append({"name": "ann", "cancel_on_disconnect": False, "operator": False})
    core.journal.save_participants()
    submit(core, 20_000)
    core.close()
    flip(stored_paths(folder, "events")[-1], HEADER_BYTES + 8)
    repair(folder, tmp_path / "new")
    with (
        start_exchange(symbols="A", clock="lockstep", journal=tmp_path / "new") as served,
        RawClient(served.endpoint) as client,
    ):
        assert client.login("ann", 30_000)[4] == 40_001
        assert client.receive(Kind.ERROR)[1] == "replay_gone"
