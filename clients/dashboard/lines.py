"""A file of JSON lines, followed as it grows."""

from pathlib import Path

LOOK_BYTES = 1 << 18
"""Taken at one look; of a longer file the rest follows with the next ones."""


class Lines:
    """One file; it may not be there yet, and it may begin anew."""

    def __init__(self, path: Path) -> None:
        self.path = path
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
            anew, self._at = self._at > 0, 0
            return anew, []
        whole = data[: data.rfind(b"\n") + 1]
        self._at += len(whole)
        return anew, whole.splitlines()
