"""Errors of the command line are one line."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from serl.cli import serl
from serl.exchange.ports import free_port


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("demo --output FILE --port PORT", "FILE"),
        ("keys new FILE", "FILE"),
        ("drop-copy -o FILE/x", "FILE/x"),
    ],
)
def test_an_unusable_path_is_a_one_line_error(line: str, path: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    arguments = line.replace("FILE", str(file)).replace("PORT", str(free_port())).split()
    done = subprocess.run([sys.executable, "-m", "serl", *arguments], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2
    (message,) = done.stderr.splitlines()
    assert message.startswith(f"error: {path.replace('FILE', str(file))}: ")


def test_a_demo_with_its_port_in_use_starts_nothing(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        arguments = ["demo", "--no-researcher", "--port", port, "--output", str(tmp_path)]
        done = subprocess.run([sys.executable, "-m", "serl", *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and f"127.0.0.1:{port} cannot be bound" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("command", "advice"), [("exchnge", "did you mean exchange?"), ("quux", "got quux; see serl --help")]
)
def test_an_unknown_command_gets_advice(command: str, advice: str) -> None:
    shown = CliRunner().invoke(serl, [command])
    assert shown.exit_code == 2 and advice in shown.output
