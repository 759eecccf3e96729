"""The exchange of a score ends with the process that takes the score, also if that is killed."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from serl.agents.learning.errors import LearningError
from serl.clients.errors import SessionEnded
from serl.clients.replay import Replayer
from serl.exchange.config import time_of_day_ns
from serl.history.day import Day
from serl.history.generate import generate_day
from serl.researcher.inner import exchange
from serl.researcher.inner.errors import ScoreError
from tests.researcher.processes import is_gone


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_it_ends_with_the_context() -> None:
    with exchange.lockstep_exchange(
        ("AAA",), "0.01"
    ):  # the first start also starts the process that is forked (tests/forked.py)
        pass
    before = set(children(os.getpid()))
    with exchange.lockstep_exchange(("AAA",), "0.01") as (endpoint, _):
        (started,) = set(children(os.getpid())) - before
        assert endpoint.startswith("tcp://127.0.0.1:")
    assert is_gone(started, within_s=0.1)


def test_an_exchange_that_does_not_start_is_no_failure_of_who_trades_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        monkeypatch.setattr(exchange, "free_port", lambda: taken.getsockname()[1])
        with pytest.raises(ScoreError, match="cannot be bound"), exchange.lockstep_exchange(("AAA",), "0.01"):
            pass


@pytest.mark.parametrize(("error", "found"), [
    (SessionEnded("restarted", "it restarted"), ScoreError), (SessionEnded("silence", "no message"), SessionEnded),
    (LearningError("a rule"), LearningError),
])  # fmt: skip
def test_only_errors_of_the_exchange_are_its_own(error: Exception, found: type[Exception]) -> None:
    with pytest.raises(found), exchange._measuring():
        raise error


class NoReplay:
    """Fails before it logs in."""

    def __init__(self, day: Day, endpoint: str) -> None:
        raise OSError("no memory")


class BrokenReplay(Replayer):
    """Fails after it has logged in."""

    def run(self, report: Any) -> Any:
        """See Replayer."""
        raise OSError("no memory")


@pytest.mark.parametrize("replayer", [NoReplay, BrokenReplay])
def test_a_replay_that_fails_ends_the_score(replayer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of the exchange waited for it, without end."""
    monkeypatch.setattr(exchange, "Replayer", replayer)
    day, began = generate_day(3, end_ns=time_of_day_ns("09:40")), time.monotonic()
    with (
        pytest.raises(ScoreError, match="the replay of history failed: no memory"),
        exchange.served_market(day) as market,
    ):
        market.client.turn(market.books[0].midnight_ns + time_of_day_ns("09:35"))
    assert time.monotonic() - began < 30


@pytest.mark.long
def test_a_kill_leaves_no_exchange_behind() -> None:
    code = (
        "import os, time\nfrom serl.researcher.inner.exchange import lockstep_exchange\n"
        "with lockstep_exchange(('AAA',), '0.01'):\n    print(os.getpid(), flush=True)\n    time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as scoring:
        assert scoring.stdout is not None
        scoring.stdout.readline()
        (started,) = children(scoring.pid)
        assert not is_gone(started, within_s=1.0)
        scoring.send_signal(signal.SIGKILL)
    assert is_gone(started)
