"""SIGINT and SIGTERM unwind the program, so that child processes and temporary folders are cleaned up."""

import os
import signal
import threading
from types import FrameType

import click

RETRY_S = 0.05
CALLBACKS = ("weakref", "_weakrefset")
"""Modules of Python whose functions run when an object is freed."""


class Terminated(SystemExit):
    """The end of the program by SIGTERM; code of a user may call sys.exit too."""


def unwind_on_signals() -> None:
    """Makes SIGTERM unwind like Ctrl-C. An ignored SIGINT (in a background job of a shell) stays ignored."""
    signal.signal(signal.SIGTERM, _unwind)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _unwind)


def _unwind(number: int, frame: FrameType | None) -> None:
    if _would_be_lost(frame):
        retry = threading.Timer(RETRY_S, os.kill, (os.getpid(), number))
        retry.daemon = True
        retry.start()
    elif number == signal.SIGINT:
        raise KeyboardInterrupt
    else:
        click.echo("stopped (SIGTERM)", err=True)
        raise Terminated(128 + number)


def _would_be_lost(frame: FrameType | None) -> bool:
    """Whether an exception would be lost. That is so in a callback of Python's own import locks; where Python frees an object; while pandas is imported,
    which pyarrow does in compiled code that drops any error; and where LLVM calls back into Python, as it does while it loads compiled code. There the
    exception would also leave a function without code, and calling that function later would crash the process."""
    if frame is not None and frame.f_code.co_name == "cb" and frame.f_globals.get("__name__") == "importlib._bootstrap":
        return True
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith("llvmlite.") or _imports_pandas(frame) or _frees_an_object(frame, module):
            return True
        frame = frame.f_back
    return False


def _imports_pandas(frame: FrameType) -> bool:
    return frame.f_code.co_name == "_find_and_load" and frame.f_locals.get("name") == "pandas"


def _frees_an_object(frame: FrameType, module: str) -> bool:
    return module in CALLBACKS or frame.f_code.co_name == "__del__"
