"""The OUCH gateway when the exchange goes away while the gateway begins another session."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.gateways.ouch.client import SECRETS, SoupClient, enter, login
from tests.server_fixture import free_endpoint, start_exchange

WAIT_S = 60
NAMES = ["alice", *(f"u{number}" for number in range(60))]
CONFIG: dict[str, object] = {"symbols": [{"name": "AMZN"}], "limits": {"new_names_per_s_max": 0}}


@pytest.mark.long
def test_an_exchange_that_goes_away_again_does_not_end_the_gateway(tmp_path: Path) -> None:
    """The exchange is restarted with another journal, and stops answering again while the gateway logs its users in anew. Before, the gateway
    ends with "no reply": all its clients are cut off until somebody starts it again."""
    endpoint, accounts, errors = free_endpoint(), tmp_path / "accounts.yaml", tmp_path / "errors"
    accounts.write_text("accounts:\n" + "".join(f"  {name}: {{secret: {SECRETS.get(name, 'pw')}}}\n" for name in NAMES))
    accounts.chmod(0o600)
    command = [sys.executable, "-m", "serl", "ouch", "start", "--connect", endpoint, "--listen", "127.0.0.1:0"]
    with (
        start_exchange(symbols="", config=CONFIG, folder=tmp_path, endpoint=endpoint) as first,
        errors.open("w") as stderr,
    ):
        gateway = subprocess.Popen(
            [*command, "--accounts", str(accounts), "--state", str(tmp_path / "state")], stdout=subprocess.PIPE, stderr=stderr, text=True
        )  # fmt: skip
        try:
            assert gateway.stdout is not None
            port = int(
                next(line for line in gateway.stdout if line.startswith("OUCH")).split(",")[0].rpartition(":")[2]
            )
            assert any(line.startswith("ready") for line in gateway.stdout)
            with SoupClient(port) as client:
                session, _ = client.log_in("alice")
                client.send(enter(1))
                assert [message["type"] for message in client.messages(2)] == ["S", "A"]
            first.kill()
            with start_exchange(symbols="", config=CONFIG, folder=tmp_path, endpoint=endpoint) as second:
                deadline = time.monotonic() + WAIT_S
                while "another journal" not in errors.read_text():
                    assert time.monotonic() < deadline and gateway.poll() is None
                    time.sleep(0.002)
                os.kill(second.process.pid, signal.SIGSTOP)
                try:
                    time.sleep(5)
                finally:
                    os.kill(second.process.pid, signal.SIGCONT)
                kind = b""
                while kind != b"A":
                    assert time.monotonic() < deadline and gateway.poll() is None, errors.read_text()[-500:]
                    with SoupClient(port) as client:
                        client.write(login("alice", SECRETS["alice"], 1))
                        kind, answer = client.packet()
                    time.sleep(0.2)
                assert answer[:10].decode().strip() != session
        finally:
            gateway.terminate()
            gateway.communicate(timeout=WAIT_S)
