"""Work in_background the first proposals."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from serl.researcher.candidates import Candidate, Result
from serl.researcher.outer import run
from serl.researcher.outer.background import in_background
from serl.researcher.outer.loop import OuterLoop
from serl.researcher.sandbox.errors import AbandonedError
from tests.researcher.outer.small import Arithmetic, config_of


def test_it_ends_with_the_block() -> None:
    begun, may_end, done = threading.Event(), threading.Event(), list[str]()

    def work() -> None:
        begun.set()
        may_end.wait(5)
        done.append("work")

    with in_background(work, lambda: None):
        assert begun.wait(5)
        done.append("block")
        may_end.set()
    assert done == ["block", "work"]


def test_its_error_is_raised_after_the_block() -> None:
    done = list[str]()
    with pytest.raises(ValueError, match="wrong"), in_background(lambda: int("wrong"), lambda: None):
        done.append("block")
    assert done == ["block"]


def test_it_is_abandoned_until_it_ends() -> None:
    """A job that begins just after the first call is killed by the next one."""
    calls, killed, workers = list[int](), threading.Semaphore(0), list[threading.Thread]()

    def abandon() -> None:
        calls.append(1)
        killed.release()

    def work() -> None:
        workers.append(threading.current_thread())
        for _ in range(3):
            killed.acquire(timeout=5)

    with pytest.raises(KeyboardInterrupt), in_background(work, abandon):
        raise KeyboardInterrupt
    assert len(calls) >= 3 and not workers[0].is_alive()


def test_its_error_is_told_where_it_has_ended_a_job_of_the_block() -> None:
    failed = threading.Event()

    def work() -> None:
        failed.set()
        raise ValueError("the incumbent is wrong")

    with pytest.raises(ValueError, match="the incumbent is wrong"), in_background(work, lambda: None):
        assert failed.wait(5)
        raise AbandonedError("the job in the sandbox was abandoned")


def test_only_the_first_proposals_have_something_beside_them(tmp_path: Path) -> None:
    """An evaluation that was interrupted goes on from its ledger, which another one would overwrite."""
    config, surrounded, arithmetic = config_of(iterations=2), list[int](), Arithmetic()

    class Interrupted(Exception):
        pass

    def research(evaluate: Callable[..., list[Result]], *, resume: bool) -> None:
        database = run.begin(tmp_path, config, "test", resume=resume)

        @contextmanager
        def beside_first() -> Iterator[None]:
            surrounded.append(len(database.slots(1)))
            yield
            surrounded.append(len(database.slots(1)))

        with run.open_proposer(config, tmp_path, database) as (proposer, _):
            try:
                OuterLoop(config, tmp_path, database, proposer, evaluate, beside_first=beside_first).run()
            finally:
                database.close()

    def interrupt(candidates: list[Candidate], place: Path) -> Any:
        raise Interrupted

    with pytest.raises(Interrupted):
        research(interrupt, resume=False)
    research(arithmetic, resume=True)
    assert surrounded == [0, config.candidates + 1], "the incumbent is stored in_background the proposals"
