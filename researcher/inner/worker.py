"""Processes that do training jobs of trusted code one after the other: importing and loading compiled code takes longer than a short training."""

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from serl.clients.parent_watch import exit_with_parent
from serl.researcher.errors import ResearcherError
from serl.researcher.sandbox.boot import ANSWER, perform
from serl.researcher.sandbox.returned import read_claim
from serl.researcher.sandbox.verdict import Outcome, Verdict

WORDS = "words.log"
"""What a job has said, in its folder."""
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
    """A process, gone when it crashed or a job took too long; it ends with us. (Not of multiprocessing, which would import the main
    module of whoever calls us.)"""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "serl.researcher.inner.worker", str(os.getpid())]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._abandoned = False

    @property
    def alive(self) -> bool:
        """Whether it can do another job."""
        return self._process.poll() is None

    def work(self, request: dict[str, Any], folder: Path, wall_s: float) -> Verdict:
        """See the function of this name."""
        began = time.monotonic()
        (folder / ANSWER).unlink(missing_ok=True)
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            stdin.write(json.dumps([request, str(folder.resolve())]).encode() + b"\n")
            stdin.flush()
        except OSError:
            return self._crashed(folder, 0.0)
        if not select.select([stdout], [], [], wall_s)[0]:
            self._stop()
            return Verdict(Outcome.TIMEOUT, f"it did not end within {wall_s:g} s", wall_s=wall_s)
        if not stdout.readline():
            return self._crashed(folder, time.monotonic() - began)
        return Verdict(*read_claim(folder), wall_s=time.monotonic() - began)

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
        return Verdict(Outcome.CRASHED, f"exit status {self._process.returncode}: {words}", wall_s=took_s)

    def _stop(self) -> None:
        self._process.kill()
        self._process.communicate()


def _serve(parent: int) -> None:
    """Does what is asked for, a line each, until nobody asks any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one that asks
    exit_with_parent(parent)
    done = os.dup(1)
    for line in sys.stdin:
        request, folder = json.loads(line)
        with Path(folder, WORDS).open("wb") as words:
            os.dup2(words.fileno(), 1)
            os.dup2(words.fileno(), 2)
        Path(folder, ANSWER).write_text(perform(request))
        os.write(done, b"done\n")


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
