"""The results of a long command on disk, so that it can be continued: a line of JSON with the settings, then one for each finished part."""

import contextlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, Generic, TypeVar

from serl.exchange.errors import ConfigError

Result = TypeVar("Result")


class ResultFileError(ConfigError):
    """Raised for a file of results that exists but must not, is missing, belongs to other settings, or cannot be written."""


class ResultFile(Generic[Result]):
    """A file of results. A line that a crash has truncated is dropped.

    Attributes:
        results: the results in the file when it was opened, parsed by `read`.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any], read: Callable[[Any], Result], *, resume: bool) -> None:
        """ResultFileError if there are results although `resume` is false, if there are none although it is true, or if they belong to other settings
        or to another version."""
        self.path = path
        self.results: list[Result] = []
        if resume:
            self._continue(settings, read)
        else:
            self._create(settings)
        self._file: IO[bytes] = path.open("ab")

    def _create(self, settings: Mapping[str, Any]) -> None:
        if self.path.exists():
            raise ResultFileError(
                f"{self.path}: expected no results, got some; continue with --resume, or give another --output"
            )
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_bytes(_line(settings))
        except OSError as error:
            raise ResultFileError(
                f"{self.path}: expected a folder to write to, got {error.strerror}; give another --output"
            ) from None

    def _continue(self, settings: Mapping[str, Any], read: Callable[[Any], Result]) -> None:
        if not self.path.exists():
            raise ResultFileError(f"{self.path}: expected results to continue, got none; leave --resume out")
        lines = self.path.read_bytes().splitlines(keepends=True)
        whole = [line for line in lines if line.endswith(b"\n")]
        if not whole:  # the process was killed while it created the file
            self.path.write_bytes(_line(settings))
            return
        try:
            before, *rows = [json.loads(line) for line in whole]
            differing = [name for name in settings if before[name] != settings[name]]
            self.results = [read(row) for row in rows]
        except (ValueError, KeyError, TypeError):
            raise ResultFileError(
                f"{self.path}: expected results of this command, got a damaged file; give another --output"
            ) from None
        if differing:
            raise ResultFileError(
                f"{self.path}: expected results of these settings, got those of others ({', '.join(differing)} differ); give another --output"
            )
        if len(whole) < len(lines):
            with self.path.open("r+b") as file:
                file.truncate(sum(map(len, whole)))

    def append(self, row: Mapping[str, Any]) -> None:
        """Writes a result. ResultFileError if it cannot be written."""
        try:
            self._file.write(_line(row))
            self._file.flush()
        except OSError as error:
            raise ResultFileError(
                f"{self.path}: expected to save a result, got {error.strerror}; free disk space, then continue with --resume"
            ) from None

    def close(self) -> None:
        """Closes the file. A row that could not be written is tried again; `append` has raised the error of that."""
        with contextlib.suppress(OSError):
            self._file.close()


def _line(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, allow_nan=False).encode() + b"\n"
