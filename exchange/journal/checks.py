"""Checks command segments without changing them: which part is valid, which is an unfinished tail, and which is damaged."""

import dataclasses
from pathlib import Path

import numpy as np

from serl.exchange.journal.checked_json import damaged
from serl.exchange.journal.segment import HEADER_BYTES, first_sequence, read_header
from serl.exchange.journal.stored import stored_rows
from serl.exchange.records import COMMAND, Rows
from serl.exchange.row_checksum import count_valid, find_valid

ROW_BYTES = COMMAND.itemsize


@dataclasses.dataclass(frozen=True)
class CommandCheck:
    """What a command segment contains."""

    path: Path
    first_sequence: int
    capacity: int
    valid: int  # number of rows at the start that pass their checks
    tail_bytes: int  # bytes after the valid rows, up to the last one that is not zero
    failed: int  # number of later rows that were journaled, by their sequence number, but fail their checks
    later_valid: bool  # whether a later row passes its check

    def damage(self, *, last: bool) -> str:
        """A description of the damage; empty if there is none. Only the last row of the last segment may be unfinished."""
        first = self.first_sequence + self.valid
        if self.later_valid:
            return f"command {first} is corrupt but later ones are valid"
        if self.failed > (1 if last else 0):
            return f"commands {first} to {first + self.failed - 1} fail their checks"
        if not last and self.valid == 0:
            return f"command {first} is missing, though a later file follows"
        return ""


def map_commands(path: Path) -> Rows:
    """The complete rows of a command file, in memory or in private pages, so that changes do not reach the file."""
    if path.suffix == ".zrows":
        return stored_rows(path, COMMAND)[:]
    count = max(0, path.stat().st_size - HEADER_BYTES) // ROW_BYTES
    return np.asarray(np.memmap(path, COMMAND, "c", HEADER_BYTES, count)) if count else np.zeros(0, COMMAND)


def check_commands(path: Path, salt: int, journal_id: str) -> CommandCheck:
    """Checks every row of a command segment. Raises JournalError for a damaged header or a file of another journal."""
    header = read_header(path, COMMAND, journal_id)
    rows, first = map_commands(path), header["first_sequence"]
    if first != first_sequence(path):
        raise damaged(path, f"expected the first sequence {first_sequence(path)} of its name, got {first}")
    words = rows.view(np.int64).reshape(len(rows), ROW_BYTES // 8)
    valid = int(count_valid(rows, words, first, salt))
    later = int(find_valid(rows, words, first, valid, salt)) if valid < len(rows) else -1
    journaled = np.flatnonzero(rows["sequence"][valid:] == first + np.arange(valid, len(rows)))
    failed = int(journaled[-1]) + 1 if len(journaled) else 0
    return CommandCheck(path, first, header["capacity"], valid, _used_bytes(path, valid), failed, later >= 0)


def _used_bytes(path: Path, valid: int) -> int:
    offset = HEADER_BYTES + valid * ROW_BYTES
    if path.suffix == ".zrows":
        return 0
    if path.stat().st_size <= offset:
        return 0
    used = np.flatnonzero(np.memmap(path, np.uint8, "r", offset))
    return int(used[-1]) + 1 if len(used) else 0
