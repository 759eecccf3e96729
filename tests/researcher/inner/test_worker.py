"""Workers: jobs in sequence, crashes, timeouts and abandonment."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from serl.agents.learning.training import CHECKPOINT
from serl.researcher.inner.settings import Settings
from serl.researcher.inner.worker import JOB_LOG, abandon, run_job
from serl.researcher.sandbox.errors import AbandonedError
from serl.researcher.sandbox.job_result import Outcome


@pytest.fixture(autouse=True)
def new_workers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Start without idle workers of other tests: they cannot import these tests' jobs."""
    idle: list[Any] = []
    monkeypatch.setattr("serl.researcher.inner.worker._idle", idle)
    yield
    for worker in idle:
        worker.stop()


def request(function: str, **arguments: Any) -> dict[str, Any]:
    return {"entry": f"tests.researcher.inner.jobs:{function}", "arguments": arguments, "compiled": False}


def test_jobs_share_a_process_until_one_crashes(tmp_path: Path) -> None:
    pids = [run_job(request("pid"), tmp_path, 60).value for _ in range(2)]
    assert pids[0] == pids[1] != os.getpid()
    crashed = run_job(request("crash", text="last output"), tmp_path, 60)
    assert crashed.outcome is Outcome.CRASHED
    assert "last output" in crashed.text
    failed = run_job(request("fail"), tmp_path, 60)
    assert (failed.outcome, failed.text) == (Outcome.CRASHED, "ValueError: on purpose")
    after = run_job(request("pid"), tmp_path, 60)
    assert after.ok
    assert after.value != pids[0]


def test_a_worker_that_a_signal_killed_is_told_from_one_that_crashed(tmp_path: Path) -> None:
    found = run_job(request("be_killed"), tmp_path, 60)
    assert found.outcome is Outcome.SIGNALLED
    assert "exit status -9" in found.text


def test_a_job_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    began = time.monotonic()
    assert run_job(request("sleep", seconds=60), tmp_path, 5).outcome is Outcome.TIMEOUT
    assert time.monotonic() - began < 50


def test_an_interrupted_job_leaves_no_worker_that_answers_for_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr("serl.researcher.inner.worker.select.select", interrupt)
        run_job(request("sleep", seconds=0), tmp_path, 60)
    (tmp_path / "next").mkdir()
    assert run_job(request("sleep", seconds=0.5), tmp_path / "next", 60).ok


def test_an_abandoned_job_has_no_result(tmp_path: Path) -> None:
    found: list[BaseException] = []

    def one() -> None:
        try:
            run_job(request("sleep", seconds=60), tmp_path, 100)
        except AbandonedError as error:
            found.append(error)

    thread = threading.Thread(target=one)
    thread.start()
    while not (tmp_path / JOB_LOG).exists():
        assert thread.is_alive()
        time.sleep(0.01)
    abandon()
    thread.join(30)
    assert len(found) == 1
    with pytest.raises(AbandonedError, match="--resume"):
        raise found[0]


PROGRAM = """
import sys
from pathlib import Path
from serl.researcher.candidates import Budget, Candidate
from serl.researcher.inner.evaluate import evaluate_many
from serl.researcher.inner.settings import Settings

evaluate_many([Candidate({})], Settings.model_validate_json(sys.argv[1]), Budget(static_steps=10**9), Path(sys.argv[2]), 1)
"""


@pytest.mark.long
def test_ctrl_c_in_training_leaves_no_result(settings: Settings, tmp_path: Path) -> None:
    running = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, settings.model_dump_json(), str(tmp_path)], start_new_session=True, stderr=subprocess.PIPE
    )  # fmt: skip
    while not list(tmp_path.glob(f"*/seed-*/job/{CHECKPOINT}")):
        assert running.poll() is None, running.communicate()[1]
        time.sleep(0.05)
    os.killpg(running.pid, signal.SIGINT)
    _, errors = running.communicate(timeout=60)
    assert b"KeyboardInterrupt" in errors
    assert list(tmp_path.glob("*/seed-*/share-*.json")) == []
    assert list(tmp_path.glob("*/failed.json")) == []
