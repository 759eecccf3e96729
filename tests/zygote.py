"""A process that has imported what takes long, and forks itself into `python -m MODULE ARGUMENTS...` or `python -c PROGRAM ARGUMENTS...` on request.

`python -m tests.zygote FD`: each message on the socket FD is a request with the standard streams, as forked.py sends it, and is answered with
the child's process id. The child is handed over to the process that asked: it is the child of nobody else once the process between has exited.
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import sys
import threading
import time
import warnings
from typing import Any

REQUEST_BYTES_MAX = 1 << 20
ADOPTION_MS_MAX = 5000
PRELOADED = (
    "serl.exchange.cli",
    "serl.exchange.server",
    "serl.clients.blocking",
    "serl.agents.execution.served",
    "serl.agents.traders.host",
)
"""Imported before the first request."""


def preload() -> None:
    """Imports modules, and loads the compiled exchange."""
    for name in PRELOADED:
        importlib.import_module(name)
    from serl.exchange.growth import fast_path
    from serl.exchange.precompile import warm_rule_book
    from serl.exchange.warm import warm_loop

    warm_loop()
    fast_path()
    warm_rule_book()


def serve(requests: socket.socket) -> dict[str, Any] | None:
    """Forks on each request, once its modules are imported; returns None when there are no more of them, and in a child its request."""
    preload()
    while True:
        message, streams, _, _ = socket.recv_fds(requests, REQUEST_BYTES_MAX, 3)
        if not message:
            return None
        request: dict[str, Any] = json.loads(message)
        for name in request["modules"]:
            importlib.import_module(name)
        gc.freeze()  # a collection in a child would copy what it visits
        reply, answer = os.pipe()
        between = os.fork()
        if between == 0:
            os.close(reply)
            child = os.fork()
            if child:
                os.write(answer, str(child).encode())
                os._exit(0)
            os.close(answer)
            requests.close()
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
            os.closerange(3, max(streams) + 1)
            return request
        os.close(answer)
        with open(reply, "rb") as pipe:
            pid = pipe.read()
        os.waitpid(between, 0)
        for stream in streams:
            os.close(stream)
        requests.send(pid)


def become(request: dict[str, Any]) -> None:
    """Takes over the request's session, folder, environment and arguments, and runs its module or program."""
    if request["new_session"]:
        os.setsid()
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for _ in range(ADOPTION_MS_MAX):
        if os.getppid() == request["parent"]:
            break
        time.sleep(0.001)
    else:
        sys.exit("the process that asked for this one has ended")
    sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    if request["unbuffered"]:
        sys.stdout.reconfigure(write_through=True)
    option, given, *arguments = request["words"]
    sys.argv = [option, *arguments]
    try:
        if option == "-c":
            exec(given, {"__name__": "__main__"})
        else:
            runpy.run_module(given, run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        if not isinstance(ended.code, int | None):
            raise
        end(ended.code or 0)
    end(0)


def end(status: int) -> None:
    """Ends the process as Python does, but does not take apart what was imported: that copies all of it, and takes as long as a start."""
    threading._shutdown()  # pyrefly: ignore[missing-attribute]
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush(), sys.stderr.flush()
    except OSError:  # nobody reads them any more
        status = 120
    os._exit(status)


if __name__ == "__main__":
    warnings.filterwarnings("ignore", message=".*multi-threaded.*fork", category=DeprecationWarning)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.closing(socket.socket(fileno=int(sys.argv[1]))) as requests:
        accepted = serve(requests)
    if accepted is not None:
        become(accepted)
