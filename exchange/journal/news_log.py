"""The news of a journal: one line of JSON for each message, with a check, on the disk before it is acknowledged.

The first line names the journal. The next start cuts off a line that was being written when the exchange died, and rewrites the file: after a
failed sync the kernel takes unwritten data for written.
"""

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from serl.exchange.atomic_file import atomic_file
from serl.exchange.errors import DiskFullError
from serl.exchange.journal.checked_json import check_of, damaged
from serl.exchange.journal.segment import no_space, write_all
from serl.exchange.news import News

NEWS = "news.jsonl"
FORMAT = 1


class StoredNews(NamedTuple):
    """The contents of a file of news: its undamaged messages, and the numbers (from 1) of its damaged lines."""

    journal_id: str
    messages: list[News]
    damaged_lines: list[int]


class NewsLog:
    """The messages of an open journal, oldest first: at least the `kept` newest."""

    def __init__(self, folder: Path, journal_id: str, kept: int) -> None:
        self._path, self._journal_id, self._kept = folder / NEWS, journal_id, kept
        self.messages: list[News] = []
        self._end = 0
        if self._path.exists():
            stored = read_news(self._path)
            if stored.damaged_lines:
                raise damaged(self._path, f"line {stored.damaged_lines[0]} fails its check")
            if stored.messages and stored.journal_id != journal_id:
                raise damaged(self._path, f"expected a file of journal {journal_id}, got one of {stored.journal_id}")
            self.messages = stored.messages
            self._rewrite()

    @property
    def last(self) -> int:
        """The number of the newest message; 0 without one."""
        return self.messages[-1].sequence if self.messages else 0

    @property
    def last_ns(self) -> int:
        """The time of the newest message; 0 without one."""
        return self.messages[-1].time_ns if self.messages else 0

    def append(self, message: News) -> None:
        """Adds a message; returns once it is on the disk. If there is no room, raises DiskFullError and changes nothing."""
        if not self._end:
            with no_space(self._path):
                self._end = write_news(self._path, self._journal_id, [message])
        else:
            self._append(_line(message.to_json()))
        self.messages.append(message)
        if len(self.messages) > 2 * self._kept:
            with suppress(DiskFullError):  # the message is on the disk; the next one tries again
                self._rewrite()

    def _append(self, line: bytes) -> None:
        with no_space(self._path):
            file = os.open(self._path, os.O_RDWR, 0o600)
            try:
                write_all(file, line, self._end)
                os.fdatasync(file)
            except OSError:
                with suppress(OSError):
                    os.ftruncate(file, self._end)
                raise
            finally:
                os.close(file)
        self._end += len(line)

    def _rewrite(self) -> None:
        """Rewrites the file with the messages that are kept."""
        with no_space(self._path):
            self._end = write_news(self._path, self._journal_id, self.messages[-self._kept :])
        del self.messages[: -self._kept]


def write_news(path: Path, journal_id: str, messages: Sequence[News]) -> int:
    """Writes a file of news, atomically. Returns its size."""
    head = {"format": FORMAT, "journal": journal_id}
    data = b"".join(map(_line, (head, *(message.to_json() for message in messages))))
    with atomic_file(path) as file:
        file.write(data)
    return len(data)


def read_news(path: Path) -> StoredNews:
    """Reads a file of news. The last line may be unfinished."""
    *lines, rest = path.read_bytes().split(b"\n")
    parsed = [_parsed(line) for line in lines]
    if not rest and len(parsed) > 1 and parsed[-1] is None:
        del parsed[-1]  # a power cut may leave its end without its beginning
    head = parsed[0] if parsed else None
    messages: list[News] = []
    damaged_lines = [] if head is not None or len(parsed) < 2 else [1]
    for number, values in enumerate(parsed[1:], 2):
        with suppress(KeyError, TypeError, ValueError):
            message = News.from_json(values or {})
            if not messages or message.sequence > messages[-1].sequence:
                messages.append(message)
                continue
        damaged_lines.append(number)
    return StoredNews(str((head or {}).get("journal", "")), messages, damaged_lines)


def _line(values: dict[str, Any]) -> bytes:
    return json.dumps(values | {"check": check_of(values)}).encode() + b"\n"


def _parsed(line: bytes) -> dict[str, Any] | None:
    """The JSON object of a line; None unless it passes its check."""
    with suppress(ValueError):
        values = json.loads(line)
        if isinstance(values, dict) and values.get("check") == check_of(values):
            return values
    return None
