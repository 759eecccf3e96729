"""The record of calls: one JSON object per line. It is also the cache from which a run is replayed.

A line holds `key` (SHA-256 of the request with its seed), `time_ns`, `request`, `attempts` (failures before the answer) and either `answer` with
`prompt_tokens`, `completion_tokens`, `estimated` (true if the endpoint reported no counts), `cost_usd`, `wall_s`, or `error`. A request that was
not sent because a `budget` was spent may have a line too. A line that a kill cut off is dropped when the file is opened.
"""

import contextlib
import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from serl.researcher.llm.errors import BudgetSpentError, LlmError


def key_of(request: dict[str, Any], seed: int) -> str:
    """SHA-256 of the request as canonical JSON. The seed is part of it even if it is not sent: answers with different seeds are different draws."""
    text = json.dumps({"seed": seed, **request}, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


BEGINNING = b'{"key": "'
"""How a line begins. A file whose incomplete last line begins differently is not a record, and is left unchanged."""


FOUND = ("answer", "prompt_tokens", "completion_tokens", "cost_usd")
"""The parts of a line that answer its request again. Prompts stay in the file: those of a long run take more memory than all else."""


def _append(text: bytes, file: BinaryIO) -> None:
    """Append a line and sync it to disk. If that fails, the file is left as before: another call may find space for its line."""
    before, rest = file.seek(0, os.SEEK_END), memoryview(text)
    try:
        while rest:
            rest = rest[file.write(rest) :]
        os.fsync(file.fileno())
    except OSError:
        with contextlib.suppress(OSError):
            file.truncate(before)
        raise


def _other_file(path: Path, number: int, why: str) -> LlmError:
    return LlmError(
        f"{path}:{number}: expected a line of a record of calls, got something else ({why}); move the file away"
    )


class Record:
    """The calls of a run, in a JSONL file or, without a path, in memory. Thread-safe."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._lock = threading.Lock()
        #: what `find` returns, by key: as JSON, which takes a fraction of the memory of its objects
        self._answers: dict[str, str] = {}
        #: (the spent budget, the error) of requests that were not sent, by key
        self._unsent: dict[str, tuple[dict[str, Any], str]] = {}
        self.tokens = 0
        self.usd = 0.0
        #: (tokens, USD) that each call in progress may take at most
        self._reserved: list[tuple[int, float]] = []
        self._call_ended = threading.Condition(self._lock)
        if path and path.exists():
            self._load(path)

    def __len__(self) -> int:
        return len(self._answers)

    def requests(self) -> Iterator[dict[str, Any]]:
        """The requests that are answered, read from the file again."""
        if self._path is not None and self._path.exists():
            with self._path.open("rb") as file:
                yield from (line["request"] for line in map(json.loads, file) if "answer" in line)

    def find(self, key: str) -> dict[str, Any] | None:
        """Answer, tokens and cost of an answered request, or None."""
        found = self._answers.get(key)
        return None if found is None else json.loads(found)

    def unsent(self, key: str, budget: dict[str, Any]) -> str | None:
        """The error of a request that was not sent because this budget was spent, or None."""
        if key in self._answers or key not in self._unsent:
            return None
        spent, error = self._unsent[key]
        return error if spent == budget else None

    @contextmanager
    def reserved(self, tokens: int, usd: float, require: Callable[[int, float], None]) -> Iterator[None]:
        """Reserves what a call may take while it is in progress, so that concurrent calls together do not exceed a budget.

        require(tokens, usd) raises BudgetSpentError if these totals may not be spent. While other calls are in progress, which may take less than
        they reserved, it is tried again after each of them.
        """
        with self._lock:
            while True:
                try:
                    require(
                        self.tokens + sum(each for each, _ in self._reserved) + tokens,
                        self.usd + sum(each for _, each in self._reserved) + usd,
                    )
                    break
                except BudgetSpentError:
                    if not self._reserved:
                        raise
                    self._call_ended.wait()
            self._reserved.append((tokens, usd))
        try:
            yield
        finally:
            with self._lock:
                self._reserved.remove((tokens, usd))
                self._call_ended.notify_all()

    def add(self, line: dict[str, Any]) -> None:
        """Append a call and sync it to disk. LlmError if the file cannot be written."""
        with self._lock:
            self._count(line)
            if self._path is None:
                return
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                with self._path.open("ab", buffering=0) as file:
                    _append((json.dumps(line) + "\n").encode(), file)
            except OSError as error:
                raise LlmError(
                    f"{self._path}: cannot write the record of calls ({error}); free disk space, or give another file"
                ) from None

    def _load(self, path: Path) -> None:
        complete_bytes = 0
        with path.open("rb") as file:
            for number, text in enumerate(file, 1):
                if not text.endswith(b"\n"):
                    if text[: len(BEGINNING)] != BEGINNING[: len(text)]:
                        raise _other_file(path, number, f"it begins with {text[:20]!r}")
                    os.truncate(path, complete_bytes)
                    return
                try:
                    self._count(json.loads(text))
                except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                    raise _other_file(path, number, str(error)) from None
                complete_bytes += len(text)

    def _count(self, line: dict[str, Any]) -> None:
        key = line["key"]
        if "answer" in line:
            self._answers[key] = json.dumps({name: line[name] for name in FOUND})
            self.tokens += line["prompt_tokens"] + line["completion_tokens"]
            self.usd += line["cost_usd"]
        elif "budget" in line:
            self._unsent[key] = line["budget"], line["error"]
