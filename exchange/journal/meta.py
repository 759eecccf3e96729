"""meta.json and participants.json: the identity of a journal, the salt of its checks, and the names of its participants."""

import itertools
import json
import secrets
from pathlib import Path
from typing import Any

from serl.exchange.atomic_file import atomic_file
from serl.exchange.errors import JournalError
from serl.exchange.journal.checked_json import check_of_text, damaged, read_checked, write_checked

FORMAT = 1
UNNAMED = (".new", ".tmp")
"""Suffixes of files that are being written."""
META, META_COPY, PARTICIPANTS = "meta.json", "meta-copy.json", "participants.json"
META_KEYS, PARTICIPANTS_KEYS = ("format", "symbols", "salt", "epoch"), ("journal", "participants")
DISPLAY_DIVISORS, LIMITS, OPERATORS_BEFORE, RULES = "display_divisors", "limits", "operators_before", "rules"
"""Keys of the conditions under which a restart executes commands again: [first command, value] for each change, for operators [last command before it,
value]."""
FIRST_RULES = 1
"""The rules of journals that do not name any."""
REPLAYED_LIMITS = ("qty_lots_max", "price_ticks_max", "orders_open_max", "levels_max")


def open_meta(folder: Path, symbols: list[dict[str, str]]) -> dict[str, Any]:
    """The meta of a journal, or of a new one in an empty folder. Writes nothing. Raises JournalError if it is damaged or has other symbols."""
    path = folder / META
    if not path.exists() and not is_new(folder):
        raise damaged(path, "expected the file with the journal's symbols and the salt of its checks, got none")
    meta: dict[str, Any] = (
        read_checked(path, *META_KEYS)
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
    if "id" not in meta:
        meta["id"] = (_id_of_participants(folder) if path.exists() else "") or secrets.token_hex(8)
    return meta


def _id_of_participants(folder: Path) -> str:
    """The id in participants.json, empty if it has none. A start that gave an older version's journal its id may have been killed before it
    wrote the meta."""
    path = folder / PARTICIPANTS
    value = read_checked(path, *PARTICIPANTS_KEYS, or_list=True) if path.exists() else []
    return "" if isinstance(value, list) else str(value["journal"])


def parts(meta: dict[str, Any], first: int, stop: int) -> list[tuple[int, int]]:
    """[(first, stop)]: the commands first..stop-1, split where their limits or operators changed."""
    cuts = {int(change[0]) for name in (LIMITS, DISPLAY_DIVISORS) for change in meta.get(name, [])}
    cuts |= {int(change[0]) + 1 for change in meta.get(OPERATORS_BEFORE, [])}
    inside = sorted(cut for cut in cuts if first < cut < stop)
    return list(itertools.pairwise([first, *inside, stop]))


def limits_at(meta: dict[str, Any], sequence: int) -> dict[str, int]:
    """The limits under which a command was executed, by name: display_divisor_max (0 before that limit existed) and the noted ones."""
    limits = next((dict(values) for first, values in reversed(meta.get(LIMITS, [])) if first <= sequence), {})
    divisors = [value for first, value in meta.get(DISPLAY_DIVISORS, []) if first <= sequence]
    return limits | {"display_divisor_max": divisors[-1] if divisors else 0}


def operators_at(meta: dict[str, Any], sequence: int) -> list[int] | None:
    """The numbers of the operators when a command was executed; None: the current ones."""
    return next((numbers for last, numbers in meta.get(OPERATORS_BEFORE, []) if sequence <= last), None)


def note_limits(meta: dict[str, Any], first: int, limits: dict[str, int], rules: int) -> bool:
    """Notes the limits and the rules (market.MATCHING_RULES) for executing the commands from `first` on. Returns whether that changed the meta."""
    others = {name: limits[name] for name in REPLAYED_LIMITS}
    changes = [
        _note(meta, DISPLAY_DIVISORS, first, limits["display_divisor_max"]),  # separate: earlier versions read it
        _note(meta, LIMITS, first, others),
        _note(meta, RULES, first, rules),
    ]
    return any(changes)


def check_rules(folder: Path, meta: dict[str, Any], first: int, stop: int, number: int) -> None:
    """Raises JournalError if any of the commands first..stop-1, which a restart executes again, was executed under rules other than `number`."""
    changes = [(0, FIRST_RULES), *meta.get(RULES, []), (stop, number)]
    for (begin, rules), (end, _) in itertools.pairwise(changes):
        if rules != number and max(begin, first) < min(end, stop):
            raise JournalError(
                f"{folder}: expected commands {first} to {stop - 1} to have been executed by matching rules {number}, got rules {rules}, and their events "
                "could become others; start and stop it once with the version of serl that wrote it (a stop writes a snapshot), then start this one"
            )


def _note(meta: dict[str, Any], name: str, first: int, value: object) -> bool:
    before = meta.get(name, [])
    changes = [change for change in before if change[0] < first]
    if not changes or changes[-1][1] != value:
        changes.append([first, value])
    meta[name] = changes
    return bool(changes != before)


def note_operators(meta: dict[str, Any], last: int, numbers: list[int]) -> None:
    """Notes the operators of the commands up to `last`, before they change, unless they have already changed since that command."""
    before = meta.get(OPERATORS_BEFORE, [])
    if not before or before[-1][0] < last:
        meta[OPERATORS_BEFORE] = [*before, [last, numbers]]


def cut_operators(meta: dict[str, Any], last: int) -> bool:
    """Removes the lost commands, those after `last`, from the notes of operators: later commands run with the current operators. Returns whether
    that changed the meta."""
    before = meta.get(OPERATORS_BEFORE, [])
    changes = [[min(noted, last), numbers] for noted, numbers in before]
    if changes == before:
        return False
    meta[OPERATORS_BEFORE] = changes
    return True


def write_meta(folder: Path, meta: dict[str, Any]) -> None:
    """Writes meta.json and its copy, from which `serl journal repair` restores it."""
    write_checked(folder / META_COPY, meta)
    write_checked(folder / META, meta)


def is_new(folder: Path) -> bool:
    """Whether no command, event or snapshot has been written to the folder. Files without their final name do not count."""
    return not any(path.suffix not in UNNAMED for path in folder.glob("*-[0-9]*"))


def save_participants(folder: Path, journal_id: str, participants: list[dict[str, Any]]) -> None:
    """Writes participants.json."""
    write_participants(folder, journal_id, [participant_text(each) for each in participants])


def participant_text(participant: dict[str, Any]) -> str:
    """The text of a participant for `write_participants`."""
    return json.dumps(participant, sort_keys=True)


def write_participants(folder: Path, journal_id: str, texts: list[str]) -> None:
    """Writes participants.json from the participants' texts, one in each line."""
    name = json.dumps(journal_id)
    check = check_of_text(f'{{"journal": {name}, "participants": [{", ".join(texts)}]}}')
    lines = ",\n  ".join(texts)
    with atomic_file(folder / PARTICIPANTS) as file:
        file.write(f'{{\n "journal": {name},\n "participants": [\n  {lines}\n ],\n "check": "{check}"\n}}'.encode())


def read_participants(folder: Path, journal_id: str) -> list[dict[str, Any]]:
    """The participants in the order of their numbers. journal_id: empty for an older version's journal. Raises JournalError if the file is
    damaged, or missing from a journal that had it."""
    path = folder / PARTICIPANTS
    if not (folder / META).exists():
        return []
    if not path.exists():
        if (folder / META_COPY).exists():
            raise damaged(path, "expected the file with the participants' names, got none")
        return []
    value = read_checked(path, *PARTICIPANTS_KEYS, or_list=True)
    if isinstance(value, list):
        return value  # from an older version
    if journal_id and value["journal"] != journal_id:
        raise damaged(path, f"expected a file of journal {journal_id}, got one of journal {value['journal']}")
    participants: list[dict[str, Any]] = value["participants"]
    return participants
