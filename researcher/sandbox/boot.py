"""The first lines that run inside the sandbox: limits, then the job. A script that finds serl by itself.

Standard input holds the request: {"entry": "package.module:function", "arguments": {}, "limits": {}}. The answer goes to a file in the
folder. Whatever the job does to this process, it can only change that answer, which is a claim.
"""

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


def confine(limits: dict[str, Any]) -> None:
    """Sets the limits of this process for good."""
    for number, value in (
        (resource.RLIMIT_AS, limits["memory_bytes"]),
        (resource.RLIMIT_CPU, limits["cpu_s"]),
        (resource.RLIMIT_FSIZE, limits["file_bytes"]),
        (resource.RLIMIT_NOFILE, limits["open_files"]),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(number, (value, value + 1 if number == resource.RLIMIT_CPU else value))


def read_compiled_code() -> None:
    """Lets numba load what is compiled beside the sources, which are read-only here, and keep nothing."""
    from numba.core import caching

    caching._CacheLocator.ensure_cache_path = lambda self: None
    caching.IndexDataCacheFile.save = lambda *parts: None


def described(error: BaseException) -> dict[str, Any]:
    """The answer that an exception makes: its kind, its last line, and where in the generated text it was."""
    line, here = 0, error.__traceback__
    while here:  # there may be millions
        line = here.tb_lineno if here.tb_frame.f_code.co_filename == "<module>" else line
        here = here.tb_next
    words = "".join(traceback.format_exception_only(error)).strip()[-ERROR_CHARACTERS_MAX:]
    outcome = "crashed"
    if isinstance(error, MemoryError) or any(mark in words for mark in OUT_OF_MEMORY):
        outcome = "memory"
    elif NO_THREAD in words:
        outcome = "threads"
    return {"outcome": outcome, "text": words + (f" (line {line})" if line else "")}


def perform(request: dict[str, Any]) -> str:
    """The answer to a request, as JSON."""
    try:
        if request["compiled"]:
            read_compiled_code()
        module, _, function = request["entry"].partition(":")
        value = getattr(importlib.import_module(module), function)(**request["arguments"])
        return json.dumps({"outcome": "ok", "text": "", "value": value}, allow_nan=False)
    except BaseException as error:
        return json.dumps(described(error))


def main() -> None:
    """Says that it has started, then does what is asked."""
    started = int(sys.argv[2])
    os.write(started, b"1")
    os.close(started)
    sys.path.insert(0, sys.argv[1])
    request = json.loads(sys.stdin.buffer.read())
    confine(request["limits"])
    answer = perform(request)
    with open(ANSWER, "w") as file:
        file.write(answer)
    sys.stdout.flush()
    os._exit(0)  # what the job registered to run at the end is not waited for


if __name__ == "__main__":
    main()
