"""`serl` commands as child processes, which are gone when we are: their words go to a file, so that nobody waits for a reader."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from serl.exchange.errors import SerlError

SERL = (sys.executable, "-u", "-m", "serl")
PATIENCE_S = 4
"""How long a process that is told to stop may take: three of them within the time that people wait after Ctrl-C."""
LOOK_S = 0.02


class ProcessFailed(SerlError, RuntimeError):
    """A child process ended where it should not have; its last words are in the message."""


def end(process: "subprocess.Popen[Any]", patience_s: float) -> None:
    """Ends a process, by force if it takes longer; one that has ended is left as it is."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(patience_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@dataclass(frozen=True)
class Child:
    """A process and what it has said."""

    name: str
    process: "subprocess.Popen[bytes]"
    log: Path

    @property
    def ended(self) -> bool:
        """Whether it has."""
        return self.process.poll() is not None

    @property
    def text(self) -> str:
        """All that it has said."""
        return self.log.read_text(errors="replace")

    def wait_for(self, start: str) -> list[str]:
        """Its lines up to the one that begins with `start`; ProcessFailed if it ends before."""
        while True:
            ended = self.ended
            lines = self.text.split("\n")
            for place, line in enumerate(lines[:-1]):
                if line.startswith(start):
                    return lines[: place + 1]
            if ended:
                raise self.failure()
            time.sleep(LOOK_S)

    def finish(self) -> str:
        """Waits for its end: what it has said; ProcessFailed unless it ended well."""
        if self.process.wait():
            raise self.failure()
        return self.text.rstrip()

    def failure(self) -> ProcessFailed:
        """That it ended, with its last words."""
        words = self.text.strip()[-2000:] or "not a word"
        return ProcessFailed(f"{self.name} ended with exit status {self.process.returncode}; it said: {words}")


@contextlib.contextmanager
def _held_back() -> Iterator[list[int]]:
    """Holds Ctrl-C and SIGTERM back: in the middle of starting a process they would leave one that nobody knows of. Threads other than
    the main one get none."""
    if threading.current_thread() is not threading.main_thread():
        yield []
        return
    came: list[int] = []
    stops = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda number, _frame: came.append(number)) for number in stops}
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def child(folder: Path, name: str, *arguments: str, apart: bool = False) -> Iterator[Child]:
    """`serl ARGUMENTS` for the time of a `with`, its words in `folder`/NAME.log; it is gone afterwards, whatever happens.
    apart: in a process group of its own, where Ctrl-C does not reach it: we stop it."""
    log = folder / f"{name}.log"
    with log.open("wb") as words, _held_back() as signals:
        started = subprocess.Popen(
            [sys.executable, "-u", "-m", "serl.clients.parent_watch", str(os.getpid()), *arguments],
            stdin=subprocess.DEVNULL, stdout=words, stderr=subprocess.STDOUT, start_new_session=apart,
        )  # fmt: skip
    running = Child(name, started, log)
    try:
        for number in signals:
            signal.raise_signal(number)
        yield running
    finally:
        end(started, PATIENCE_S)
