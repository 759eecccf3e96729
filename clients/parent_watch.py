"""Processes that end when the one that started them is gone, however it ended.

`python -m serl.clients.parent_watch PARENT ARGUMENTS...` is the command `serl ARGUMENTS...` for as long as the process PARENT lives.
"""

import os
import runpy
import signal
import sys
import threading
import time

WATCH_S = 0.5
PATIENCE_S = 5.0
"""What unwinding may take; then the process ends where it is."""


def end_with(parent: int) -> None:
    """From here on this process gets SIGTERM within WATCH_S when `parent`, its parent, is gone."""
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(WATCH_S)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(PATIENCE_S)
    os._exit(1)


if __name__ == "__main__":
    end_with(int(sys.argv[1]))
    sys.argv = ["serl", *sys.argv[2:]]
    runpy.run_module("serl", run_name="__main__", alter_sys=True)
