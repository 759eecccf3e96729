"""Processes that a test has started, and those that these have started: all inherit a mark in their environment."""

import os
import uuid
from pathlib import Path


class Mark:
    """A variable that no other process has."""

    def __init__(self) -> None:
        self._name, self._value = "SERL_TEST_MARK", uuid.uuid4().hex

    def environment(self, **changes: str) -> dict[str, str]:
        """Ours with the mark and changes."""
        return {**os.environ, self._name: self._value, **changes}

    def processes(self) -> list[int]:
        """The process ids that carry the mark."""
        found, mark = [], f"{self._name}={self._value}".encode()
        for path in Path("/proc").glob("[0-9]*/environ"):
            try:
                if mark in path.read_bytes().split(b"\0"):
                    found.append(int(path.parent.name))
            except OSError:
                continue  # it has ended, or belongs to another user
        return found
