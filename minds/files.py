"""The files of a run: its decisions, line by line, and its statistics."""

import json
from pathlib import Path
from types import TracebackType
from typing import Any

from serl.exchange.errors import UnwritableFileError


class DecisionFile:
    """A JSONL file with a line for each decision, written as it is made. The first one replaces the file of an earlier run."""

    def __init__(self, path: Path) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a", encoding="utf-8")
        except OSError as error:
            raise UnwritableFileError(f"{path}: cannot be written ({error.strerror}); give another --output") from None
        self._has_lines = False

    def add(self, row: dict[str, object]) -> None:
        """Writes a line."""
        if not self._has_lines:
            self._file.truncate(0)
            self._has_lines = True
        self._file.write(json.dumps(row, ensure_ascii=False) + "\n")
        self._file.flush()

    def __enter__(self) -> "DecisionFile":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def write_statistics(path: Path, statistics: dict[str, Any]) -> None:
    """Writes the statistics as JSON."""
    path.write_text(json.dumps(statistics, indent=1) + "\n", encoding="utf-8")
