"""A file of events as CSV or JSON lines that a later run can append to."""

import csv
import io
import json
from pathlib import Path

from serl.clients.errors import NotAnEventFile
from serl.exchange.records import EVENT, Rows

FIELDS = tuple(EVENT.names or ())
LINE_BYTES_MAX = 4096


class EventFile:
    """Appends EVENT rows: CSV with a header if the name ends with .csv, otherwise JSON lines.

    `sequence` is the number of the last event in the file, 0 in a new one. An incomplete last line is cut off.
    """

    def __init__(self, path: Path) -> None:
        self.path, self._is_csv = path, path.suffix == ".csv"
        self._file = path.open("ab+")
        try:
            self.sequence = self._last_sequence()
        except NotAnEventFile:
            self._file.close()
            raise
        if self._is_csv and self._file.tell() == 0:
            self._file.write((",".join(FIELDS) + "\n").encode())

    def _last_sequence(self) -> int:
        """The event number of the last complete line; truncates the file after it."""
        size = self._file.seek(0, io.SEEK_END)
        self._file.seek(max(0, size - LINE_BYTES_MAX))
        tail = self._file.read()
        complete = tail[: tail.rfind(b"\n") + 1]
        if not size:
            return 0
        try:
            sequence = self._sequence_in(complete.decode().splitlines()[-1])
        except (ValueError, KeyError, TypeError, IndexError):
            raise NotAnEventFile(
                f"{self.path}: expected a file of `serl drop-copy`, got one whose last line is no event; choose another file"
            ) from None
        self._file.truncate(size - len(tail) + len(complete))
        self._file.seek(0, io.SEEK_END)
        return sequence

    def _sequence_in(self, line: str) -> int:
        if not self._is_csv:
            return int(json.loads(line)["sequence"])
        values = line.split(",")
        if tuple(values) == FIELDS:
            return 0
        if len(values) != len(FIELDS):
            raise ValueError(line)
        return int(values[FIELDS.index("sequence")])

    def write(self, rows: Rows) -> None:
        """Appends rows and flushes them to the operating system."""
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
