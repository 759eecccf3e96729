"""The record of calls: one JSON object per line. It is also the cache from which a run is replayed.

A line holds `key` (SHA-256 of the request), `time_ns`, `request`, `attempts` (failures before the answer) and either `answer` with
`prompt_tokens`, `completion_tokens`, `estimated` (true if the endpoint reported no counts), `cost_usd`, `wall_s`, or `error`. A line that a
kill cut off is dropped when the file is opened.
"""

import hashlib
import json
import os
import threading
from collections.abc import Collection
from pathlib import Path
from typing import Any

from serl.researcher.llm.errors import LlmError


def key_of(request: dict[str, Any]) -> str:
    """SHA-256 of the request as canonical JSON."""
    text = json.dumps(request, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


class Record:
    """The calls of a run, in a JSONL file or, without a path, in memory. Thread-safe."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._answers: dict[str, dict[str, Any]] = {}
        self.tokens = 0
        self.usd = 0.0
        if path and path.exists():
            self._load(path)

    def __len__(self) -> int:
        return len(self._answers)

    @property
    def answered(self) -> Collection[dict[str, Any]]:
        """The lines with an answer."""
        return self._answers.values()

    def find(self, key: str) -> dict[str, Any] | None:
        """The line that answers a request, or None."""
        return self._answers.get(key)

    def add(self, line: dict[str, Any]) -> None:
        """Append a call and sync it to disk. LlmError if the file cannot be written."""
        with self._lock:
            self._count(line)
            if self._path is None:
                return
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                with self._path.open("a") as file:
                    file.write(json.dumps(line) + "\n")
                    file.flush()
                    os.fsync(file.fileno())
            except OSError as error:
                raise LlmError(
                    f"{self._path}: cannot write the record of calls ({error}); free disk space, or give another file"
                ) from None

    def _load(self, path: Path) -> None:
        data = path.read_bytes()
        complete_bytes = data.rfind(b"\n") + 1
        if complete_bytes < len(data):
            os.truncate(path, complete_bytes)
        for number, text in enumerate(data[:complete_bytes].splitlines(), 1):
            try:
                self._count(json.loads(text))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise LlmError(
                    f"{path}:{number}: expected a line of a record of calls, got something else ({error}); move the file away"
                ) from None

    def _count(self, line: dict[str, Any]) -> None:
        key = line["key"]
        if "answer" in line:
            self._answers[key] = line
            self.tokens += line["prompt_tokens"] + line["completion_tokens"]
            self.usd += line["cost_usd"]
