"""Files of JSON lines that other processes follow while they are written."""

import json
from pathlib import Path
from typing import Any

from serl.agents.execution.errors import ProgressError


class JsonLinesFile:
    """Each line appears in the file as soon as it is written."""

    def __init__(self, path: Path) -> None:
        """ProgressError if the file cannot be written."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("w", buffering=1)
        except OSError as error:
            raise ProgressError(
                f"{path}: expected a writable file, got {error.strerror}; choose another path"
            ) from None

    def write(self, **line: Any) -> None:
        """Appends a JSON object as a line."""
        self._file.write(json.dumps(line) + "\n")

    def close(self) -> None:
        """Closes the file."""
        self._file.close()
