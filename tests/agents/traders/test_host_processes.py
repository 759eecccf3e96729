"""Host processes."""

import multiprocessing
import os
import signal
import threading
import time
from typing import Any

import pytest

from serl.agents.traders.host_processes import shared_progress, starting_processes, status_text
from serl.agents.traders.population import load_population

TIMES = 40
READ_S = 10


def report(progress: Any) -> None:
    while True:
        progress[0:3] = [1, 2, 3]


@pytest.mark.long
def test_a_host_terminated_while_it_reports_does_not_stop_the_others_report() -> None:
    """With a lock around the numbers, a host that held it when it was terminated left the command waiting for ever."""
    context, config = multiprocessing.get_context("fork"), load_population("small")
    progress = shared_progress(context, 1)
    for _ in range(TIMES):
        host = context.Process(target=report, args=(progress,), daemon=True)
        host.start()
        while progress[0] == 0:
            pass
        host.terminate()
        host.join()
        reader = threading.Thread(target=status_text, args=(config, progress, 1.0), daemon=True)
        reader.start()
        reader.join(READ_S)
        assert not reader.is_alive(), "the numbers are locked by a process that has ended"
        progress[0:3] = [0, 0, 0]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_waits_until_the_processes_have_started(number: int) -> None:
    """A process that is started in two steps ended with a traceback when a signal came between them: the mask of the main thread does not hold
    for the other threads, which libraries start."""
    before = signal.signal(number, signal.default_int_handler)
    ended, started = threading.Event(), False
    other = threading.Thread(target=ended.wait)
    other.start()
    try:
        with pytest.raises(KeyboardInterrupt), starting_processes():
            os.kill(os.getpid(), number)
            time.sleep(0.1)
            started = True
    finally:
        ended.set()
        other.join()
        signal.signal(number, before)
    assert started
