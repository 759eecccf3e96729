"""A client that never calls `wait`: what lies unread must not make its next words slower."""

import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

from serl.clients.blocking import Exchange, connect
from tests.server_fixture import start_exchange

UNREAD = 2_000_000
SLOWER_MAX = 8.0
"""A busy machine makes some words slower; looking through all that is unread made them slower a hundredfold."""


def slower(client: Exchange, word: Callable[[], object], times: int) -> float:
    """How many times as long a word takes when there are UNREAD reports in the inbox."""

    def fastest_s() -> float:
        took = []
        for _ in range(times):
            began = time.perf_counter()
            word()
            took.append(time.perf_counter() - began)
        return min(took)

    word()
    before_s = fastest_s()
    client.words.inbox.extend([client.words.inbox[0]] * UNREAD)
    return fastest_s() / before_s


def test_orders_take_as_long_however_much_is_unread() -> None:
    with start_exchange(symbols="DEMO") as exchange, connect(exchange.endpoint, "alice") as alice:
        assert slower(alice, lambda: alice.buy("DEMO", 1, 100), 50) < SLOWER_MAX
        assert len(alice.words.inbox) > UNREAD


def test_turns_take_as_long_however_much_is_unread(tmp_path: Path) -> None:
    config: dict[str, object] = {"clock": {"kind": "lockstep", "participants": 1}}
    with (
        start_exchange(symbols="DEMO", config=config, folder=tmp_path, clock="lockstep") as exchange,
        connect(exchange.endpoint, "alice") as alice,
    ):
        steps = count(1)

        def step() -> None:
            alice.buy("DEMO", 1, 100)
            assert alice.turn(next(steps) * 1_000_000).time_ns == alice.session.time_ns

        assert slower(alice, step, 20) < SLOWER_MAX
        kinds = {type(item).__name__ for item in alice.words.inbox}
        assert kinds == {"Report"}, "a grant is for its turn only"
