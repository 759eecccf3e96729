"""An exchange that says that it is ready has nothing left to compile."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from serl.clients.blocking import Exchange, connect
from serl.exchange.records import CommandKind
from serl.exchange.wire import Kind
from tests.served import Raw, start_exchange

PROMPT_S = 1.0

ANSWERS: dict[str, Callable[[Exchange], object]] = {
    "book": lambda client: client.book("AMZN"),
    "orders": lambda client: client.ask(Kind.L3, 0),
    "trades": lambda client: client.trades("AMZN"),
    "statistics": lambda client: client.ask(Kind.STATISTICS),
    "hash": lambda client: client.ask(Kind.HASH),
    "order": lambda client: client.buy("AMZN", 1, 100),
    "fill": lambda client: client.sell("AMZN", 1, 100),
    "feed": lambda client: client.follow("AMZN", "l3"),
    "mass cancel": lambda client: client.mass_cancel(),
}


@pytest.mark.timeout(600)
def test_first_answers_do_not_wait_for_the_compiler(tmp_path: Path) -> None:
    """With an empty cache of compiled code: the start itself takes about a minute."""
    with (
        start_exchange(environment={"NUMBA_CACHE_DIR": str(tmp_path)}) as served,
        connect(served.endpoint, "first") as client,
        Raw(served.endpoint, "admin") as admin,
    ):
        for name, ask in ANSWERS.items():
            assert seconds(ask, client) < PROMPT_S, name
        assert seconds(operate, admin, Kind.OPERATE, 1, "", int(CommandKind.HALT), 0) < PROMPT_S
        assert seconds(operate, admin, Kind.SNAPSHOT, 2, "") < PROMPT_S


def operate(admin: Raw, *message: object) -> None:
    admin.say(*message)
    assert admin.hear()[0] != Kind.ERROR


def seconds(call: Callable[..., object], *arguments: object) -> float:
    began = time.perf_counter()
    call(*arguments)
    return time.perf_counter() - began
