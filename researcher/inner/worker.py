"""Processes that do training jobs of trusted code one after the other: importing and loading compiled code takes longer than a short training."""

import multiprocessing
import os
import signal
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from serl.clients.kept import end_with
from serl.researcher.errors import ResearcherError
from serl.researcher.sandbox.boot import ANSWER, perform
from serl.researcher.sandbox.returned import read_json
from serl.researcher.sandbox.run import CLAIMS
from serl.researcher.sandbox.verdict import Outcome, Verdict

WORDS = "words.log"
"""What a job has said, in its folder."""
_SPAWN = multiprocessing.get_context("spawn")
_LOCK = threading.Lock()
_idle: list["_Worker"] = []
_busy: set["_Worker"] = set()


class AbandonedError(ResearcherError):
    """Nobody waits for the job any more; nothing is known of what it would have done."""


def abandon() -> None:
    """Ends all jobs at once: their `work` raises AbandonedError."""
    with _LOCK:
        for worker in _busy:
            worker.abandon()


def work(request: dict[str, Any], folder: Path, wall_s: float) -> Verdict:
    """Does a job (see sandbox.boot) whose folder is `folder`, in an idle worker or a new one; from any thread."""
    with _LOCK:
        worker = _idle.pop() if _idle else None
    worker = worker if worker and worker.alive else _Worker()
    with _LOCK:
        _busy.add(worker)
    try:
        return worker.work(request, folder, wall_s)
    finally:
        with _LOCK:
            _busy.discard(worker)
            if worker.alive:
                _idle.append(worker)


class _Worker:
    """A process, gone when it crashed or a job took too long; it ends with us."""

    def __init__(self) -> None:
        self._ours, theirs = _SPAWN.Pipe()
        self._process = _SPAWN.Process(target=_serve, args=(theirs, os.getpid()), daemon=True)
        self._process.start()
        theirs.close()
        self._abandoned = False

    @property
    def alive(self) -> bool:
        """Whether it can do another job."""
        return self._process.is_alive()

    def work(self, request: dict[str, Any], folder: Path, wall_s: float) -> Verdict:
        began = time.monotonic()
        (folder / ANSWER).unlink(missing_ok=True)
        try:
            self._ours.send((request, str(folder.resolve())))
            answered = self._ours.poll(wall_s)
            if answered:
                self._ours.recv()
        except (EOFError, OSError):
            return self._crashed(folder, time.monotonic() - began)
        if not answered:
            self._stop()
            return Verdict(Outcome.TIMEOUT, f"it did not end within {wall_s:g} s", wall_s=wall_s)
        answer = read_json(folder, ANSWER)
        outcome = {each.value: each for each in CLAIMS}[answer["outcome"]]
        return Verdict(outcome, answer["text"], answer.get("value"), wall_s=time.monotonic() - began)

    def abandon(self) -> None:
        """From another thread than the one in `work`."""
        self._abandoned = True
        self._process.kill()

    def _crashed(self, folder: Path, took_s: float) -> Verdict:
        self._stop()
        if self._abandoned:
            raise AbandonedError("training was abandoned; go on with --resume")
        path = folder / WORDS
        words = path.read_text(errors="replace").strip()[-500:] if path.exists() else ""
        return Verdict(Outcome.CRASHED, f"exit status {self._process.exitcode}: {words}", wall_s=took_s)

    def _stop(self) -> None:
        self._process.kill()
        self._process.join()
        self._ours.close()


def _serve(connection: Connection, parent: int) -> None:
    """Does what is asked for until nobody asks any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one that asks
    end_with(parent)
    while True:
        try:
            request, folder = connection.recv()
        except EOFError:
            return
        with Path(folder, WORDS).open("wb") as words:
            os.dup2(words.fileno(), 1)
            os.dup2(words.fileno(), 2)
        Path(folder, ANSWER).write_text(perform(request))
        connection.send(None)
