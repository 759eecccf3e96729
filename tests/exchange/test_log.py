"""The log of the exchange, as text and as JSON."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.server_fixture import RawClient, launch

TEXT = "refused from 127.0.0.1: HELLO of 'ann'"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "exchange.yaml"
    path.write_text("login: {participants: {ann: {token: secret}}}\n")
    path.chmod(0o600)
    return path


def refuse(endpoint: str) -> None:
    with RawClient(endpoint) as client:
        client.send(64, 1, 1, "ann", "guess", -1, {})
        assert client.receive()[1] == "login"


def test_the_log_is_plain_text(config: Path) -> None:
    served = launch("--symbols", "A", "--config", str(config))
    refuse(served.endpoint)
    lines = served.stop().splitlines()
    assert TEXT in lines and not any(line.startswith("{") for line in lines)


def test_the_log_as_json_has_an_object_a_line(config: Path) -> None:
    from serl.exchange.ports import free_port

    command = [sys.executable, "-m", "serl", "exchange", "start", "--symbols", "A", "--config", str(config)]
    command += ["--endpoint", f"tcp://127.0.0.1:{free_port()}", "--log", "json"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    ready = json.loads(process.stderr.readline())
    refuse(ready["endpoints"]["orders"])
    refused = json.loads(process.stderr.readline())
    process.terminate()
    stopped = json.loads(process.communicate(timeout=30)[1])
    assert [line["event"] for line in (ready, refused, stopped)] == ["ready", "credentials_refused", "stopped"]
    assert [line["level"] for line in (ready, refused, stopped)] == ["info", "warning", "info"]
    assert refused["time"].startswith("20") and refused["time"].endswith("+00:00")
    assert (refused["text"], refused["address"], refused["not_logged"]) == (TEXT, "127.0.0.1", 0)
    assert stopped["reason"] == "SIGTERM"
