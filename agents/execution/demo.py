"""The whole chain in processes of their own: an exchange, a replayed day, and an executor that trades in it."""

import contextlib
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from serl.exchange.errors import SerlError

SERL = (sys.executable, "-m", "serl")
PORTS = 4
PATIENCE_S = 4
"""How long a process that is told to stop may take: three of them within the time that people wait after Ctrl-C."""


class DemoFailed(SerlError, RuntimeError):
    """One of the demo's processes failed; its last words are in the message."""


def free_port() -> int:
    """A port that is free on loopback together with the next three; below those that connections are given."""
    for _ in range(1000):
        port = secrets.randbelow(5000) * PORTS + 10_000
        with contextlib.ExitStack() as stack:
            try:
                for offset in range(PORTS):
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", port + offset))
            except OSError:
                continue
        return port
    raise DemoFailed("no four free ports in a row on 127.0.0.1")


@contextlib.contextmanager
def _held_back() -> Iterator[list[int]]:
    """Holds Ctrl-C and SIGTERM back: in the middle of starting a process they would leave one that nobody knows of."""
    came: list[int] = []
    stops = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda number, _frame: came.append(number)) for number in stops}
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def process(*arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """`serl ARGUMENTS` for the time of a `with`; it is gone afterwards, whatever happens."""
    with _held_back() as signals:
        child = subprocess.Popen([*SERL, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        for number in signals:
            signal.raise_signal(number)
        yield child
    finally:
        if child.poll() is None:
            child.terminate()
            try:
                child.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        if child.stdout is not None:
            child.stdout.close()


def read_until(child: "subprocess.Popen[str]", start: str) -> list[str]:
    """The lines of a process up to the one that begins with `start`; DemoFailed if it ends before."""
    assert child.stdout is not None
    lines = []
    for line in child.stdout:
        lines.append(line.rstrip())
        if line.startswith(start):
            return lines
    raise DemoFailed("\n".join(lines) or f"{child.args!r} ended without a word")


def run(
    day: Path, symbol: str, side: str, qty: int, window: str, speed: str, output: Path, stop_at: str
) -> Iterator[str]:
    """Runs the demo, telling line by line what happens."""
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    clock = ("lockstep", "--participants", "2") if speed == "max" else (f"scaled:{speed}", "--hold")
    began = time.perf_counter()
    with (
        tempfile.TemporaryDirectory(prefix="serl-demo-") as journal,  # ours: it goes even if the exchange is killed
        process(
            "exchange", "start", "--symbols", symbol, "--endpoint", endpoint, "--journal", journal, "--clock", *clock
        ) as exchange,
    ):
        yield from read_until(exchange, "  journal")
        execute = (
            "execute", "twap", "--symbol", symbol, "--side", side, "--qty", str(qty), "--window", window, "--connect", endpoint,
            "--day", str(day), "--report", str(output),
        )  # fmt: skip
        with process(*execute) as executor:
            yield from read_until(executor, "executor")
            replay = ("replay", str(day), "--connect", endpoint, "--wait-for", "1", "--to", stop_at, "--speed", speed)
            with process(*replay) as replayer:
                yield f"replaying up to {stop_at} at {'full speed, in lockstep' if speed == 'max' else speed + ' x'} ..."
                output_text, _ = executor.communicate()
                if executor.returncode:
                    raise DemoFailed(output_text)
                yield output_text.rstrip()
                if speed == "max":
                    replayed, _ = replayer.communicate(timeout=60)
                    yield replayed.rstrip()
    yield f"done in {time.perf_counter() - began:.1f} s"
