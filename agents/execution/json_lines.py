"""A file of JSON lines that others follow while it is written."""

import json
from pathlib import Path
from typing import Any

from serl.agents.execution.errors import ProgressError


class LinesFile:
    """Each line is there as soon as it is said."""

    def __init__(self, path: Path) -> None:
        """ProgressError if the file cannot be written."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("w", buffering=1)
        except OSError as error:
            raise ProgressError(f"{path}: a file that can be written is due ({error.strerror})") from None

    def say(self, **line: Any) -> None:
        """Writes a line."""
        self._file.write(json.dumps(line) + "\n")

    def close(self) -> None:
        """Nothing more is said."""
        self._file.close()
