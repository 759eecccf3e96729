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

    `last` has the values of the last event in the file, in the order of FIELDS; None in a new one. An incomplete last line is cut off.
    """

    def __init__(self, path: Path) -> None:
        self.path, self._is_csv = path, path.suffix == ".csv"
        self._file = path.open("ab+")
        try:
            self.last = self._last_event()
        except NotAnEventFile:
            self._file.close()
            raise
        if self._is_csv and self._file.tell() == 0:
            self._file.write((",".join(FIELDS) + "\n").encode())

    @property
    def sequence(self) -> int:
        """The number of the last event; 0 without one."""
        return self.last[FIELDS.index("sequence")] if self.last else 0

    def _last_event(self) -> tuple[int, ...] | None:
        """The event of the last complete line; truncates the file after it."""
        size = self._file.seek(0, io.SEEK_END)
        self._file.seek(max(0, size - LINE_BYTES_MAX))
        tail = self._file.read()
        complete = tail[: tail.rfind(b"\n") + 1]
        if not size:
            return None
        try:
            last = self._event_in(complete.decode().splitlines()[-1])
        except (ValueError, KeyError, TypeError, IndexError):
            raise NotAnEventFile(
                f"{self.path}: expected a file of `serl drop-copy`, got one whose last line is no event; choose another file"
            ) from None
        self._file.truncate(size - len(tail) + len(complete))
        self._file.seek(0, io.SEEK_END)
        return last

    def _event_in(self, line: str) -> tuple[int, ...] | None:
        if not self._is_csv:
            event = json.loads(line)
            return tuple(int(event[name]) for name in FIELDS)
        values = line.split(",")
        if tuple(values) == FIELDS:
            return None
        if len(values) != len(FIELDS):
            raise ValueError(line)
        return tuple(map(int, values))

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
            self.last = rows[-1].item()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()
