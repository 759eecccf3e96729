"""A client that never calls `wait`: a full inbox must not slow down its next calls."""

import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

from serl.clients.blocking import Exchange, connect
from tests.server_fixture import start_exchange

UNREAD = 2_000_000
SLOWDOWN_MAX = 8.0
"""A busy machine slows some calls down; searching the whole inbox slowed them down a hundredfold."""


def slowdown(client: Exchange, call: Callable[[], object], times: int) -> float:
    """How many times as long a call takes with UNREAD reports in the inbox."""

    def fastest_s() -> float:
        durations_s = []
        for _ in range(times):
            started_s = time.perf_counter()
            call()
            durations_s.append(time.perf_counter() - started_s)
        return min(durations_s)

    call()
    before_s = fastest_s()
    client.core.inbox.extend([client.core.inbox[0]] * UNREAD)
    return fastest_s() / before_s


def test_a_full_inbox_does_not_slow_down_orders() -> None:
    with start_exchange(symbols="DEMO") as exchange, connect(exchange.endpoint, "alice") as alice:
        assert slowdown(alice, lambda: alice.buy("DEMO", 1, 100), 50) < SLOWDOWN_MAX
        assert len(alice.core.inbox) > UNREAD


def test_a_full_inbox_does_not_slow_down_turns(tmp_path: Path) -> None:
    config: dict[str, object] = {"clock": {"kind": "lockstep", "participants": 1}}
    with (
        start_exchange(symbols="DEMO", config=config, folder=tmp_path, clock="lockstep") as exchange,
        connect(exchange.endpoint, "alice") as alice,
    ):
        steps = count(1)

        def step() -> None:
            alice.buy("DEMO", 1, 100)
            assert alice.turn(next(steps) * 1_000_000).time_ns == alice.session.time_ns

        assert slowdown(alice, step, 20) < SLOWDOWN_MAX
        kinds = {type(item).__name__ for item in alice.core.inbox}
        assert kinds == {"Report"}, "turn removes its grant from the inbox"
