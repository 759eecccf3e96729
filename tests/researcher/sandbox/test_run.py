"""The sandbox from its caller's view."""

import os
import signal
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from benchmarks.sandbox import figures
from serl.exchange.errors import ConfigError
from serl.researcher.sandbox import bubblewrap, seccomp
from serl.researcher.sandbox import run as sandbox_run
from serl.researcher.sandbox.errors import AbandonedError, SandboxUnavailableError
from serl.researcher.sandbox.job_result import JobResult, Outcome
from serl.researcher.sandbox.limits import Limits
from serl.researcher.sandbox.run import Job, abandon, run, work_folder
from tests.researcher.processes import is_gone

EXECUTE = "serl.researcher.sandbox.entrypoints:execute"


USES_COMPILED_CODE = """
import numpy as np
from serl.agents.execution.environment import bars
from serl.agents.execution.environment.records import EPISODE
market = bars.StaticBars(bars.BarDays(np.arange(3) * 60, 60, np.full((1, 3, 6), 100.0)), 1)
market.reset(np.arange(1), np.array([(0, 1, 10, 0, 60, 2)], EPISODE))
answer = [sum(each.values()) for each in (bars._advance.stats.cache_hits, bars._advance.stats.cache_misses)]
"""


def execute(folder: Path, source: str, *, compiled: bool = False, limits: Limits | None = None) -> JobResult:
    return run(Job(EXECUTE, {"source": source}, compiled), folder, limits)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tmp_path.chmod(0o700)
    return tmp_path


@pytest.mark.usefixtures("sandboxed")
def test_answers_prints_and_files_come_back(folder: Path) -> None:
    result = execute(folder, "print('hello'); open('mine', 'w').write('x'); answer = {'a': [1, 2.5, None]}")
    assert result == JobResult(Outcome.OK, "", {"a": [1, 2.5, None]}, "hello\n", result.wall_s, result.start_ms)
    assert (folder / "mine").read_text() == "x"
    assert 0 < result.start_ms <= result.wall_s * 1e3


@pytest.mark.usefixtures("sandboxed")
def test_an_answer_of_before_is_not_taken_for_one(folder: Path) -> None:
    assert execute(folder, "answer = 1").value == 1
    assert execute(folder, "import os; os._exit(0)").outcome is Outcome.CRASHED


@pytest.mark.usefixtures("sandboxed")
def test_errors_name_the_line_of_the_text(folder: Path) -> None:
    result = execute(folder, "x = 1\n\ndef f():\n    return x / 0\nf()")
    assert (result.outcome, result.text) == (Outcome.CRASHED, "ZeroDivisionError: division by zero (line 4)")


@pytest.mark.usefixtures("sandboxed")
def test_a_file_of_the_longest_name_stays_where_it_is(folder: Path) -> None:
    """It could not be copied, because the copy is made under a longer one: the error ended the caller."""
    assert execute(folder, "open('a' * 255, 'w').close(); answer = 1").value == 1
    assert not (folder / ("a" * 255)).exists()


@pytest.mark.long
@pytest.mark.usefixtures("sandboxed")
def test_torch_and_numba_work_inside(folder: Path) -> None:
    torch = "import torch; x = torch.ones(3, requires_grad=True); (x * x).sum().backward(); answer = x.grad.tolist()"
    assert execute(folder, torch).value == [2.0, 2.0, 2.0]
    numba = "import numba\n@numba.njit\ndef f(x): return x + 1\nanswer = f(2)"
    assert execute(folder, numba, compiled=True).value == 3


@pytest.mark.usefixtures("sandboxed")
def test_code_compiled_outside_is_loaded_and_nothing_is_written_beside_it(folder: Path) -> None:
    names: dict[str, Any] = {}
    exec(USES_COMPILED_CODE, names)  # compiles and caches it, if it is not
    result = execute(folder, USES_COMPILED_CODE, compiled=True)
    assert result.value == [1, 0], result


@pytest.mark.usefixtures("sandboxed")
def test_inputs_can_be_read_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "a.day").write_text("day")
    source = (
        "import os; answer = open('/inputs/mine').read(), os.listdir('/inputs'), os.access('/inputs/mine', os.W_OK)"
    )
    with work_folder() as folder:
        result = run(Job(EXECUTE, {"source": source}, inputs={"mine": tmp_path / "a.day"}), folder)
        assert result.value == ["day", ["mine"], False]
    for name in ("..", "a/b", "", ".hidden"):
        with pytest.raises(ConfigError, match="plain name"):
            Job(EXECUTE, inputs={name: tmp_path})
    with pytest.raises(ConfigError, match="exists"):
        Job(EXECUTE, inputs={"a": tmp_path / "missing"})


@pytest.mark.usefixtures("sandboxed")
def test_jobs_run_side_by_side() -> None:
    results: list[JobResult] = []

    def one(number: int) -> None:
        with work_folder() as folder:
            results.append(execute(folder, f"answer = {number}"))

    threads = [threading.Thread(target=one, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(result.value for result in results) == list(range(8))


@pytest.mark.long
@pytest.mark.usefixtures("sandboxed")
def test_the_start_is_quick(folder: Path) -> None:
    assert 0 < min(execute(folder, "").start_ms for _ in range(10)) <= 150  # others share the machine: the least counts


@pytest.mark.long
@pytest.mark.usefixtures("sandboxed")
def test_figures_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.sandbox.STARTS", 1)
    monkeypatch.setattr("benchmarks.sandbox.IMPORTS", 1)
    measured = figures()
    assert 0 < measured["sandbox_start_ms"] < measured["sandbox_empty_job_ms"] < measured["sandbox_torch_import_ms"]
    assert measured["sandbox_reward_trial_ms"] > 0


@pytest.mark.usefixtures("sandboxed")
def test_an_interruption_ends_the_job(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs: list[int] = []

    def interrupted(job: Any, _limits: Limits) -> None:
        jobs.append(job.init)
        raise KeyboardInterrupt

    monkeypatch.setattr("serl.researcher.sandbox.run._read_output", interrupted)
    with pytest.raises(KeyboardInterrupt):
        execute(folder, "import time; open('mine', 'w'); time.sleep(60)")
    (job,) = jobs
    assert is_gone(job)


@pytest.mark.usefixtures("sandboxed")
def test_files_that_do_not_fit_the_folder_are_a_verdict(folder: Path) -> None:
    (folder / "given").write_bytes(bytes(2 * 2**20))
    result = execute(folder, "answer = 1", limits=Limits(folder_bytes=2**20))
    assert result.outcome is Outcome.FOLDER
    assert "begins with" in result.text


JOB = """
from serl.researcher.sandbox import run as sandbox_run
await_init = sandbox_run._await_init
def noting(*arguments):
    job = await_init(*arguments)
    print(job.init, flush=True)
    return job
sandbox_run._await_init = noting
{}
with sandbox_run.work_folder() as folder:
    sandbox_run.run(sandbox_run.Job("serl.researcher.sandbox.entrypoints:execute", {{"source": {!r}}}), folder)
"""
CLEARS = "import ctypes\nctypes.CDLL(None).prctl(1, 0)\n"
TAKES_OVER = """
import os, sys, threading
thread = threading.Thread(target=os.execv, args=(sys.executable, [sys.executable, "-c", {!r}]))
thread.start()
thread.join()
"""
DONE = "import ctypes, time\nctypes.CDLL(None).prctl(15, b'done')\ntime.sleep(60)"
"""Names the process, which the host sees."""
OUTLIVING = {
    "clears its death signal": (CLEARS + DONE, "sandbox_run.seccomp.PR_SET_PDEATHSIG = 999"),
    "lets a thread become another program": (
        TAKES_OVER.format(DONE) + DONE, "sandbox_run.seccomp.EXEC = dict.fromkeys(sandbox_run.seccomp.EXEC, ())",
    ),
}  # fmt: skip
"""Jobs that would outlive their caller, and what takes the protection away."""


@pytest.mark.usefixtures("sandboxed")
def test_a_job_ends_with_a_caller_that_is_killed() -> None:
    assert is_gone(job_of_a_killed_caller(DONE, ""))


def job_of_a_killed_caller(source: str, before: str) -> int:
    """A job that says it is done, whose caller is then killed."""
    with subprocess.Popen([sys.executable, "-c", JOB.format(before, source)], stdout=subprocess.PIPE) as caller:
        assert caller.stdout is not None
        job = int(caller.stdout.readline())
        while Path(f"/proc/{job}/comm").read_text() != "done\n":
            time.sleep(0.02)
        caller.kill()
    return job


@pytest.mark.usefixtures("sandboxed")
@pytest.mark.parametrize("name", OUTLIVING)
def test_no_job_outlives_its_caller(name: str) -> None:
    source, without = OUTLIVING[name]
    assert is_gone(job_of_a_killed_caller(source, ""))
    left = job_of_a_killed_caller(source, without)
    assert not is_gone(left, within_s=1.0), "the attack works without the protection"
    os.kill(left, signal.SIGKILL)


@pytest.mark.usefixtures("sandboxed")
def test_an_abandoned_job_ends_without_a_result(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the terminal does not reach it: it is in a session of its own."""
    jobs: list[Any] = []
    read_output = sandbox_run._read_output

    def abandoning(job: Any, limits: Limits) -> None:
        jobs.append((job.init, os.getsid(job.process.pid)))
        abandon()
        read_output(job, limits)

    monkeypatch.setattr(sandbox_run, "_read_output", abandoning)
    with pytest.raises(AbandonedError, match="--resume"):
        execute(folder, "import time; time.sleep(60)")
    ((job, session),) = jobs
    assert is_gone(job)
    assert session != os.getsid(0)
    assert not list(folder.iterdir())


@pytest.mark.usefixtures("sandboxed")
def test_files_of_the_folder_are_there_and_links_stay_behind(folder: Path) -> None:
    (folder / "given").write_text("given")
    (folder / "link").symlink_to(folder / "given")
    source = (
        "import os\nanswer = sorted(os.listdir()), open('given').read()\nopen('given', 'w').write('new')\nos.chmod('given', 0o4755)\n"
        "os.symlink('/etc/passwd', 'mine')\nos.mkdir('inner')\nopen('.hidden', 'w')"
    )
    assert execute(folder, source).value == [["given"], "given"]
    assert sorted(path.name for path in folder.iterdir()) == ["given", "link"]
    assert (folder / "given").read_text() == "new"
    assert (folder / "given").stat().st_mode & 0o7777 == 0o600


def test_without_bubblewrap_nothing_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr(bubblewrap, "require_bwrap", bubblewrap.require_bwrap.__wrapped__)
    with pytest.raises(SandboxUnavailableError, match="apt install bubblewrap"):
        execute(folder, "open('mine', 'w')")
    assert not list(folder.iterdir())


def test_where_namespaces_are_off_nothing_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = folder.parent / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setattr("shutil.which", lambda name: str(fake))
    monkeypatch.setattr(bubblewrap, "require_bwrap", bubblewrap.require_bwrap.__wrapped__)
    with pytest.raises(SandboxUnavailableError, match=r"No permissions to create new namespace.*user namespaces"):
        execute(folder, "open('mine', 'w')")
    assert not list(folder.iterdir())


@pytest.mark.usefixtures("sandboxed")
def test_a_sandbox_that_cannot_be_set_up_is_a_refusal(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = bubblewrap.readable_paths()
    monkeypatch.setattr(bubblewrap, "readable_paths", lambda: (*before, Path("/nowhere/at/all")))
    result = execute(folder, "open('mine', 'w')")
    assert result.outcome is Outcome.REFUSED
    assert "nowhere" in result.text
    assert not list(folder.iterdir())


def test_every_link_on_the_way_to_an_interpreter_is_followed(tmp_path: Path) -> None:
    # as Debian's: a virtual environment's python -> python3 -> /usr/bin/python3 -> python3.11
    system, own = tmp_path / "system", tmp_path / "own"
    system.mkdir()
    own.mkdir()
    (system / "python3.11").touch()
    (system / "python3").symlink_to("python3.11")
    (own / "python3").symlink_to(system / "python3")
    (own / "python").symlink_to("python3")
    assert bubblewrap.symlink_chain(own / "python") == [
        own / "python",
        own / "python3",
        system / "python3",
        system / "python3.11",
    ]


def test_filters_are_of_known_machines() -> None:
    for machine, (architecture, calls) in seccomp.MACHINES.items():
        program = seccomp.program(machine)
        steps = [struct.unpack("<HBBI", program[at : at + 8]) for at in range(0, len(program), 8)]
        assert steps[1] == (seccomp.EQUAL, 1, 0, architecture)
        assert steps[-1] == (seccomp.RETURN, 0, 0, seccomp.ALLOW)
        tested = {value for code, _, _, value in steps if code == seccomp.EQUAL}
        assert tested == {architecture, seccomp.PR_SET_PDEATHSIG, *calls.values(), *seccomp.COMMON.values()}
    with pytest.raises(SandboxUnavailableError, match="riscv64"):
        seccomp.program("riscv64")
