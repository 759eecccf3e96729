"""A file of JSON lines, followed as it grows."""

from pathlib import Path
from typing import Any

LOOK_BYTES = 1 << 18
"""Taken at one look; of a longer file the rest follows with the next ones."""
NUMBER_MAX = 1 << 63
NOT_A_LINE = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""What reading a line may raise that is not what was agreed."""


def number(value: Any) -> Any:
    """It, if JSON of a page can carry it: finite, and less than NUMBER_MAX; ValueError otherwise."""
    if not isinstance(value, int | float) or not abs(value) < NUMBER_MAX:
        raise ValueError(f"a number is due, got {value!r}")
    return value


class Lines:
    """One file; it may not be there yet, and it may begin anew.

    Attributes:
        problem: why the last look could not read it, empty if it could or the file is not there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problem = ""
        self._at = self._inode = 0

    def look(self) -> tuple[bool, list[bytes]]:
        """Whether the file has begun anew since the last look (or is gone), and the lines that are whole and were not seen."""
        try:
            with self.path.open("rb") as file:
                found = self.path.stat()
                anew = self._at > 0 and (found.st_ino != self._inode or found.st_size < self._at)
                if anew:
                    self._at = 0
                self._inode = found.st_ino
                file.seek(self._at)
                data = file.read(LOOK_BYTES)
        except FileNotFoundError:
            anew, self._at, self.problem = self._at > 0, 0, ""
            return anew, []
        except OSError as error:
            self.problem = f"{self.path} cannot be read: {error.strerror}"
            return False, []
        self.problem = ""
        whole = data[: data.rfind(b"\n") + 1]
        self._at += len(whole)
        return anew, whole.splitlines()
