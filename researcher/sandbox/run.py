"""Run a job in the sandbox: start bubblewrap, supervise it, return its result."""

import contextlib
import errno
import json
import os
import select
import selectors
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from serl.exchange.errors import ConfigError
from serl.researcher.sandbox import bubblewrap, job_folder, returned, seccomp, usage
from serl.researcher.sandbox.boot import ANSWER
from serl.researcher.sandbox.errors import AbandonedError, ReturnedError
from serl.researcher.sandbox.job_result import JobResult, Outcome
from serl.researcher.sandbox.limits import Limits

TICK_S = 0.025
"""Interval between checks of a job's resources."""
TEXT_CHARACTERS_MAX = 2500
_LOCK = threading.Lock()
_abandoned: set[threading.Event] = set()
"""An event for each running job; setting it ends the job."""


def abandon() -> None:
    """Kill all running jobs: their `run` raises AbandonedError."""
    with _LOCK:
        for event in _abandoned:
            event.set()


@dataclass(frozen=True)
class Job:
    """A function of serl to call in the sandbox. It may then run untrusted code."""

    entry: str
    """`package.module:function`; the function takes the arguments by name and returns plain JSON."""
    arguments: dict[str, Any] = field(default_factory=dict)
    """Plain JSON."""
    compiled: bool = False
    """Whether the job loads serl's compiled code (numba)."""
    inputs: dict[str, Path] = field(default_factory=dict)
    """Files and folders that the job can read as /inputs/NAME."""

    def __post_init__(self) -> None:
        for name, path in self.inputs.items():
            if not job_folder.PLAIN_NAME.fullmatch(name) or not path.exists():
                raise ConfigError(f"input {name!r}: expected a plain name and a file that exists, got {path}")


@dataclass
class _RunningJob:
    """A job and its process, the first of its pid namespace. Once `stopped` is set, the job is killed and `stopped` is its outcome."""

    process: "subprocess.Popen[bytes]"
    """Process of bubblewrap."""
    init: int
    """Process id of the job; 0 if bubblewrap failed before it started."""
    init_fd: int
    output: bytearray
    began_s: float
    abandoned: threading.Event
    folder: Path | None = None
    """The job's folder; None until the job has started."""
    started_s: float | None = None
    stopped: tuple[Outcome, str] | None = None

    def stop(self, outcome: Outcome, text: str) -> None:
        """Record why the job is stopped; the first reason wins."""
        self.stopped = self.stopped or (outcome, text)

    def kill(self) -> None:
        """Kill the job: a pid namespace ends with its first process. Killing only bubblewrap is not enough, because its child does not notice that
        during setup."""
        if self.init:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.init_fd, signal.SIGKILL)

    def check(self, limits: Limits) -> None:
        """Kill the job if it exceeds a limit or is abandoned."""
        self.check_usage(limits)
        self.check_output(limits)
        if self.stopped or self.abandoned.is_set():
            self.kill()

    def check_usage(self, limits: Limits) -> None:
        """Check wall time, threads and CPU time."""
        if time.monotonic() - self.began_s > limits.wall_s:
            self.stop(Outcome.TIMEOUT, f"did not end within {limits.wall_s:g} s")
        used = usage.usage_of(self.init)
        if used and used.threads > limits.threads:
            self.stop(Outcome.THREADS, f"had {used.threads} threads, the limit is {limits.threads}")
        if used and used.cpu_s > limits.cpu_s:
            self.stop(Outcome.CPU, f"used more than {limits.cpu_s} s of CPU time")

    def check_output(self, limits: Limits) -> None:
        """Check output and files, also once more after the job has ended."""
        if len(self.output) > limits.output_bytes:
            self.stop(Outcome.OUTPUT, f"printed more than {limits.output_bytes:,} bytes")
        excess = job_folder.excess(self.folder, limits.folder_entries) if self.folder else ""
        if excess:
            self.stop(Outcome.FOLDER, excess)


@contextlib.contextmanager
def _pipe() -> Iterator[tuple[Any, Any]]:
    """Both ends of a pipe as unbuffered files; the caller may close them early."""
    read, write = os.pipe()
    with open(read, "rb", buffering=0) as reading, open(write, "wb", buffering=0) as writing:
        yield reading, writing


@contextlib.contextmanager
def _file(content: bytes) -> Iterator[Any]:
    """An open, unnamed temporary file with this content."""
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        yield file


@contextlib.contextmanager
def _abandonable() -> Iterator[threading.Event]:
    """An event that `abandon` sets."""
    event = threading.Event()
    with _LOCK:
        _abandoned.add(event)
    try:
        yield event
    finally:
        with _LOCK:
            _abandoned.discard(event)


@contextlib.contextmanager
def work_folder() -> Iterator[Path]:
    """A new folder for a job, removed afterwards with all its content."""
    with tempfile.TemporaryDirectory(prefix="serl-job-") as folder:
        yield Path(folder)


def run(job: Job, folder: Path, limits: Limits | None = None) -> JobResult:
    """Run a job in a sandbox. Returns when its last process has ended.

    The job's only writable folder is in memory. It starts with the plain files of `folder`, and the plain files that the job leaves in it are copied
    back. SandboxUnavailableError if the sandbox does not work here: then nothing runs. AbandonedError if another thread abandons the job.
    """
    limits = limits or Limits()
    with contextlib.suppress(FileNotFoundError):
        (folder / ANSWER).unlink()
    bwrap, began_s = bubblewrap.require_bwrap(), time.monotonic()
    with contextlib.ExitStack() as stack:
        running, code = _supervise(job, folder, limits, bwrap, began_s, stack)
        if running.abandoned.is_set():
            raise AbandonedError("the job in the sandbox was abandoned; continue with --resume")
        outcome, text, value = _outcome(running, code, folder, limits)
    start_ms = ((running.started_s or began_s) - began_s) * 1e3
    printed = running.output[: limits.output_bytes].decode(errors="replace")
    return JobResult(outcome, text[:TEXT_CHARACTERS_MAX], value, printed, time.monotonic() - began_s, start_ms)


def _supervise(
    job: Job, folder: Path, limits: Limits, bwrap: str, began_s: float, stack: contextlib.ExitStack
) -> tuple[_RunningJob, int]:
    """Run a job to its end. Returns the job, whose folder stays open in `stack`, and the exit status of bubblewrap."""
    abandoned = stack.enter_context(_abandonable())
    filter_file = stack.enter_context(_file(seccomp.program()))
    request = {
        "entry": job.entry, "arguments": job.arguments, "compiled": job.compiled, "limits": limits.model_dump(),
        "filter": seccomp.after_start().hex(),
    }  # fmt: skip
    request_read, request_write = stack.enter_context(_pipe())
    info_read, info_write = stack.enter_context(_pipe())
    started_read, started_write = stack.enter_context(_pipe())
    inherited = (filter_file.fileno(), info_write.fileno(), started_write.fileno())
    command = bubblewrap.command(bwrap, job.inputs, limits, *inherited)
    process = stack.enter_context(
        subprocess.Popen(
            command, stdin=request_read, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, pass_fds=inherited, bufsize=0, env=bubblewrap.ENVIRONMENT,
            start_new_session=True,  # Ctrl-C in the terminal reaches only us: we decide whether the job ends
        )
    )  # fmt: skip
    for end in (request_read, info_write, started_write):
        end.close()
    running = _await_init(process, info_read, began_s, abandoned)
    if running.init:
        stack.callback(os.close, running.init_fd)
    try:
        if select.select([started_read], [], [], limits.wall_s)[0] and os.read(started_read.fileno(), 1):
            running.started_s = time.monotonic()
            with contextlib.suppress(ProcessLookupError, FileNotFoundError, BrokenPipeError):  # the job was killed
                running.folder = stack.enter_context(job_folder.opened(running.init))
                if job_folder.fill(running.folder, folder):
                    request_write.write(json.dumps(request).encode())
                else:
                    running.stop(Outcome.FOLDER, "No space left on device for the files that its folder begins with")
        request_write.close()
        _read_output(running, limits)
    finally:
        running.kill()
        process.kill()
    return running, process.wait()


def _await_init(
    process: "subprocess.Popen[bytes]", info: Any, began_s: float, abandoned: threading.Event
) -> _RunningJob:
    """Wait until bubblewrap reports the first process of the sandbox. Its id is 0 if bubblewrap failed before."""
    try:
        init = int(json.loads(info.readall())["child-pid"])
        return _RunningJob(process, init, os.pidfd_open(init), bytearray(), began_s, abandoned)
    except (ValueError, KeyError, ProcessLookupError):
        return _RunningJob(process, 0, -1, bytearray(), began_s, abandoned)


def _read_output(running: _RunningJob, limits: Limits) -> None:
    """Read the job's output until its last process is gone; stop it if it exceeds a limit."""
    assert running.process.stdout is not None
    output, checked_s = running.process.stdout.fileno(), running.began_s
    with selectors.DefaultSelector() as selector:
        selector.register(output, selectors.EVENT_READ)
        while True:
            if selector.select(TICK_S):
                read = os.read(output, 65536)
                if not read:
                    return
                if len(running.output) <= limits.output_bytes:
                    running.output += read
            now_s = time.monotonic()
            if running.init and now_s - checked_s > TICK_S / 2:
                running.check(limits)
                checked_s = now_s


def _outcome(running: _RunningJob, code: int, folder: Path, limits: Limits) -> tuple[Outcome, str, Any]:
    """(outcome, text, answer) of a job, whose files are copied to `folder`. The job's own claim counts only if no limit, signal or exit status
    contradicts it."""
    running.check_output(limits)
    if running.folder and not running.stopped:
        try:
            job_folder.take(running.folder, folder, limits.folder_bytes)
        except ReturnedError as error:
            running.stop(Outcome.FOLDER, str(error))
    if running.stopped is not None:
        return *running.stopped, None
    if running.folder is None:
        return Outcome.REFUSED, f"bubblewrap did not start it: {running.output.decode(errors='replace').strip()}", None
    number = code - 128
    if number > 0:
        name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
        return Outcome.SIGNALLED, f"killed by {name}", None
    if code == errno.ENOSPC:  # see boot.py
        return Outcome.FOLDER, f"No space left on device: its folder has {limits.folder_bytes:,} bytes", None
    if code:
        return Outcome.CRASHED, f"ended with exit status {code} and no answer", None
    if not os.path.lexists(running.folder / ANSWER):
        return Outcome.CRASHED, "ended without an answer", None
    try:
        return returned.read_claim(running.folder)
    except ReturnedError as error:
        return Outcome.RETURNED, f"the answer file is invalid: {error}", None
