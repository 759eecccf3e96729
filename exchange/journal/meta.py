"""meta.json and participants.json: the identity of a journal, the salt of its checks, and the names of its participants."""

import secrets
from pathlib import Path
from typing import Any

from serl.exchange.errors import JournalError
from serl.exchange.journal.checked_json import damaged, read_checked, write_checked

FORMAT = 1
UNNAMED = (".new", ".tmp")
"""Suffixes of files that are being written."""
META, META_COPY, PARTICIPANTS = "meta.json", "meta-copy.json", "participants.json"


def open_meta(folder: Path, symbols: list[dict[str, str]]) -> dict[str, Any]:
    """The meta of a journal, or of a new one in an empty folder. Writes nothing. Raises JournalError where it is damaged or of other symbols."""
    path = folder / META
    if not path.exists() and not is_new(folder):
        raise damaged(path, "expected the file with the journal's symbols and the salt of its checks, got none")
    meta: dict[str, Any] = (
        read_checked(path)
        if path.exists()
        else {"format": FORMAT, "symbols": symbols, "salt": secrets.randbits(62), "epoch": 0}
    )
    if meta["format"] != FORMAT:
        raise JournalError(
            f"{path}: expected format {FORMAT}, got {meta['format']}; use the version of serl that wrote it"
        )
    if meta["symbols"] != symbols:
        names = [symbol["name"] for symbol in meta["symbols"]]
        raise JournalError(
            f"{folder}: expected the symbols {names} and tick sizes that it was written with, got "
            f"{[symbol['name'] for symbol in symbols]}; start with the same symbols or with another folder"
        )
    meta.setdefault("id", secrets.token_hex(8))
    return meta


def display_divisors(meta: dict[str, Any], first: int, stop: int) -> list[tuple[int, int]]:
    """[(stop, display_divisor_max)]: under which limit each part of the commands first..stop-1 was executed. 0 before there was one."""
    changes = [(int(sequence), int(value)) for sequence, value in meta.get("display_divisors", [])]
    value = next((value for sequence, value in reversed(changes) if sequence <= first), 0)
    parts = []
    for sequence, following in changes:
        if first < sequence < stop:
            parts.append((sequence, value))
            value = following
    return [*parts, (stop, value)]


def set_display_divisor(meta: dict[str, Any], first: int, value: int) -> bool:
    """Notes the limit under which the commands from `first` on are executed; whether that changed the meta."""
    before = meta.get("display_divisors", [])
    changes = [change for change in before if change[0] < first]
    if not changes or changes[-1][1] != value:
        changes.append([first, value])
    meta["display_divisors"] = changes
    return bool(changes != before)


def write_meta(folder: Path, meta: dict[str, Any]) -> None:
    """Writes meta.json and its copy, from which `serl journal repair` restores it."""
    write_checked(folder / META_COPY, meta)
    write_checked(folder / META, meta)


def is_new(folder: Path) -> bool:
    """Whether no command, event or snapshot has been written to the folder. Files that have not got their name yet do not count."""
    return not any(path.suffix not in UNNAMED for path in folder.glob("*-[0-9]*"))


def save_participants(folder: Path, journal_id: str, participants: list[dict[str, Any]]) -> None:
    """Writes participants.json."""
    write_checked(folder / PARTICIPANTS, {"journal": journal_id, "participants": participants})


def read_participants(folder: Path, journal_id: str) -> list[dict[str, Any]]:
    """The participants in the order of their numbers. Raises JournalError where the file is damaged, or missing from a journal that had it."""
    path = folder / PARTICIPANTS
    if not (folder / META).exists():
        return []
    if not path.exists():
        if (folder / META_COPY).exists():
            raise damaged(path, "expected the file with the participants' names, got none")
        return []
    value = read_checked(path)
    if isinstance(value, list):
        return value  # of an older version
    if value["journal"] != journal_id:
        raise damaged(path, f"expected a file of journal {journal_id}, got one of journal {value['journal']}")
    participants: list[dict[str, Any]] = value["participants"]
    return participants
