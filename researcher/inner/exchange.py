"""An exchange in lockstep for the time of a score, with history in it."""

import contextlib
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from serl.agents.execution.served_books import ServedBooks
from serl.clients.blocking import connect
from serl.clients.processes import child
from serl.clients.replay import Replayer
from serl.exchange.ports import free_port
from serl.history.day import Day
from serl.researcher.inner.errors import ScoreError

NAME = "executor"


@contextlib.contextmanager
def served(symbols: tuple[str, ...], tick_size: str) -> Iterator[str]:
    """Endpoint of an exchange of these symbols, which stands still until two participants are there."""
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    with tempfile.TemporaryDirectory(prefix="serl-score-") as folder:
        command = (
            "exchange", "start", "--symbols", ",".join(f"{name}={tick_size}" for name in symbols), "--endpoint", endpoint,
            "--journal", f"{folder}/journal", "--clock", "lockstep", "--participants", "2",
        )  # fmt: skip
        with child(Path(folder), "exchange", *command, apart=True) as exchange:
            exchange.wait_for("  journal")
            yield endpoint


@contextlib.contextmanager
def market_of(day: Day, agents: int = 1) -> Iterator[ServedBooks]:
    """The books of a day of `aligned_day`, which is replayed on an exchange of its own. ScoreError if that fails."""
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
