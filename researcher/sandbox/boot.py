"""The program inside the sandbox: it sets limits, then runs the job. It is a script and adds serl to the import path itself.

Standard input contains the request: {"entry": "package.module:function", "arguments": {}, "limits": {}, "filter": ""}. The answer is written to a
file in the folder. The job can change this process in any way, so the answer is only a claim.
"""

import ctypes
import importlib
import json
import os
import resource
import sys
import traceback
from typing import Any

ANSWER = "answer.json"
ERROR_CHARACTERS_MAX = 2000
OUT_OF_MEMORY = ("can't allocate memory", "not enough memory", "bad_alloc", "Cannot allocate memory")
NO_THREAD = "can't start new thread"
PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
NO_SPACE = "No space left on device"


def set_limits(limits: dict[str, Any]) -> None:
    """Set the limits of this process; it cannot raise them again."""
    for number, value in (
        (resource.RLIMIT_AS, limits["memory_bytes"]),
        (resource.RLIMIT_CPU, limits["cpu_s"]),
        (resource.RLIMIT_FSIZE, limits["file_bytes"]),
        (resource.RLIMIT_NOFILE, limits["open_files"]),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(number, (value, value + 1 if number == resource.RLIMIT_CPU else value))


def set_filter(program: bytes) -> None:
    """Add a filter of system calls (seccomp.py) to this process; it cannot remove the filter."""

    class Program(ctypes.Structure):  # struct sock_fprog
        _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_char_p))

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(Program(len(program) // 8, program)), 0, 0):
        raise OSError(ctypes.get_errno(), "expected a kernel with filters of system calls (seccomp), got an error")


def use_read_only_numba_cache() -> None:
    """Let numba load the cache next to the sources, which are read-only here, and write nothing to it."""
    from numba.core import caching

    caching._CacheLocator.ensure_cache_path = lambda self: None
    caching.IndexDataCacheFile.save = lambda *parts: None


def describe_error(error: BaseException) -> dict[str, Any]:
    """The answer for an exception: outcome, message, and the line of the generated code."""
    line, here = 0, error.__traceback__
    while here:  # a loop, not recursion: there may be millions of frames
        line = here.tb_lineno if here.tb_frame.f_code.co_filename == "<module>" else line
        here = here.tb_next
    message = "".join(traceback.format_exception_only(error)).strip()[-ERROR_CHARACTERS_MAX:]
    outcome = "crashed"
    if isinstance(error, MemoryError) or any(mark in message for mark in OUT_OF_MEMORY):
        outcome = "memory"
    elif NO_THREAD in message:
        outcome = "threads"
    elif NO_SPACE in message:
        outcome = "folder"
    return {"outcome": outcome, "text": message + (f" (line {line})" if line else "")}


def run_request(request: dict[str, Any]) -> str:
    """Run a request. Returns its answer as JSON."""
    try:
        if request["compiled"]:
            use_read_only_numba_cache()
        module, _, function = request["entry"].partition(":")
        value = getattr(importlib.import_module(module), function)(**request["arguments"])
        return json.dumps({"outcome": "ok", "text": "", "value": value}, allow_nan=False)
    except BaseException as error:
        return json.dumps(describe_error(error))


def main() -> None:
    """Report the start to the parent, wait until the parent has opened and filled the folder, then run the request from standard input."""
    started = int(sys.argv[2])
    os.write(started, b"1")
    os.close(started)
    sys.path.insert(0, sys.argv[1])
    request = json.loads(sys.stdin.buffer.read())
    set_limits(request["limits"])
    set_filter(bytes.fromhex(request["filter"]))
    answer = run_request(request)
    try:
        with open(ANSWER, "w") as file:
            file.write(answer)
    except OSError as error:  # the folder is full
        os._exit(error.errno or 1)
    sys.stdout.flush()
    os._exit(0)  # skip exit handlers of the job


if __name__ == "__main__":
    main()
