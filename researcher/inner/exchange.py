"""An exchange in lockstep for the time of a score, with history in it."""

import contextlib
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator

from serl.agents.execution.demo import free_port, read_until
from serl.agents.execution.served_books import ServedBooks
from serl.clients.blocking import connect
from serl.clients.replay import Replayer
from serl.exchange.history.day import Day
from serl.researcher.inner.errors import ScoreError

NAME = "executor"
STOP_S = 10.0


@contextlib.contextmanager
def served(symbols: tuple[str, ...], tick_size: str) -> Iterator[str]:
    """Endpoint of an exchange of these symbols, which stands still until two participants are there and ends with this process."""
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    with tempfile.TemporaryDirectory(prefix="serl-score-") as journal:
        command = [
            sys.executable, "-m", "serl.researcher.inner.child", str(os.getpid()),
            "exchange", "start", "--symbols", ",".join(f"{name}={tick_size}" for name in symbols), "--endpoint", endpoint,
            "--journal", journal, "--clock", "lockstep", "--participants", "2",
        ]  # fmt: skip
        # a group of its own: Ctrl-C is for us, and we stop it
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True, env=os.environ | {"NUMBA_NUM_THREADS": "1"},
        )  # fmt: skip
        try:
            read_until(process, "  journal")
            yield endpoint
        finally:
            process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            assert process.stdout is not None
            process.stdout.close()


@contextlib.contextmanager
def market_of(day: Day, agents: int = 1) -> Iterator[ServedBooks]:
    """The books of a day of `side_by_side`, which is replayed on an exchange of its own. ScoreError if that fails."""
    symbols = tuple(symbol.name for symbol in day.reference.symbols)
    failed: list[Exception] = []
    with served(symbols, day.reference.symbols[0].tick_size) as endpoint:
        history = threading.Thread(target=_replay, args=(day, endpoint, failed), daemon=True)
        with connect(endpoint, NAME) as client:
            market = ServedBooks(client, symbols, agents)
            history.start()
            yield market
            client.turn(market.books[0].midnight_ns + day.reference.last_time_ns + 1)  # the rest of history
        history.join()
    if failed:
        raise ScoreError(f"the replay of history failed: {failed[0]}") from failed[0]


def _replay(day: Day, endpoint: str, failed: list[Exception]) -> None:
    try:
        replayer = Replayer(day, endpoint)
        try:
            replayer.run(lambda progress: None)  # cancellations of what our orders took are refused, as they should
        finally:
            replayer.close()
    except Exception as error:
        failed.append(error)
