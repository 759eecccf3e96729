"""Ctrl-C at every stage of `serl demo`: it ends soon with one line and leaves no processes or files behind."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from serl.researcher.llm.models import MODELS
from tests.marked import Mark

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for processes in /proc")
SOON_S = 60.0
"""For what takes seconds on an idle machine."""
FULL_SPEED, SLOWLY = ("--quick", "--speed", "max"), ("--quick", "--speed", "5")
WITH_RESEARCHER = ("--port", "0")
WITHOUT_RESEARCHER = ("--no-researcher", *WITH_RESEARCHER, "--speed", "120")


class Demo:
    """A demo in a process group of its own, whose processes carry a mark in their environment."""

    def __init__(self, folder: Path, options: tuple[str, ...]) -> None:
        self.mark = Mark()
        self.output, self.temporary = folder / "output", folder / "temporary"
        self.temporary.mkdir()
        self.log = folder / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-u", "-m", "serl", "demo", *options, "--output", str(self.output)],
                stdout=log,
                stderr=log,
                env=self.mark.environment(
                    TMPDIR=str(self.temporary), XDG_RUNTIME_DIR=str(folder), PYTHONUNBUFFERED="1"
                ),
                start_new_session=True,
            )

    def processes(self) -> list[int]:
        """The process ids that carry the mark."""
        return self.mark.processes()

    def printed(self, word: str) -> bool:
        return word in self.log.read_text()


def signals_are_caught(demo: Demo) -> bool:
    """From its first moment on: SIGTERM has a handler."""
    status = Path(f"/proc/{demo.process.pid}/status").read_text()
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1)


def exchange_is_starting(demo: Demo) -> bool:
    return len(demo.processes()) > 1


def exchange_is_up(demo: Demo) -> bool:
    return demo.printed("exchange ready")


def replay_runs(demo: Demo) -> bool:
    return demo.printed("replaying")


def page_is_up(demo: Demo) -> bool:
    return demo.printed("dashboard http")


def traders_start(demo: Demo) -> bool:
    return demo.printed("with the traders of")


def all_is_done(demo: Demo) -> bool:
    return demo.printed("Ctrl-C stops them")


def order_is_worked(demo: Demo) -> bool:
    progress = demo.output / "twap.jsonl"
    return progress.exists() and "fill" in progress.read_text()


def report_is_written(demo: Demo) -> bool:
    return any(demo.output.glob("*-twap.json"))


def model_proposes(demo: Demo) -> bool:
    return researcher_printed(demo, "proposing candidate")


def candidates_are_trained(demo: Demo) -> bool:
    return researcher_printed(demo, ": training")


def researcher_printed(demo: Demo, words: str) -> bool:
    log = demo.output / "researcher.log"
    return log.exists() and words in log.read_text()


PARENT, GROUP = pytest.param(os.kill, id="parent"), pytest.param(os.killpg, id="group")
STAGES = [
    (signals_are_caught, FULL_SPEED, PARENT),
    (exchange_is_starting, FULL_SPEED, GROUP),
    (exchange_is_up, FULL_SPEED, None),
    (replay_runs, SLOWLY, None),
    (report_is_written, FULL_SPEED, None),
    (page_is_up, WITHOUT_RESEARCHER, None),
    (traders_start, WITHOUT_RESEARCHER, None),
    (order_is_worked, WITHOUT_RESEARCHER, None),
]
"""Stages, and how `make test` sends the signal at some of them; `make test-long` has both ways at every stage."""


def both_ways() -> Iterator[Any]:
    for stage, options, quick in STAGES:
        for way in (PARENT, GROUP):
            marks = () if way is quick else (pytest.mark.long,)
            yield pytest.param(stage, options, *way.values, marks=marks, id=f"{stage.__name__}-{options[0]}-{way.id}")


@pytest.mark.parametrize(("stage", "options", "send"), list(both_ways()))
def test_ctrl_c_ends_the_demo_and_all_it_started(
    stage: Callable[[Demo], bool], options: tuple[str, ...], send: Callable[[int, int], None], tmp_path: Path
) -> None:
    stop_at(Demo(tmp_path, options), stage, send, signal.SIGINT)


@pytest.mark.long
@pytest.mark.parametrize(("stage", "send"), [(model_proposes, os.kill), (candidates_are_trained, os.killpg)])
def test_ctrl_c_ends_the_researcher_too(
    stage: Callable[[Demo], bool], send: Callable[[int, int], None], tmp_path: Path
) -> None:
    pytest.importorskip("peft", reason="the extra `researcher` is not installed")
    if not MODELS["tiny"].path.exists():
        pytest.skip("the tiny model is not here; get it with: serl llm fetch tiny")
    demo = Demo(tmp_path, WITH_RESEARCHER)
    stop_at(demo, stage, send, signal.SIGINT)
    assert not demo.printed("continuing without the researcher")


@pytest.mark.long
def test_sigterm_does_so_too(tmp_path: Path) -> None:
    stop_at(Demo(tmp_path, SLOWLY), replay_runs, os.kill, signal.SIGTERM)


@pytest.mark.long
def test_the_page_stays_until_ctrl_c_which_is_then_no_error(tmp_path: Path) -> None:
    demo = Demo(tmp_path, (*WITHOUT_RESEARCHER, "--population", "small", "--speed", "200"))

    def page_is_still_there(demo: Demo) -> bool:
        if not all_is_done(demo):
            return False
        (address,) = re.findall(r"dashboard (http\S+)", demo.log.read_text())
        with urllib.request.urlopen(address, timeout=SOON_S) as reply:
            assert reply.status == 200
        assert json.loads((demo.output / "demo.json").read_text())["executions"]["twap"]["filled_lots"] == 1500
        return True

    stop_at(demo, page_is_still_there, os.killpg, signal.SIGINT, status=0)


def stop_at(
    demo: Demo, stage: Callable[[Demo], bool], send: Callable[[int, int], None], number: int, status: int | None = None
) -> None:
    """Send the signal at a stage of the demo and check its exit status, by default the signal's, and that nothing is left of it."""
    try:
        while not stage(demo):
            assert demo.process.poll() is None, demo.log.read_text()
            time.sleep(0.005)
        send(demo.process.pid, number)
        expected = 128 + number if status is None else status
        assert demo.process.wait(timeout=SOON_S) == expected, demo.log.read_text()
        assert status == 0 or "stopped" in demo.log.read_text().splitlines()[-1]
        assert not demo.printed("Traceback")
        assert demo.processes() == []
        assert list(demo.temporary.glob("serl-*")) == []
        assert list(demo.output.parent.glob("serl/*.token")) == [], "no credential is left"
    finally:
        for process in demo.processes():
            os.kill(process, signal.SIGKILL)
        demo.process.wait()


@pytest.mark.long
def test_a_killed_demo_leaves_no_process(tmp_path: Path) -> None:
    demo = Demo(tmp_path, WITHOUT_RESEARCHER)
    try:
        while not order_is_worked(demo):
            assert demo.process.poll() is None, demo.log.read_text()
            time.sleep(0.05)
        os.kill(demo.process.pid, signal.SIGKILL)
        demo.process.wait()
        deadline = time.monotonic() + SOON_S
        while demo.processes():
            assert time.monotonic() < deadline, demo.processes()
            time.sleep(0.1)
    finally:
        for process in demo.processes():
            os.kill(process, signal.SIGKILL)
