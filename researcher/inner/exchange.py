"""An exchange in lockstep that replays history, for scoring."""

import contextlib
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from serl.agents.execution.served_books import ServedBooks
from serl.clients.blocking import connect
from serl.clients.errors import LoginRefused, SessionEnded
from serl.clients.processes import Child, ProcessFailed, child
from serl.clients.replay import Replayer
from serl.exchange.errors import ExchangeUnreachable
from serl.exchange.ports import NoFreePort, free_port
from serl.history.day import Day
from serl.researcher.inner.errors import ScoreError

NAME = "executor"
FROM_OUTSIDE = ExchangeUnreachable, LoginRefused, NoFreePort, ProcessFailed, SessionEnded
"""Errors of an exchange that say nothing about who trades on it."""


@contextlib.contextmanager
def _measuring() -> Iterator[None]:
    """Turns errors of the exchange into ScoreError."""
    try:
        yield
    except FROM_OUTSIDE as error:
        if isinstance(error, SessionEnded) and error.code == "silence":
            raise  # the policy took too long to decide
        raise ScoreError(f"the exchange of a score failed: {error}; continue with --resume") from error


@contextlib.contextmanager
def lockstep_exchange(symbols: tuple[str, ...], tick_size: str) -> Iterator[tuple[str, Child]]:
    """Start an exchange with these symbols; its clock waits for two participants. Yields its endpoint and its process.
    ScoreError if it fails."""
    with _measuring(), tempfile.TemporaryDirectory(prefix="serl-score-") as folder:
        endpoint = f"tcp://127.0.0.1:{free_port()}"
        command = (
            "exchange", "start", "--symbols", ",".join(f"{name}={tick_size}" for name in symbols), "--endpoint", endpoint,
            "--journal", f"{folder}/journal", "--clock", "lockstep", "--participants", "2",
        )  # fmt: skip
        with child(Path(folder), "exchange", *command, new_session=True) as exchange:
            exchange.wait_for_line("  journal")
            yield endpoint, exchange


@contextlib.contextmanager
def served_market(day: Day, agents: int = 1) -> Iterator[ServedBooks]:
    """Replay a day of `aligned_day` on its own exchange; yields its books. ScoreError if the replay fails."""
    symbols = tuple(symbol.name for symbol in day.reference.symbols)
    failed: list[Exception] = []
    try:
        with lockstep_exchange(symbols, day.reference.symbols[0].tick_size) as (endpoint, exchange):
            arguments = day, endpoint, failed, exchange.process.terminate
            history = threading.Thread(target=_replay, args=arguments, daemon=True)
            with connect(endpoint, NAME) as client:
                market = ServedBooks(client, symbols, agents)
                history.start()
                yield market
                client.turn(
                    market.books[0].midnight_ns + day.reference.last_time_ns + 1
                )  # let the rest of history replay
            history.join()
    except ScoreError:
        if not failed:
            raise
    if failed:
        raise ScoreError(f"the replay of history failed: {failed[0]}; continue with --resume") from failed[0]


def _replay(day: Day, endpoint: str, failed: list[Exception], end_exchange: Callable[[], None]) -> None:
    """Replay a day. If that fails, the exchange ends: its clock would wait for the replay for ever."""
    try:
        replayer = Replayer(day, endpoint)
        try:
            replayer.run(lambda progress: None)  # rejected cancels are expected: our orders have taken liquidity
        finally:
            replayer.close()
    except Exception as error:
        failed.append(error)
        end_exchange()
