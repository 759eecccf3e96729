"""`subprocess.Popen` for the tests: `python -m serl ...`, or a program that ends with MAIN, is a fork of a process that has imported everything
(zygote.py).

A start takes a tenth of a second of processor time, not 1.4. The rest of `subprocess` is as it is: the fork is a child of this process, with
its own session, folder, environment and streams. Commands that are run with other search paths, and all commands with SERL_TEST_FORK=0
(`make test-long`), are started as usual.
"""

import atexit
import ctypes
import inspect
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

MAIN = "from serl.cli import main; main()"
"""What a program given with -c ends with that prepares something and then is `python -m serl`."""
WORKER = "serl.researcher.inner.worker"
MODULES = ("serl", "serl.clients.parent_watch", WORKER)
LEARNING, CHARTS = "serl.researcher.inner.job", "matplotlib.backends.backend_agg"
COMMANDS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("demo", "simulate", "exchange", "agents", "dashboard", "replay", "record", "drop-copy", "day", "fix", "binance", "ouch", "metrics", "news", "journal"), ()),
    "execute": (CHARTS,), "train": (LEARNING,), "evaluate": (LEARNING, CHARTS), WORKER: (LEARNING,),
}  # fmt: skip
"""Of serl: those whose start is not itself what a test is about, and the modules that take long which they import then."""
READ_AT_IMPORT = ("PYTHON", "NUMBA", "PATH", "HOME", "XDG", "OMP", "MPL")
"""What the names of variables begin with that are read once: commands with other values of them are not forked."""
ROOT = Path(__file__).parent.parent
PR_SET_CHILD_SUBREAPER = 36
PIPES = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
LOCK = threading.Lock()
REAL: Any = subprocess.Popen
PARAMETERS = inspect.signature(REAL._execute_child)


@cache
def zygote() -> socket.socket:
    """A connection to this process's zygote, which ends with it."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-m", "tests.zygote", str(its.fileno())]
    process = REAL(command, pass_fds=[its.fileno()], start_new_session=True, cwd=ROOT)
    its.close()
    atexit.register(_stop, process, ours)
    return ours


def _stop(process: Any, connection: socket.socket) -> None:
    connection.close()
    process.wait()


def _set_subreaper(on: bool) -> None:
    """Whether orphans among the descendants become children of this process."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(on), 0, 0, 0)


def _read_at_import(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(READ_AT_IMPORT)}


def words_of(arguments: Any, environment: Any) -> tuple[list[str], bool, tuple[str, ...]] | None:
    """-m and the module, or -c and the program, and the arguments of a command, whether -u is set, and the modules to import before; None for those not forked."""
    if isinstance(arguments, str) or arguments[0] != sys.executable:
        return None
    words = list(map(str, arguments[1:]))
    unbuffered = words[:1] == ["-u"]
    words = words[unbuffered:]
    command = next((word for word in words[1:4] if word in COMMANDS), None)
    known = (words[:1] == ["-m"] and words[1] in MODULES) or (words[:1] == ["-c"] and words[1].endswith(MAIN))
    if not known or command is None:
        return None
    if environment is not None and _read_at_import(environment) != _read_at_import(os.environ):
        return None
    return words, unbuffered, COMMANDS[command]


class Forked(REAL):
    """See the module."""

    def _execute_child(self, *arguments: Any, **options: Any) -> None:
        given = PARAMETERS.bind(self, *arguments, **options).arguments
        words = words_of(given["args"], given["env"])
        if words is None or given["pass_fds"] or given["preexec_fn"]:
            super()._execute_child(*arguments, **options)
            return
        streams = [
            number if given[name] == -1 else given[name]
            for number, name in enumerate(("p2cread", "c2pwrite", "errwrite"))
        ]
        request = {
            "words": words[0], "unbuffered": words[1], "modules": words[2], "parent": os.getpid(), "new_session": given["start_new_session"],
            "folder": os.fspath(given["cwd"] or os.getcwd()), "environment": dict(given["env"] or os.environ),
        }  # fmt: skip
        with LOCK:
            _set_subreaper(True)
            try:
                socket.send_fds(zygote(), [json.dumps(request).encode()], streams)
                self.pid = int(zygote().recv(32))
            finally:
                _set_subreaper(False)
        self._child_created = True
        self._close_pipe_fds(*(given[name] for name in PIPES))


def install() -> None:
    """Replaces `subprocess.Popen`, unless SERL_TEST_FORK is 0."""
    if os.environ.get("SERL_TEST_FORK") != "0":
        subprocess.Popen = Forked  # pyrefly: ignore[bad-assignment]
