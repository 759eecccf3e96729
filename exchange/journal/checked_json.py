"""JSON files with a checksum and the id of the journal that they belong to. Files without either are from older versions."""

import hashlib
import json
from pathlib import Path
from typing import Any

from serl.exchange.atomic_file import write_json
from serl.exchange.errors import JournalError


def check_of(value: dict[str, Any]) -> str:
    """The check of a JSON object: 16 hexadecimal digits of SHA-256 over everything but `check`."""
    rest = {key: part for key, part in value.items() if key != "check"}
    return check_of_text(json.dumps(rest, sort_keys=True))


def check_of_text(text: str) -> str:
    """The check of a JSON object given as text: without `check` and with sorted keys, as `json.dumps` writes it."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def write_checked(path: Path, value: dict[str, Any]) -> None:
    """Writes a JSON object with its check, atomically."""
    write_json(path, value | {"check": check_of(value)}, indent=1)


def read_checked(path: Path, *keys: str, or_list: bool = False) -> Any:
    """Reads a JSON object that must have these keys. or_list: also accepts a JSON array, as written by older versions. Raises JournalError if it is damaged."""
    try:
        value = json.loads(path.read_text())
    except ValueError as error:
        raise damaged(path, f"expected JSON, got something else ({error})") from None
    if isinstance(value, dict) and "check" in value and value["check"] != check_of(value):
        raise damaged(path, f"expected the check {value['check']}, got {check_of(value)}")
    if not (value.keys() >= set(keys) if isinstance(value, dict) else or_list and isinstance(value, list)):
        raise damaged(path, f"expected a JSON object with {', '.join(keys)}, got {str(value)[:80]}")
    return value


def damaged(path: Path, what: str) -> JournalError:
    """The error about a damaged file of a journal: what was found and what to do."""
    error = JournalError(
        f"{path}: {what}: the journal is damaged, and the exchange does not start, because it could lose acknowledged orders; restore the "
        f"file from a copy, or see what can be saved: serl journal verify {path.parent}; serl journal repair {path.parent} NEW-FOLDER"
    )
    error.finding = f"{path}: {what}"
    return error
