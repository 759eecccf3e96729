"""`serl` commands as children: their words, their end, and ours."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from serl.clients.processes import ProcessFailed, child
from serl.exchange.ports import free_port

PARENT = """
import sys, time
from pathlib import Path
from serl.clients.processes import child
from serl.exchange.ports import free_port
with child(Path(sys.argv[1]), "own", "exchange", "start", "--symbols", "DEMO", "--endpoint", f"tcp://127.0.0.1:{free_port()}") as own:
    print(own.process.pid, flush=True)
    time.sleep(600)
"""


def test_words_and_ends(tmp_path: Path) -> None:
    with child(tmp_path, "own", "--help") as own:
        assert own.wait_for("Usage")[-1].startswith("Usage")
        assert "exchange" in own.finish()
    with child(tmp_path, "wrong", "exchange", "nothing") as wrong:
        with pytest.raises(ProcessFailed, match=r"wrong ended with exit status 2; it said: (?s:.*)No such command"):
            wrong.finish()
        with pytest.raises(ProcessFailed, match="exit status 2"):
            wrong.wait_for("never")


def test_a_child_that_still_runs_is_stopped(tmp_path: Path) -> None:
    with child(
        tmp_path, "own", "exchange", "start", "--symbols", "DEMO", "--endpoint", f"tcp://127.0.0.1:{free_port()}"
    ) as own:
        assert not own.ended
    assert own.ended


def test_from_a_thread(tmp_path: Path) -> None:
    found: list[str] = []

    def one() -> None:
        with child(tmp_path, "own", "--version", apart=True) as own:
            found.append(own.finish())

    thread = threading.Thread(target=one)
    thread.start()
    thread.join()
    assert "version" in found[0]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for a process in /proc")
def test_a_killed_parent_takes_its_child_along(tmp_path: Path) -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    os.kill(parent.pid, signal.SIGKILL)
    parent.communicate()
    deadline = time.monotonic() + 60
    while Path(f"/proc/{pid}").exists() and Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z":
        assert time.monotonic() < deadline, "the child lives on"
        time.sleep(0.1)
