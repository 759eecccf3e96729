"""Worker processes for training jobs of trusted code. They are reused, because imports take longer than a short training."""

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from serl.clients.parent_watch import exit_with_parent
from serl.garbage import collect_rarely
from serl.researcher.sandbox import run as sandbox
from serl.researcher.sandbox.boot import ANSWER, run_request
from serl.researcher.sandbox.errors import AbandonedError
from serl.researcher.sandbox.job_result import JobResult, Outcome
from serl.researcher.sandbox.returned import read_claim

JOB_LOG = "job.log"
"""Output of a job, in its folder."""
ABANDON_WAIT_S = 0.2
_LOCK = threading.Lock()
_idle: list["_Worker"] = []
_busy: set["_Worker"] = set()


def abandon() -> None:
    """Kill all running jobs, of workers and in the sandbox: their `run_job` or `run` raises AbandonedError."""
    sandbox.abandon()
    with _LOCK:
        for worker in _busy:
            worker.abandon()


@contextmanager
def abandonable_pool(workers: int) -> Iterator[ThreadPoolExecutor]:
    """Threads for jobs. If the block is left early, all jobs are killed until the threads have ended, including jobs that start meanwhile."""
    ended = threading.Event()
    killer = threading.Thread(target=_abandon_until, args=(ended,), daemon=True)
    try:
        with ThreadPoolExecutor(workers) as pool:
            try:
                yield pool
            except BaseException:  # including Ctrl-C: do not wait for running jobs
                pool.shutdown(wait=False, cancel_futures=True)
                killer.start()
                raise
    finally:
        ended.set()
        if killer.ident is not None:
            killer.join()


def _abandon_until(ended: threading.Event) -> None:
    while True:
        abandon()
        if ended.wait(ABANDON_WAIT_S):
            return


def run_job(request: dict[str, Any], folder: Path, wall_s: float) -> JobResult:
    """Run a job (see sandbox.boot) whose folder is `folder`, in an idle worker or a new one. Thread-safe."""
    with _LOCK:
        worker = _idle.pop() if _idle else None
    worker = worker if worker and worker.alive else _Worker()
    with _LOCK:
        _busy.add(worker)
    try:
        return worker.run_job(request, folder, wall_s)
    except BaseException:  # the worker may still be running this job, and would return its answer for the next one
        worker.stop()
        raise
    finally:
        with _LOCK:
            _busy.discard(worker)
            if worker.alive:
                _idle.append(worker)


class _Worker:
    """A worker process. It is killed after a crash or a timeout, and ends with this process. It does not use multiprocessing, which would import
    the caller's main module."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "serl.researcher.inner.worker", str(os.getpid())]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._abandoned = False

    @property
    def alive(self) -> bool:
        """Whether the worker can run another job."""
        return self._process.poll() is None

    def run_job(self, request: dict[str, Any], folder: Path, wall_s: float) -> JobResult:
        """See the function `run_job`."""
        began = time.monotonic()
        (folder / ANSWER).unlink(missing_ok=True)
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            stdin.write(json.dumps([request, str(folder.resolve())]).encode() + b"\n")
            stdin.flush()
        except OSError:
            return self._crashed(folder, 0.0)
        if not select.select([stdout], [], [], wall_s)[0]:
            self.stop()
            return JobResult(Outcome.TIMEOUT, f"did not end within {wall_s:g} s", wall_s=wall_s)
        if not stdout.readline():
            return self._crashed(folder, time.monotonic() - began)
        return JobResult(*read_claim(folder), wall_s=time.monotonic() - began)

    def abandon(self) -> None:
        """Kill the worker; called from a thread other than that of `run_job`."""
        self._abandoned = True
        self._process.kill()

    def _crashed(self, folder: Path, took_s: float) -> JobResult:
        self.stop()
        if self._abandoned:
            raise AbandonedError("training was abandoned; continue with --resume")
        path = folder / JOB_LOG
        output = path.read_text(errors="replace").strip()[-500:] if path.exists() else ""
        status = self._process.returncode
        outcome = Outcome.SIGNALLED if status < 0 else Outcome.CRASHED
        return JobResult(outcome, f"exit status {status}: {output}", wall_s=took_s)

    def stop(self) -> None:
        """Kill the worker."""
        self._process.kill()
        self._process.communicate()


def _serve(parent: int) -> None:
    """Run the requests on standard input, one per line, until it closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    exit_with_parent(parent)
    collect_rarely()
    done = os.dup(1)
    for line in sys.stdin:
        request, folder = json.loads(line)
        with Path(folder, JOB_LOG).open("wb") as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
        Path(folder, ANSWER).write_text(run_request(request))
        os.write(done, b"done\n")


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
