"""Processes that exit with their parent, however the parent ends.

`python -m serl.clients.parent_watch PID ARGUMENTS...` runs `serl ARGUMENTS...` for as long as its parent, the process PID, lives.
"""

import os
import runpy
import signal
import sys
import threading
import time

POLL_S = 0.5
SHUTDOWN_S = 5.0
"""Time to shut down after SIGTERM before the process is killed."""


def exit_with_parent(parent: int) -> None:
    """Sends this process SIGTERM within POLL_S after `parent`, the process id of its parent, exits."""
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(POLL_S)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(SHUTDOWN_S)
    os._exit(1)


if __name__ == "__main__":
    exit_with_parent(int(sys.argv[1]))
    sys.argv = ["serl", *sys.argv[2:]]
    runpy.run_module("serl", run_name="__main__", alter_sys=True)
