"""Events as lines of text, CSV or JSON, in a file that is gone on with where it ends."""

import csv
import io
import json
from pathlib import Path

from serl.clients.errors import NotEvents
from serl.exchange.records import EVENT, Rows

FIELDS = tuple(EVENT.names or ())
TAIL_BYTES = 4096
"""A line is never longer."""


class EventFile:
    """Appends EVENT rows; a name that ends with .csv makes CSV with a head, any other one JSON a line.

    `sequence` is that of the last event in the file, 0 in a new one. What is left of a line that was not finished is cut off.
    """

    def __init__(self, path: Path) -> None:
        self.path, self._is_csv = path, path.suffix == ".csv"
        self._file = path.open("ab+")
        try:
            self.sequence = self._last_sequence()
        except NotEvents:
            self._file.close()
            raise
        if self._is_csv and self._file.tell() == 0:
            self._file.write((",".join(FIELDS) + "\n").encode())

    def _last_sequence(self) -> int:
        """Of the last whole line; the file is cut behind it, if it is one of ours."""
        size = self._file.seek(0, io.SEEK_END)
        self._file.seek(max(0, size - TAIL_BYTES))
        tail = self._file.read()
        whole = tail[: tail.rfind(b"\n") + 1]
        if not size:
            return 0
        try:
            sequence = self._sequence_of(whole.decode().splitlines()[-1])
        except (ValueError, KeyError, TypeError, IndexError):
            raise NotEvents(f"{self.path}: its end is not what a drop copy writes; choose another file") from None
        self._file.truncate(size - len(tail) + len(whole))
        self._file.seek(0, io.SEEK_END)
        return sequence

    def _sequence_of(self, line: str) -> int:
        if not self._is_csv:
            return int(json.loads(line)["sequence"])
        values = line.split(",")
        if tuple(values) == FIELDS:
            return 0
        if len(values) != len(FIELDS):
            raise ValueError(line)
        return int(values[FIELDS.index("sequence")])

    def write(self, rows: Rows) -> None:
        """Appends rows, and has them in the system's hands when it returns."""
        text = io.StringIO()
        if self._is_csv:
            csv.writer(text, lineterminator="\n").writerows(rows.tolist())
        else:
            text.writelines(json.dumps(dict(zip(FIELDS, row, strict=True))) + "\n" for row in rows.tolist())
        self._file.write(text.getvalue().encode())
        self._file.flush()
        if len(rows):
            self.sequence = int(rows[-1]["sequence"])

    def close(self) -> None:
        """Closes the file."""
        self._file.close()
