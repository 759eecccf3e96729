"""Running a job: one process of bubblewrap, watched from start to end."""

import contextlib
import json
import os
import re
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from serl.exchange.errors import ConfigError
from serl.researcher.sandbox import bubblewrap, returned, seccomp, usage
from serl.researcher.sandbox.boot import ANSWER
from serl.researcher.sandbox.errors import ReturnedError
from serl.researcher.sandbox.job_result import JobResult, Outcome
from serl.researcher.sandbox.limits import Limits

TICK_S = 0.025
"""Between looks at what a job uses."""
INPUT_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
TEXT_CHARACTERS_MAX = 2500


@dataclass(frozen=True)
class Job:
    """A function of serl to call inside, which may then do what untrusted text says."""

    entry: str
    """`package.module:function`; the function takes the arguments by name and returns plain JSON."""
    arguments: dict[str, Any] = field(default_factory=dict)
    """Plain JSON."""
    compiled: bool = False
    """Whether serl's compiled code (numba) is used."""
    inputs: dict[str, Path] = field(default_factory=dict)
    """Files and folders that the job reads, as /inputs/NAME."""

    def __post_init__(self) -> None:
        for name, path in self.inputs.items():
            if not INPUT_NAME.fullmatch(name) or not path.exists():
                raise ConfigError(f"input {name!r}: a plain name and a file that exists are due, got {path}")


@dataclass
class _Watched:
    """A job that runs, or ran. Invariant: once `stopped` is set it is killed, and that is the outcome."""

    process: "subprocess.Popen[bytes]"
    init: int
    init_fd: int
    output: bytearray
    began_s: float
    started_s: float | None = None
    stopped: tuple[Outcome, str] | None = None

    def stop(self, outcome: Outcome, text: str) -> None:
        """Notes the first reason."""
        self.stopped = self.stopped or (outcome, text)

    def kill(self) -> None:
        """Kills everything inside: with the first process of a namespace all others die. bubblewrap alone would be too little, its
        child does not notice before it is set up."""
        if self.init:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.init_fd, signal.SIGKILL)

    def check(self, folder: Path, limits: Limits) -> None:
        """Kills it if it uses too much."""
        self.check_what_it_uses(limits)
        self.check_what_is_left(folder, limits)
        if self.stopped:
            self.kill()

    def check_what_it_uses(self, limits: Limits) -> None:
        """Time, threads."""
        if time.monotonic() - self.began_s > limits.wall_s:
            self.stop(Outcome.TIMEOUT, f"it did not end within {limits.wall_s:g} s")
        pid = usage.child_of(self.init)
        used = usage.usage_of(pid) if pid else None
        if used and used.threads > limits.threads:
            self.stop(Outcome.THREADS, f"it had {used.threads} threads, at most {limits.threads} are allowed")
        if used and used.cpu_s > limits.cpu_s:
            self.stop(Outcome.CPU, f"it used more than {limits.cpu_s} s of processor time")

    def check_what_is_left(self, folder: Path, limits: Limits) -> None:
        """Output and files, which are also there after the end."""
        if len(self.output) > limits.output_bytes:
            self.stop(Outcome.OUTPUT, f"it printed more than {limits.output_bytes:,} bytes")
        too_much = usage.folder_excess(folder, limits.folder_bytes, limits.folder_entries)
        if too_much:
            self.stop(Outcome.FOLDER, too_much)


@contextlib.contextmanager
def _pipe() -> Iterator[tuple[Any, Any]]:
    """The reading and the writing end of a pipe, as files without buffers; they may be closed before the `with` ends."""
    read, write = os.pipe()
    with open(read, "rb", buffering=0) as reading, open(write, "wb", buffering=0) as writing:
        yield reading, writing


@contextlib.contextmanager
def _file(content: bytes) -> Iterator[Any]:
    """An open file without a name."""
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        yield file


@contextlib.contextmanager
def work_folder() -> Iterator[Path]:
    """A new folder for a job, gone afterwards with all that is in it, however deep."""
    folder = Path(tempfile.mkdtemp(prefix="serl-job-"))
    try:
        yield folder
    finally:
        # rm walks to any depth, where Python's recursion ends; the job may have taken its own permissions away
        subprocess.run(["chmod", "-R", "u+rwX", "--", str(folder)], stderr=subprocess.DEVNULL, check=False)
        subprocess.run(["rm", "-rf", "--one-file-system", "--", str(folder)], check=False)


def run(job: Job, folder: Path, limits: Limits | None = None) -> JobResult:
    """Runs a job in a sandbox whose one writable folder is `folder`; returns when nothing of it runs any more.

    ConfigError if the folder lies in what the job reads, or others can enter it. SandboxUnavailableError where there can be no sandbox: nothing is run then.
    """
    limits = limits or Limits()
    folder = folder.resolve(strict=True)
    if folder.stat().st_mode & 0o077:
        raise ConfigError(
            f"{folder}: a folder that only its owner can enter (mode 700) is due: jobs may leave programs in it"
        )
    for path in (*bubblewrap.visible(), *(path.resolve() for path in job.inputs.values())):
        if folder.is_relative_to(path) or path.is_relative_to(folder):
            raise ConfigError(f"{folder}: a folder apart from {path}, which jobs read, is due")
    with contextlib.suppress(FileNotFoundError):
        (folder / ANSWER).unlink()
    began_s = time.monotonic()
    watched, bwrap_code = _watch(job, folder, limits, bubblewrap.available(), began_s)
    wall_s = time.monotonic() - began_s
    start_ms = ((watched.started_s or began_s) - began_s) * 1e3
    outcome, text, value = _judge(watched, bwrap_code, folder, limits)
    printed = watched.output[: limits.output_bytes].decode(errors="replace")
    return JobResult(outcome, text[:TEXT_CHARACTERS_MAX], value, printed, wall_s, start_ms)


def _watch(job: Job, folder: Path, limits: Limits, bwrap: str, began_s: float) -> tuple[_Watched, int]:
    request = {"entry": job.entry, "arguments": job.arguments, "compiled": job.compiled, "limits": limits.model_dump()}
    with contextlib.ExitStack() as stack:
        asked = stack.enter_context(_file(json.dumps(request).encode()))
        rules = stack.enter_context(_file(seccomp.program()))
        info_read, info_write = stack.enter_context(_pipe())
        started_read, started_write = stack.enter_context(_pipe())
        inherited = (rules.fileno(), info_write.fileno(), started_write.fileno())
        command = bubblewrap.command(bwrap, folder, job.inputs, limits, *inherited)
        process = stack.enter_context(
            subprocess.Popen(
                command, stdin=asked, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, pass_fds=inherited, bufsize=0, env=bubblewrap.ENVIRONMENT,
            )
        )  # fmt: skip
        info_write.close()
        started_write.close()
        watched = _begin(process, info_read, began_s)
        if watched.init:
            stack.callback(os.close, watched.init_fd)
        try:
            _follow(watched, started_read, folder, limits)
        finally:
            watched.kill()
            process.kill()
        return watched, process.wait()


def _begin(process: "subprocess.Popen[bytes]", info: Any, began_s: float) -> _Watched:
    """Waits until bubblewrap says which process is the first in the sandbox; 0 if it failed before."""
    try:
        init = int(json.loads(info.readall())["child-pid"])
        return _Watched(process, init, os.pidfd_open(init), bytearray(), began_s)
    except (ValueError, KeyError, ProcessLookupError):
        return _Watched(process, 0, -1, bytearray(), began_s)


def _follow(watched: _Watched, started: Any, folder: Path, limits: Limits) -> None:
    """Reads what the job prints until all of its processes are gone, stopping it when it uses too much."""
    assert watched.process.stdout is not None
    output = watched.process.stdout.fileno()
    checked_s = watched.began_s
    with selectors.DefaultSelector() as selector:
        selector.register(output, selectors.EVENT_READ)
        selector.register(started, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select(TICK_S):
                if key.fileobj is started:
                    if os.read(key.fd, 1):
                        watched.started_s = time.monotonic()
                    selector.unregister(started)
                    continue
                read = os.read(output, 65536)
                if not read:
                    return
                if len(watched.output) <= limits.output_bytes:
                    watched.output += read
            now_s = time.monotonic()
            if watched.init and now_s - checked_s > TICK_S / 2:
                watched.check(folder, limits)
                checked_s = now_s


def _judge(watched: _Watched, code: int, folder: Path, limits: Limits) -> tuple[Outcome, str, Any]:
    """The outcome, why, and the answer. What a job says about itself counts only if nothing outside says otherwise."""
    if watched.init:
        watched.check_what_is_left(folder, limits)
    if watched.stopped is not None:
        return *watched.stopped, None
    if watched.started_s is None:
        return Outcome.REFUSED, f"bubblewrap did not start it: {watched.output.decode(errors='replace').strip()}", None
    number = code - 128
    if number == signal.SIGXCPU:
        return Outcome.CPU, f"it used more than {limits.cpu_s} s of processor time", None
    if number > 0:
        name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
        return Outcome.SIGNALLED, f"it was killed by {name}", None
    if code:
        return Outcome.CRASHED, f"it ended with exit status {code} and no answer", None
    if not (folder / ANSWER).is_symlink() and not (folder / ANSWER).exists():
        return Outcome.CRASHED, "it ended without an answer", None
    try:
        return returned.read_claim(folder)
    except ReturnedError as error:
        return Outcome.RETURNED, f"what it left is not an answer: {error}", None
