"""Snapshot files: the market after a command, with the id of the journal, a check of the file, and the last event before it."""

import dataclasses
import hashlib
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from serl.exchange.atomic_file import atomic_file, sync_folder
from serl.exchange.journal.checked_json import damaged
from serl.exchange.journal.event_log import EventLog
from serl.exchange.journal.segment import NUMBER, Segment, first_sequence, no_space
from serl.exchange.records import ACCOUNT_COLUMNS, ASSET_COLUMNS, FIRST_ACCOUNT_COLUMNS, ORDER, TERM_COLUMNS, Rows
from serl.exchange.snapshot import LATER_FIELDS, SPECIAL, Snapshot

FIELDS = {field.name for field in dataclasses.fields(Snapshot)}
PART_BYTES = 1 << 18
"""Bytes written at a time."""
RECORDS = {"orders": ORDER, "specials": SPECIAL}


@dataclasses.dataclass(frozen=True)
class SavedSnapshot:
    """A market after command `sequence`."""

    sequence: int
    now_ns: int  # exchange time of the last command
    event_sequence: int
    market: Snapshot


class WaitingSnapshot(NamedTuple):
    """A snapshot that is not saved yet."""

    make: Callable[[], SavedSnapshot]
    events: EventLog
    event_count: int  # number of events in that log before the snapshot
    commands: Segment


def snapshot_paths(folder: Path) -> list[Path]:
    """The snapshot files, oldest first."""
    return sorted(folder.glob(f"snapshot-{NUMBER}.npz"))


def save(folder: Path, journal_id: str, snapshot: SavedSnapshot) -> None:
    """Writes a snapshot; it gets its name once it and its check are on the disk. If there is no room, raises DiskFullError and leaves nothing behind."""
    path = folder / f"snapshot-{snapshot.sequence:012d}.npz"
    market = snapshot.market
    fields = {field.name: np.asarray(getattr(market, field.name)) for field in dataclasses.fields(market)}
    fields |= {name: np.asarray(getattr(snapshot, name), np.int64) for name in ("now_ns", "event_sequence")}
    temporary = path.with_suffix(".tmp")
    try:
        with no_space(path):
            with atomic_file(temporary) as file:
                _write_arrays(file, fields)
            with atomic_file(path.with_suffix(".sha256")) as file:
                file.write(f"{_digest(temporary)} {journal_id}".encode())
        temporary.replace(path)
        sync_folder(folder)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _write_arrays(file: IO[bytes], arrays: dict[str, NDArray[Any]]) -> None:
    """Writes an uncompressed .npz file like numpy.savez, which however copies every array while no other thread can run."""
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array_header_1_0(member, np.lib.format.header_data_from_array_1_0(array))
                data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
                for at in range(0, len(data), PART_BYTES):
                    member.write(data[at : at + PART_BYTES])


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check(path: Path, journal_id: str) -> str:
    """Why a snapshot cannot be used, empty if it can. Raises JournalError if it belongs to another journal."""
    sidecar = path.with_suffix(".sha256")
    if not sidecar.exists():
        return "its check is missing"
    digest, _, owner = sidecar.read_text(errors="replace").partition(" ")
    if owner and owner != journal_id:
        raise damaged(path, f"expected a snapshot of journal {journal_id}, got one of journal {owner}")
    return "" if _digest(path) == digest else "it fails its check"


def load(path: Path, journal_id: str) -> SavedSnapshot | None:
    """Reads a snapshot; None if it fails its check or a version wrote it whose snapshots this one cannot read, and
    the commands must be executed again."""
    if check(path, journal_id):
        return None
    try:
        values: dict[str, Any] = dict(np.load(path, allow_pickle=False))
    except (ValueError, OSError, zipfile.BadZipFile):
        return None
    if FIELDS - values.keys() - set(LATER_FIELDS) or values["accounts"].shape[1] < FIRST_ACCOUNT_COLUMNS:
        return None
    if values["terms"].shape[1] > TERM_COLUMNS or values["accounts"].shape[1] > ACCOUNT_COLUMNS:
        return None
    values["terms"] = _widened(values["terms"], TERM_COLUMNS)
    values["accounts"] = _widened(values["accounts"], ACCOUNT_COLUMNS)
    symbols = len(values["halted"])
    values.setdefault("assets", np.zeros((symbols, ASSET_COLUMNS), np.int64))
    values.setdefault("deposits", np.zeros((len(values["report"]), 2 * symbols), np.int64))
    for name, dtype in RECORDS.items():
        if values[name].dtype != dtype:
            if set(values[name].dtype.names or ("",)) - set(dtype.names or ()):
                return None
            values[name] = _with_fields(values[name], dtype)
        # as numpy reads it, it is not marked as aligned, and compiled code would be compiled for that type too
        values[name] = values[name].view(dtype)
    now_ns, event_sequence = int(values.pop("now_ns")), int(values.pop("event_sequence"))
    market = Snapshot(**{name: value if value.ndim else value.item() for name, value in values.items()})
    return SavedSnapshot(first_sequence(path), now_ns, event_sequence, market)


def _widened(values: NDArray[np.int64], columns: int) -> NDArray[np.int64]:
    """The values padded with the columns that the version that wrote them did not have."""
    return np.pad(values, ((0, 0), (0, columns - values.shape[1])))


def _with_fields(rows: Rows, dtype: np.dtype[np.void]) -> Rows:
    """The rows as records with more fields, 0 in those that the version that wrote them did not have."""
    wider = np.zeros(len(rows), dtype)
    for name in rows.dtype.names or ():
        wider[name] = rows[name]
    return wider


def event_sequence(path: Path) -> int | None:
    """The last event before a snapshot; None if the file is too damaged to tell. Raises FileNotFoundError if it is gone."""
    try:
        with np.load(path, allow_pickle=False) as values:
            return int(values["event_sequence"])
    except (ValueError, KeyError, EOFError, AttributeError, zipfile.BadZipFile):
        return None
