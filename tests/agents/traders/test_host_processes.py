"""Host processes."""

import multiprocessing
import threading
from typing import Any

from serl.agents.traders.host_processes import shared_progress, status_text
from serl.agents.traders.population import load_population

TIMES = 40
READ_S = 10


def report(progress: Any) -> None:
    while True:
        progress[0:3] = [1, 2, 3]


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
