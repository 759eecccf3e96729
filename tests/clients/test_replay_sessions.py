"""A replay whose session is lost: rows may be missing, so it does not go on. A second replay in the same exchange."""

import threading
import time

import numpy as np
import pytest
from numpy.typing import NDArray

from serl.clients.replay import Replayer, ReplayError
from serl.exchange.records import COMMAND, EVENT, CommandKind, EventKind, Rule, command
from serl.exchange.wire import Kind
from serl.history.day import Day, Reference, SymbolReference
from tests.clients.stand_in import StandIn
from tests.server_fixture import start_exchange


class Restarting(StandIn):
    """It executes rows, except those of one message, which finds it restarted."""

    def __init__(self, lost: int) -> None:
        super().__init__()
        self._lost, self._messages, self._last_id = lost, 0, 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while not self._stopping.is_set():
            message = self.arrived(timeout_ms=20)
            if message and message[0] == Kind.HELLO:
                self.welcome(self._last_id + 1, self._last_id)
            elif message and message[0] == Kind.BULK:
                self._messages += 1
                self._answer(np.frombuffer(message[1], COMMAND)["command_id"])

    def _answer(self, ids: NDArray[np.int64]) -> None:
        if self._messages == self._lost:
            self.send(Kind.ERROR, "not_logged_in", "restarted")
            return
        events = np.zeros(len(ids), EVENT)
        events["kind"], events["command_id"] = EventKind.ACCEPTED, ids
        self.send(Kind.REPORT_ROWS, self._last_id + 1, events.tobytes())
        self._last_id += len(ids)

    def stop(self) -> None:
        """Ends it."""
        self._stopping.set()
        self._thread.join()
        self.context.destroy(0)


@pytest.mark.parametrize("lost", [2, 4])
def test_a_second_login_ends_a_replay(lost: int) -> None:
    rows = np.concatenate(
        [command(CommandKind.NEW, qty_lots=1, price_ticks=10, command_id=each, time_ns=each) for each in range(1, 9)]
    )
    day = Day(rows, np.arange(len(rows)), Reference((SymbolReference("DEMO", "1"),), "", "generated"))
    exchange = Restarting(lost)
    try:
        replayer = Replayer(day, exchange.endpoint, token="t")
        with pytest.raises(ReplayError, match="expected one session for the whole replay, got a second login"):
            replayer.run(lambda progress: time.sleep(0.1))
        replayer.client.core.context.destroy(0)
    finally:
        exchange.stop()


def test_a_second_replay_has_the_same_tick_table() -> None:
    """Its orders get other ids; the price from which a tick counts, in the same column, was shifted with them."""
    rows = np.concatenate([
        command(CommandKind.RULE, flags=Rule.TICK, order_id=100, price_ticks=5, command_id=1),
        command(CommandKind.NEW, qty_lots=1, price_ticks=105, time_in_force=1, command_id=2),
        command(CommandKind.CANCEL, order_id=2, command_id=3),
    ])  # fmt: skip
    day = Day(rows, np.arange(len(rows)), Reference((SymbolReference("DEMO", "1"),), "", "simulated"))
    with start_exchange(symbols="DEMO=1") as exchange:
        for _ in range(2):
            replayer = Replayer(day, exchange.endpoint)
            assert not replayer.run(lambda _: None).rejected
            replayer.close()
    assert replayer.rows["order_id"].tolist() == [100, 0, 5]
