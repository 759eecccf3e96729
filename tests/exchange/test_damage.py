"""A damaged journal is refused and left as it is; only an unfinished last row is cut."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, LiteralString

import numpy as np
import pytest

from serl.exchange.config import load_config
from serl.exchange.core import Core
from serl.exchange.errors import JournalError
from serl.exchange.journal import meta, participants_file
from serl.exchange.journal.checked_json import check_of, read_checked, write_checked
from serl.exchange.journal.inspect import verify
from serl.exchange.journal.meta import participant_text, write_participants
from serl.exchange.journal.segment import HEADER_BYTES
from serl.exchange.records import COMMAND, EVENT, CommandKind

COUNT = 8000


def start(folder: Path, symbol: str = "A") -> Core:
    overrides: dict[str, Any] = {
        "symbols": [{"name": symbol}],
        "journal": {"folder": str(folder), "segment_rows": 16_384},
    }
    return Core(load_config(None, overrides), folder)


def submit(core: Core, count: int) -> None:
    rows = np.zeros(count, COMMAND)
    rows["command_id"] = core.command_sequence + 1 + np.arange(count)
    rows["kind"], rows["qty_lots"], rows["time_in_force"], rows["price_ticks"] = CommandKind.NEW, 1, 1, 1000
    rows["side"] = rows["command_id"] % 2
    core.submit(rows)


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A journal of 8,000 acknowledged commands without a snapshot, whose exchange crashed."""
    folder = tmp_path_factory.mktemp("journal")
    core = start(folder)
    core.journal.participants.append({"name": "ann", "cancel_on_disconnect": False, "operator": True})
    core.journal.save_participants()
    submit(core, COUNT)
    core.journal.commands.sync()
    core.journal.unlock()
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def edit(path: Path, change: Callable[[dict[str, Any]], object], *, keep_check: bool = True) -> None:
    value = json.loads(path.read_text())
    change(value)
    if not keep_check:
        value.pop("check", None)
    path.write_text(json.dumps(value))


def flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(bytes(data))


def flip_salt(values: dict[str, Any]) -> None:
    values["salt"] ^= 1


def commands(folder: Path) -> Path:
    return next(folder.glob("commands-*.rows"))


def flip_rows(folder: Path, *rows: int) -> None:
    for row in rows:
        flip(commands(folder), HEADER_BYTES + row * 64 + 40)


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "meta missing": (lambda folder: (folder / "meta.json").unlink(), "salt of its checks, got none"),
    "salt flipped": (lambda folder: edit(folder / "meta.json", flip_salt), "expected the check"),
    "salt flipped, older file": (
        lambda folder: edit(folder / "meta.json", flip_salt, keep_check=False),
        "commands 1 to 8000 fail their checks",
    ),
    "participants missing": (lambda folder: (folder / "participants.json").unlink(), "participants' names, got none"),
    "participants renamed": (
        lambda folder: edit(folder / "participants.json", lambda value: value["participants"][0].update(name="eve")),
        "expected the check",
    ),
    "meta of another shape": (lambda folder: (folder / "meta.json").write_text("[1]"), "JSON object with format, "),
    "participants of another shape": (
        lambda folder: (folder / "participants.json").write_text('{"names": []}'),
        "expected a JSON object with journal, participants",
    ),
    "header flipped": (lambda folder: flip(commands(folder), 60), "a damaged file"),
    "a row flipped": (lambda folder: flip(commands(folder), HEADER_BYTES + 100 * 64 + 8), "command 101 is corrupt"),
    "the last rows flipped": (
        lambda folder: flip_rows(folder, 7998, 7999),
        "commands 7999 to 8000 fail their checks",
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_refused_and_left_alone(name: str, journal: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(journal, tmp_path / "journal")
    damage, text = DAMAGE[name]
    damage(folder)
    before = contents(folder)
    with pytest.raises(JournalError, match=text) as caught:
        start(folder)
    assert "journal" in str(caught.value) and str(folder) in str(caught.value)
    assert contents(folder) == before, "the refused start changed the journal"


def test_a_copy_under_another_name_is_no_file_of_the_journal(journal: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(journal, tmp_path / "journal")
    shutil.copy(commands(folder), folder / "commands-000000000001-copy.rows")
    (folder / "snapshot-old.npz").write_bytes(b"a copy")
    assert not [finding for finding in verify(folder) if finding.damage]
    core = start(folder)
    assert core.recovery.commands == COUNT
    core.close()


def test_an_unfinished_last_row_is_cut(journal: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(journal, tmp_path / "journal")
    flip(commands(folder), HEADER_BYTES + (COUNT - 1) * 64 + 40)
    core = start(folder)
    assert core.recovery.commands == COUNT - 1 and 0 < core.recovery.dropped_bytes <= 64
    core.close()


def test_rows_of_a_rejected_message_are_no_damage(journal: Path, tmp_path: Path) -> None:
    """A client's bulk message lies in the segment before it is accepted; a crash leaves it there."""
    folder = shutil.copytree(journal, tmp_path / "journal")
    rows = np.zeros(64, COMMAND)
    rows["command_id"], rows["qty_lots"] = COUNT + 1 + np.arange(64), 5
    with commands(folder).open("r+b") as file:
        file.seek(HEADER_BYTES + COUNT * 64)
        file.write(rows.tobytes())
    core = start(folder)
    assert core.recovery.commands == COUNT
    core.close()


def test_files_of_another_journal_are_refused(journal: Path, tmp_path: Path) -> None:
    folder, other = shutil.copytree(journal, tmp_path / "journal"), tmp_path / "other"
    core = start(other)
    submit(core, 10)
    core.close()
    for name in (commands(folder).name, "participants.json", "snapshot-000000000010.npz"):
        mixed = shutil.copytree(journal, tmp_path / f"mixed-{name}")
        shutil.copy(other / name, mixed / name)
        if name.startswith("snapshot"):
            shutil.copy((other / name).with_suffix(".sha256"), (mixed / name).with_suffix(".sha256"))
        with pytest.raises(JournalError, match="of journal"):
            start(mixed)


def make_older(folder: Path) -> None:
    """Makes it a journal of a version without ids and checks."""
    (folder / "meta-copy.json").unlink()
    edit(folder / "meta.json", lambda values: values.pop("id"), keep_check=False)
    names = json.loads((folder / "participants.json").read_text())["participants"]
    (folder / "participants.json").write_text(json.dumps(names))
    for path in folder.glob("*.rows"):
        data = path.read_bytes()
        header = json.loads(data[:HEADER_BYTES].rstrip(b"\0"))
        old = {key: header[key] for key in ("format", "row_bytes", "first_sequence", "capacity")}
        path.write_bytes(json.dumps(old).encode().ljust(HEADER_BYTES, b"\0") + data[HEADER_BYTES:])


def test_a_journal_of_an_older_version_opens(journal: Path, tmp_path: Path) -> None:
    """No ids, no checks, participants as a list."""
    folder = shutil.copytree(journal, tmp_path / "journal")
    make_older(folder)
    core = start(folder)
    digest = core.market.state_hash()
    assert core.recovery.commands == COUNT and core.journal.participants[0]["name"] == "ann"
    core.close()
    again = start(folder)
    assert again.market.state_hash() == digest
    again.close()
    values = json.loads((folder / "meta.json").read_text())
    assert values["check"] == check_of(values) and len(values["id"]) == 16


@pytest.mark.parametrize("has_participants", [True, False])
@pytest.mark.parametrize("killed_at", [1, 2, 3])
def test_a_kill_while_an_older_journal_gets_its_id(
    killed_at: int, has_participants: bool, journal: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before any of the files that carry the id is written."""
    folder = shutil.copytree(journal, tmp_path / "journal")
    make_older(folder)
    if not has_participants:
        (folder / "participants.json").unlink()
    written: list[object] = []

    def until_killed(write: Callable[..., None]) -> Callable[..., None]:
        def written_until_killed(*arguments: object) -> None:
            written.append(arguments)
            if len(written) == killed_at:
                raise KeyboardInterrupt
            write(*arguments)

        return written_until_killed

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(meta, "write_checked", until_killed(write_checked))
        patch.setattr(participants_file, "write_participants", until_killed(write_participants))
        start(folder)
    assert not any(finding.damage for finding in verify(folder) if finding.name == "participants.json")
    core = start(folder)
    assert core.recovery.commands == COUNT and len(core.journal.participants) == has_participants
    core.close()


def test_an_older_journal_without_participants_opens_twice(tmp_path: Path) -> None:
    core = start(tmp_path)
    submit(core, 10)
    core.close()
    (tmp_path / "meta-copy.json").unlink()
    (tmp_path / "participants.json").unlink()
    edit(tmp_path / "meta.json", lambda values: values.pop("id"), keep_check=False)
    for path in [*tmp_path.glob("*.rows"), *tmp_path.glob("snapshot*")]:
        path.unlink()
    start(tmp_path).close()
    start(tmp_path).close()


def test_only_changed_participants_are_encoded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file and its check are those of all participants; with a thousand of them, encoding all takes as long as many orders."""
    entries: list[dict[str, Any]] = [{"name": f"bot {number}", "operator": False} for number in range(1000)]
    encoded: list[str] = []

    def noted(entry: dict[str, Any]) -> str:
        encoded.append(entry["name"])
        return participant_text(entry)

    monkeypatch.setattr(participants_file, "participant_text", noted)
    file = participants_file.ParticipantsFile(tmp_path, "an id", entries, lambda: None)
    file.save()
    assert len(encoded) == 1000
    entries[3]["operator"] = True
    entries[5] = {"name": 'Zoë\n"', "operator": False}
    entries.append({"operator": False, "name": "new"})
    encoded.clear()
    file.save()
    assert encoded == ["bot 3", 'Zoë\n"', "new"]
    stored = read_checked(tmp_path / "participants.json", *meta.PARTICIPANTS_KEYS)
    assert stored["participants"] == entries and stored["journal"] == "an id"
    file = participants_file.ParticipantsFile(tmp_path, "an id", [], lambda: None)
    file.save()
    assert read_checked(tmp_path / "participants.json", *meta.PARTICIPANTS_KEYS)["participants"] == []


def test_a_damaged_file_of_events_that_a_restart_does_not_need_is_no_obstacle(tmp_path: Path) -> None:
    """Its header is damaged, so that none of its rows is known, and after a kill it has no index."""
    folder = tmp_path / "journal"
    core = start(folder)
    while core.journal.events.first_sequence == 1:
        submit(core, COUNT)
    core.save_snapshot()
    core.journal.write_events(core.gateway)
    last = core.command_sequence
    core.journal.unlock()
    (folder / "events-000000000001.rows").write_bytes(b"?" * 100)
    core = start(folder)
    assert core.command_sequence == last
    answers = [len(core.journal.answers(0, command_id, core.gateway)) for command_id in (1, last)]
    assert answers[0] == 0 < answers[1]
    core.journal.unlock()


@pytest.mark.parametrize(("stops", "column"), [(True, "qty_lots"), (True, "sequence"), (False, "sequence")])
def test_damaged_events_are_not_continued(stops: bool, column: LiteralString, tmp_path: Path) -> None:
    """The next stop gave the file a check that its damaged rows passed; rows after a damaged sequence number could not be read any longer."""
    folder = tmp_path / "journal"
    core = start(folder)
    submit(core, COUNT)
    if stops:
        core.close()
    else:
        core.save_snapshot()
        core.journal.unlock()
    assert EVENT.fields is not None
    flip(folder / "events-000000000001.rows", HEADER_BYTES + 100 * EVENT.itemsize + EVENT.fields[column][1])
    before = contents(folder)
    with pytest.raises(JournalError, match=r"events-000000000001\.rows: .* fail their check"):
        start(folder)
    assert contents(folder) == before
