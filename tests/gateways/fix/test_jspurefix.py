"""jspurefix, a FIX engine in JavaScript, trades through the gateway. Skipped where node or the package is not there."""

import subprocess
from pathlib import Path

import pytest

from tests.gateways.fix.server_fixture import PASSWORD, Gateway

pytestmark = pytest.mark.long
SCRIPT = Path(__file__).with_name("initiator.js")
VERSION = "5.11.4"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with jspurefix."""
    folder = tmp_path_factory.mktemp("jspurefix")
    try:
        subprocess.run(["node", "--version"], check=True, capture_output=True)
        subprocess.run(["npm", "--version"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("node and npm are not installed")
    command = ["npm", "install", "--no-audit", "--no-fund", f"jspurefix@{VERSION}"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"npm cannot install jspurefix here: {done.stderr[-200:]}")
    (folder / SCRIPT.name).write_text(SCRIPT.read_text())
    return folder


def test_jspurefix_trades(gateway: Gateway, installed: Path) -> None:
    login = next(gateway.logins)
    command = ["node", SCRIPT.name, str(gateway.port), login, PASSWORD]
    done = subprocess.run(command, cwd=installed, capture_output=True, text=True, timeout=120)
    lines = [
        line
        for line in done.stdout.splitlines()
        if line.startswith(("8 ", "9 ", "W ", "3 ", "j ", "logged", "stopped"))
    ]
    assert lines[:8] == [
        "logged on",
        "8 0 j1 40 0",
        "8 0 j2 15 0",
        "8 F j1 25 612.5",
        "8 F j2 0 612.5",
        "8 5 j3 15 612.5",
        "W - - - -",
        "8 4 j4 0 612.5",
    ], done.stdout + done.stderr
    assert done.returncode == 0, done.stdout + done.stderr
