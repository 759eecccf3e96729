"""Run a job in the sandbox: start bubblewrap, supervise it, return its result."""

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
"""Interval between checks of a job's resources."""
INPUT_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
TEXT_CHARACTERS_MAX = 2500


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
            if not INPUT_NAME.fullmatch(name) or not path.exists():
                raise ConfigError(f"input {name!r}: expected a plain name and a file that exists, got {path}")


@dataclass
class _RunningJob:
    """A job and its processes. Once `stopped` is set, the job is killed and `stopped` is its outcome."""

    process: "subprocess.Popen[bytes]"
    init: int
    init_fd: int
    output: bytearray
    began_s: float
    started_s: float | None = None
    stopped: tuple[Outcome, str] | None = None

    def stop(self, outcome: Outcome, text: str) -> None:
        """Record why the job is stopped; the first reason wins."""
        self.stopped = self.stopped or (outcome, text)

    def kill(self) -> None:
        """Kill all processes of the job: a pid namespace dies with its first process. Killing only bubblewrap is not enough, because
        its child does not notice during setup."""
        if self.init:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.init_fd, signal.SIGKILL)

    def check(self, folder: Path, limits: Limits) -> None:
        """Kill the job if it exceeds a limit."""
        self.check_usage(limits)
        self.check_output(folder, limits)
        if self.stopped:
            self.kill()

    def check_usage(self, limits: Limits) -> None:
        """Check wall time, threads and CPU time."""
        if time.monotonic() - self.began_s > limits.wall_s:
            self.stop(Outcome.TIMEOUT, f"did not end within {limits.wall_s:g} s")
        pid = usage.child_of(self.init)
        used = usage.usage_of(pid) if pid else None
        if used and used.threads > limits.threads:
            self.stop(Outcome.THREADS, f"had {used.threads} threads, the limit is {limits.threads}")
        if used and used.cpu_s > limits.cpu_s:
            self.stop(Outcome.CPU, f"used more than {limits.cpu_s} s of CPU time")

    def check_output(self, folder: Path, limits: Limits) -> None:
        """Check output and files, also once more after the job has ended."""
        if len(self.output) > limits.output_bytes:
            self.stop(Outcome.OUTPUT, f"printed more than {limits.output_bytes:,} bytes")
        excess = usage.folder_excess(folder, limits.folder_bytes, limits.folder_entries)
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
def work_folder() -> Iterator[Path]:
    """A new folder for a job, removed afterwards with all its content, however deep."""
    folder = Path(tempfile.mkdtemp(prefix="serl-job-"))
    try:
        yield folder
    finally:
        # rm handles any depth, unlike Python's recursion; the job may have removed permissions
        subprocess.run(["chmod", "-R", "u+rwX", "--", str(folder)], stderr=subprocess.DEVNULL, check=False)
        subprocess.run(["rm", "-rf", "--one-file-system", "--", str(folder)], check=False)


def run(job: Job, folder: Path, limits: Limits | None = None) -> JobResult:
    """Run a job in a sandbox whose only writable folder is `folder`. Returns when its last process is gone.

    ConfigError if the job could read the folder's parents, or other users can enter it. SandboxUnavailableError if the sandbox does not
    work here: then nothing runs.
    """
    limits = limits or Limits()
    folder = folder.resolve(strict=True)
    if folder.stat().st_mode & 0o077:
        raise ConfigError(
            f"{folder}: expected a folder that only its owner can enter (mode 700): jobs may leave programs in it; use work_folder()"
        )
    for path in (*bubblewrap.readable_paths(), *(path.resolve() for path in job.inputs.values())):
        if folder.is_relative_to(path) or path.is_relative_to(folder):
            raise ConfigError(f"{folder}: expected a folder outside of {path}, which jobs can read; use work_folder()")
    with contextlib.suppress(FileNotFoundError):
        (folder / ANSWER).unlink()
    began_s = time.monotonic()
    job_process, bwrap_code = _supervise(job, folder, limits, bubblewrap.require_bwrap(), began_s)
    wall_s = time.monotonic() - began_s
    start_ms = ((job_process.started_s or began_s) - began_s) * 1e3
    outcome, text, value = _outcome(job_process, bwrap_code, folder, limits)
    printed = job_process.output[: limits.output_bytes].decode(errors="replace")
    return JobResult(outcome, text[:TEXT_CHARACTERS_MAX], value, printed, wall_s, start_ms)


def _supervise(job: Job, folder: Path, limits: Limits, bwrap: str, began_s: float) -> tuple[_RunningJob, int]:
    request = {"entry": job.entry, "arguments": job.arguments, "compiled": job.compiled, "limits": limits.model_dump()}
    with contextlib.ExitStack() as stack:
        request_file = stack.enter_context(_file(json.dumps(request).encode()))
        filter_file = stack.enter_context(_file(seccomp.program()))
        info_read, info_write = stack.enter_context(_pipe())
        started_read, started_write = stack.enter_context(_pipe())
        inherited = (filter_file.fileno(), info_write.fileno(), started_write.fileno())
        command = bubblewrap.command(bwrap, folder, job.inputs, limits, *inherited)
        process = stack.enter_context(
            subprocess.Popen(
                command, stdin=request_file, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, pass_fds=inherited, bufsize=0, env=bubblewrap.ENVIRONMENT,
            )
        )  # fmt: skip
        info_write.close()
        started_write.close()
        job_process = _await_init(process, info_read, began_s)
        if job_process.init:
            stack.callback(os.close, job_process.init_fd)
        try:
            _read_output(job_process, started_read, folder, limits)
        finally:
            job_process.kill()
            process.kill()
        return job_process, process.wait()


def _await_init(process: "subprocess.Popen[bytes]", info: Any, began_s: float) -> _RunningJob:
    """Wait until bubblewrap reports the first process of the sandbox; 0 if bubblewrap failed before."""
    try:
        init = int(json.loads(info.readall())["child-pid"])
        return _RunningJob(process, init, os.pidfd_open(init), bytearray(), began_s)
    except (ValueError, KeyError, ProcessLookupError):
        return _RunningJob(process, 0, -1, bytearray(), began_s)


def _read_output(job_process: _RunningJob, started: Any, folder: Path, limits: Limits) -> None:
    """Read the job's output until its last process is gone; stop it if it exceeds a limit."""
    assert job_process.process.stdout is not None
    output = job_process.process.stdout.fileno()
    checked_s = job_process.began_s
    with selectors.DefaultSelector() as selector:
        selector.register(output, selectors.EVENT_READ)
        selector.register(started, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select(TICK_S):
                if key.fileobj is started:
                    if os.read(key.fd, 1):
                        job_process.started_s = time.monotonic()
                    selector.unregister(started)
                    continue
                read = os.read(output, 65536)
                if not read:
                    if job_process.started_s is None and os.read(started.fileno(), 1):  # both ends came at once
                        job_process.started_s = time.monotonic()
                    return
                if len(job_process.output) <= limits.output_bytes:
                    job_process.output += read
            now_s = time.monotonic()
            if job_process.init and now_s - checked_s > TICK_S / 2:
                job_process.check(folder, limits)
                checked_s = now_s


def _outcome(job_process: _RunningJob, code: int, folder: Path, limits: Limits) -> tuple[Outcome, str, Any]:
    """The outcome, its text, and the answer. The job's own claim counts only if no limit, signal or exit status contradicts it."""
    if job_process.init:
        job_process.check_output(folder, limits)
    if job_process.stopped is not None:
        return *job_process.stopped, None
    if job_process.started_s is None:
        return (
            Outcome.REFUSED,
            f"bubblewrap did not start it: {job_process.output.decode(errors='replace').strip()}",
            None,
        )
    number = code - 128
    if number == signal.SIGXCPU:
        return Outcome.CPU, f"used more than {limits.cpu_s} s of CPU time", None
    if number > 0:
        name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
        return Outcome.SIGNALLED, f"killed by {name}", None
    if code:
        return Outcome.CRASHED, f"ended with exit status {code} and no answer", None
    if not (folder / ANSWER).is_symlink() and not (folder / ANSWER).exists():
        return Outcome.CRASHED, "ended without an answer", None
    try:
        return returned.read_claim(folder)
    except ReturnedError as error:
        return Outcome.RETURNED, f"the answer file is invalid: {error}", None
