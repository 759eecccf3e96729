"""SIGINT and SIGTERM unwind the program, so that processes that were started and temporary folders go with it."""

import os
import signal
import sys
import threading
from types import FrameType

import click

AGAIN_S = 0.05


def unwind_on_signals() -> None:
    """SIGTERM unwinds like Ctrl-C from now on. What is ignored (in the background of a shell) stays ignored."""
    signal.signal(signal.SIGTERM, _unwind)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _unwind)


def _unwind(number: int, frame: FrameType | None) -> None:
    if _in_llvm(frame):
        again = threading.Timer(AGAIN_S, os.kill, (os.getpid(), number))
        again.daemon = True
        again.start()
    elif number == signal.SIGINT:
        raise KeyboardInterrupt
    else:
        click.echo("stopped (SIGTERM)", err=True)
        sys.exit(128 + number)


def _in_llvm(frame: FrameType | None) -> bool:
    """LLVM calls back into Python while it loads compiled code. An exception there is lost, and a function is left without its code:
    calling it later ends the process."""
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("llvmlite."):
            return True
        frame = frame.f_back
    return False
