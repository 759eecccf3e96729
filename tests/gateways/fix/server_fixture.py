"""A real gateway process, and accounts for the tests that share it."""

import itertools
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from tests.gateways.fix.client import FixClient

PASSWORD = "correct horse"


@dataclass
class Gateway:
    """A running gateway. `logins` gives each test clients of its own."""

    port: int
    process: "subprocess.Popen[str]"
    banner: list[str]
    logins: Iterator[str] = field(default_factory=lambda: (f"t{n}" for n in itertools.count()))

    def client(self, login: str = "", **options: object) -> FixClient:
        """A connection with the right password; with an account that no other test uses if none is named."""
        return FixClient(self.port, login or next(self.logins), PASSWORD, **options)  # pyrefly: ignore[bad-argument-type]

    def kill(self) -> None:
        """Sends SIGKILL and waits for the exit."""
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def stop(self) -> str:
        """Sends SIGTERM; returns what it printed after the banner."""
        self.process.terminate()
        output, _ = self.process.communicate(timeout=30)
        return output


def write_accounts(path: Path, logins: list[str], **options: dict[str, object]) -> Path:
    """An accounts file; options: more settings by login."""
    entries = {login: {"secret": PASSWORD} | options.get(login, {}) for login in logins}
    path.write_text(yaml.safe_dump({"accounts": entries}))
    path.chmod(0o600)
    return path


def launch(endpoint: str, accounts: Path, store: Path, *options: str, port: int = 0) -> Gateway:
    """Runs `serl fix start`; returns once it listens."""
    listen = ["--listen", f"127.0.0.1:{port}"]
    process = subprocess.Popen(
        [sys.executable, "-m", "serl", "fix", "start", "--connect", endpoint, *listen, "--accounts", str(accounts), "--store", str(store), *options],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    banner: list[str] = []
    for line in process.stdout:
        banner.append(line.rstrip())
        if line.startswith("  store"):
            found = re.search(r"listen +\S+:(\d+)", "\n".join(banner))
            assert found is not None, banner
            return Gateway(int(found[1]), process, banner)
    process.wait()
    process.stdout.close()
    raise AssertionError(f"the gateway did not start: {banner}")


@contextmanager
def start_gateway(endpoint: str, folder: Path, logins: list[str], **options: dict[str, object]) -> Iterator[Gateway]:
    """A running gateway as a context manager, with its store in the folder."""
    gateway = launch(endpoint, write_accounts(folder / "accounts.yaml", logins, **options), folder / "store")
    try:
        yield gateway
    finally:
        output = gateway.stop()
        assert "Traceback" not in output, output
