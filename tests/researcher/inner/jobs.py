"""Jobs of test_worker.py."""

import os
import signal
import sys
import time


def pid() -> int:
    return os.getpid()


def crash(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
    os._exit(3)


def fail() -> None:
    raise ValueError("on purpose")


def sleep(seconds: float) -> None:
    time.sleep(seconds)


def be_killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
