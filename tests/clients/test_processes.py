"""`serl` commands as child processes: their output, their exit, and the exit of the parent."""

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


def test_output_and_exit_status(tmp_path: Path) -> None:
    with child(tmp_path, "own", "--help") as own:
        assert own.wait_for_line("Usage")[-1].startswith("Usage")
        assert "exchange" in own.wait()
    with child(tmp_path, "wrong", "exchange", "nothing") as wrong:
        with pytest.raises(ProcessFailed, match=r"wrong exited with status 2; its output: (?s:.*)No such command"):
            wrong.wait()
        with pytest.raises(ProcessFailed, match="exited with status 2"):
            wrong.wait_for_line("never")


def test_leaving_the_context_stops_a_running_child(tmp_path: Path) -> None:
    with child(
        tmp_path, "own", "exchange", "start", "--symbols", "DEMO", "--endpoint", f"tcp://127.0.0.1:{free_port()}"
    ) as own:
        assert not own.exited
    assert own.exited


def test_a_child_starts_from_a_thread(tmp_path: Path) -> None:
    found: list[str] = []

    def one() -> None:
        with child(tmp_path, "own", "--version", new_session=True) as own:
            found.append(own.wait())

    thread = threading.Thread(target=one)
    thread.start()
    thread.join()
    assert "version" in found[0]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for a process in /proc")
def test_a_child_exits_when_its_parent_is_killed(tmp_path: Path) -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    os.kill(parent.pid, signal.SIGKILL)
    parent.communicate()
    deadline = time.monotonic() + 60
    while Path(f"/proc/{pid}").exists() and Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z":
        assert time.monotonic() < deadline, "the child lives on"
        time.sleep(0.1)
