"""`serl` commands as child processes that exit with this one. Their output goes to a file, so that they never block on a pipe."""

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
SHUTDOWN_S = 4
"""Time for a child to stop before it is killed: short enough to stop three of them while a user waits after Ctrl-C."""
POLL_S = 0.02


class ProcessFailed(SerlError, RuntimeError):
    """A child process exited with an error or too early; the message ends with the tail of its output."""


def terminate(process: "subprocess.Popen[Any]", shutdown_s: float) -> None:
    """Terminates a process, and kills it if it still runs after shutdown_s. Does nothing if it has exited."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(shutdown_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@dataclass(frozen=True)
class Child:
    """A child process and its output."""

    name: str
    process: "subprocess.Popen[bytes]"
    log: Path

    @property
    def exited(self) -> bool:
        """Whether the process has exited."""
        return self.process.poll() is not None

    @property
    def output(self) -> str:
        """Its output so far, stdout and stderr together."""
        return self.log.read_text(errors="replace")

    def wait_for_line(self, prefix: str) -> list[str]:
        """Waits for a line that starts with `prefix`; returns the lines up to it. Raises `ProcessFailed` if the process exits first."""
        while True:
            exited = self.exited
            lines = self.output.split("\n")
            for place, line in enumerate(lines[:-1]):
                if line.startswith(prefix):
                    return lines[: place + 1]
            if exited:
                raise self.failure()
            time.sleep(POLL_S)

    def wait(self) -> str:
        """Waits until the process exits; returns its output. Raises `ProcessFailed` unless the exit status is 0."""
        if self.process.wait():
            raise self.failure()
        return self.output.rstrip()

    def failure(self) -> ProcessFailed:
        """The error for a process that has exited: its status and the tail of its output."""
        output = self.output.strip()[-2000:] or "(none)"
        return ProcessFailed(f"{self.name} exited with status {self.process.returncode}; its output: {output}")


@contextlib.contextmanager
def _signals_deferred() -> Iterator[list[int]]:
    """Collects SIGINT and SIGTERM while a process starts: an interrupt in the middle would leave a child that nobody stops.

    Only the main thread receives signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield []
        return
    received: list[int] = []
    stops = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda number, _frame: received.append(number)) for number in stops}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def child(folder: Path, name: str, *arguments: str, new_session: bool = False) -> Iterator[Child]:
    """Runs `serl ARGUMENTS` for the duration of a `with`, with its output in `folder`/NAME.log.

    new_session: shields it from Ctrl-C in the terminal, so that only leaving the `with` stops it.
    """
    log = folder / f"{name}.log"
    with log.open("wb") as output, _signals_deferred() as signals:
        process = subprocess.Popen(
            [sys.executable, "-u", "-m", "serl.clients.parent_watch", str(os.getpid()), *arguments],
            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=new_session,
        )  # fmt: skip
    try:
        for number in signals:
            signal.raise_signal(number)
        yield Child(name, process, log)
    finally:
        terminate(process, SHUTDOWN_S)
