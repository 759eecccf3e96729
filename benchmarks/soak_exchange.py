"""The exchange of the soak: `serl exchange start` on a journal with retention, its ends, and the checks of what it restored."""

import shutil
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from serl.exchange.errors import SerlError
from serl.exchange.ports import free_port
from serl.exchange.records import CommandKind
from serl.exchange.request import request_socket
from serl.exchange.wire import Kind

SERL = (sys.executable, "-m", "serl")
START_S, STOP_S, VERIFY_S, QUIET_S = 600.0, 60.0, 300.0, 30.0  # the first start of a version compiles
CLOSED_S = 5
"""How long the market is closed at the end of a day."""


class Broken(SerlError):
    """A promise of the exchange that does not hold."""


def write_config(
    path: Path, symbols: int, limited: list[str], closings_s: list[float], segment_rows: int, size: str
) -> None:
    """A configuration with retention, compression, a limited account for each of `limited`, and markets that close for some seconds, this long
    from now."""
    day = []
    for closing_s in closings_s:
        for seconds, phase in ((closing_s, "closed"), (closing_s + CLOSED_S, "continuous")):
            day.append({"at": f"{datetime.now(UTC) + timedelta(seconds=seconds):%H:%M:%S}", "phase": phase})
    day.sort(key=lambda entry: entry["at"])
    settings: dict[str, Any] = {
        "symbols": [{"name": f"S{number}", "day": day} for number in range(symbols)],
        "journal": {"segment_rows": segment_rows, "compress": True, "retention": {"size": size}},
        "accounts": {name: {"messages_per_s_max": 20} for name in limited},
    }
    path.write_text(yaml.safe_dump(settings))


class ServedExchange:
    """An exchange process and the folder of its journal, configuration and log."""

    def __init__(self, folder: Path) -> None:
        self.endpoint, self.journal, self.config = f"tcp://127.0.0.1:{free_port()}", folder / "journal", folder / "exchange.yaml"  # fmt: skip
        self._folder = folder
        self.process: subprocess.Popen[bytes] | None = None
        self.starts = 0

    @property
    def pid(self) -> int:
        """The process; 0 while there is none."""
        return self.process.pid if self.process is not None and self.process.poll() is None else 0

    def start(self) -> None:
        """Returns once it is ready. Raises Broken if it does not start."""
        self.starts += 1
        log = self._folder / f"exchange-{self.starts}.log"
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [*SERL, "exchange", "start", "--endpoint", self.endpoint, "--journal", str(self.journal), "--config", str(self.config)],
                stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        until = time.monotonic() + START_S
        while "exchange ready" not in log.read_text(errors="replace"):
            if self.process.poll() is not None or time.monotonic() > until:
                self.kill()
                raise Broken(f"the exchange did not start: {log.read_text(errors='replace')[-1000:]}")
            time.sleep(0.05)

    def stop(self) -> None:
        """`serl exchange stop`. Raises Broken unless the exchange ends with status 0."""
        assert self.process is not None
        subprocess.run([*SERL, "exchange", "stop", "--connect", self.endpoint], check=False, capture_output=True)
        try:
            status = self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Broken(f"the exchange did not stop within {STOP_S:g} s") from None
        if status:
            raise Broken(f"the exchange ended with status {status} after a stop")

    def kill(self) -> None:
        """SIGKILL."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def end_day(self) -> None:
        """END_DAY, as an operator. Raises Broken without an answer."""
        self._ask("admin", Kind.OPERATE, "", int(CommandKind.END_DAY), 0)

    def send_signal(self, number: signal.Signals) -> None:
        """SIGSTOP or SIGCONT."""
        assert self.process is not None
        self.process.send_signal(number)

    def state(self) -> tuple[int, str]:
        """The last command and the state hash. Raises Broken without an answer."""
        sequence, digest = self._ask("queries", Kind.HASH)
        return sequence, digest

    def _ask(self, socket: str, kind: Kind, *values: Any) -> Any:
        until = time.monotonic() + QUIET_S
        while True:
            try:
                with request_socket(self.endpoint, socket) as request:
                    return request(kind, *values)[-1]
            except SerlError as error:
                if time.monotonic() > until:
                    raise Broken(f"{kind.name}: {error}") from None

    def verify(self) -> None:
        """`serl journal verify` on the journal of the ended exchange. Raises Broken if a file is damaged."""
        _run("verify", [*SERL, "journal", "verify", str(self.journal)])

    def copy_at_rest(self, copy: Path) -> tuple[int, str]:
        """Copies the journal while no commands arrive. Returns the last command and the state hash of the exchange at that moment."""
        until = time.monotonic() + QUIET_S
        while time.monotonic() < until:
            before = self.state()
            time.sleep(0.5)
            if self.state() != before:
                continue
            shutil.rmtree(copy, ignore_errors=True)
            try:
                shutil.copytree(self.journal, copy)
            except shutil.Error:  # a file was compressed or deleted meanwhile
                continue
            if self.state() == before:
                return before
        raise Broken(f"expected no commands while all clients hold, got some for {QUIET_S:g} s")

    def check_replay(self, copy: Path, sequence: int, digest: str) -> str:
        """Replays a copied journal from its oldest snapshot. Returns what it did. Raises Broken unless it ends with the same command and hash."""
        text = _run("replay", [sys.executable, "-m", "benchmarks.soak_replay", str(copy), str(self.config)])
        first, last, found = text.split()
        shutil.rmtree(copy)
        if (int(last), found) != (sequence, digest):
            raise Broken(f"a replay of the journal gives command {last} and hash {found}; the exchange has {sequence} and {digest}")  # fmt: skip
        return f"replay of commands {int(first) + 1:,} to {sequence:,}: same hash"


def _run(name: str, command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=VERIFY_S, check=False)
    if done.returncode:
        raise Broken(f"{name} ended with status {done.returncode}: {(done.stdout + done.stderr)[-1000:]}")
    return done.stdout
