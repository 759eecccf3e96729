"""Follows a file of JSON lines as it grows."""

from pathlib import Path
from typing import Any

READ_BYTES_MAX = 1 << 18
"""Maximum bytes per read, or one line if it is longer; a longer file takes several reads."""
LINE_BYTES_MAX = 1 << 25
TAIL_BYTES = 1 << 12
"""Number of the last bytes read, which identify a file: the next run may rewrite it in place, and longer."""
NUMBER_MAX = 1 << 63
MALFORMED = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""Exceptions that a line of another form may raise."""


def finite(value: Any) -> Any:
    """Returns the value if it is a finite number below NUMBER_MAX, which a page's JSON can represent; otherwise raises ValueError."""
    if not isinstance(value, int | float) or not abs(value) < NUMBER_MAX:
        raise ValueError(f"expected a finite number, got {value!r}")
    return value


class JsonLines:
    """One file; it may not exist yet, and it may be replaced or truncated.

    Attributes:
        problem: why the last read failed; empty if it did not, or if the file does not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problem = ""
        self._at, self._tail = 0, b""

    def read_new(self) -> tuple[bool, list[bytes]]:
        """(whether the file was replaced, truncated or removed since the last read, its new complete lines)."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._at - len(self._tail))
                restarted = file.read(len(self._tail)) != self._tail
                if restarted:
                    self._at, self._tail = 0, b""
                    file.seek(0)
                data = file.read(READ_BYTES_MAX)
                if len(data) == READ_BYTES_MAX and b"\n" not in data:
                    data += file.readline(LINE_BYTES_MAX - READ_BYTES_MAX)
        except FileNotFoundError:
            restarted, self._at, self._tail, self.problem = self._at > 0, 0, b"", ""
            return restarted, []
        except OSError as error:
            self.problem = f"{self.path} cannot be read: {error.strerror}"
            return False, []
        is_too_long = len(data) == LINE_BYTES_MAX and not data.endswith(b"\n")
        self.problem = (
            f"{self.path}: expected lines of at most {LINE_BYTES_MAX:,} bytes, got a longer one; write shorter lines"
            if is_too_long
            else ""
        )
        complete = data[: data.rfind(b"\n") + 1]
        self._at += len(complete)
        self._tail = (self._tail + complete)[-TAIL_BYTES:]
        return restarted, complete.splitlines()
