"""An exchange that says that it is ready has nothing left to compile."""

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from serl.clients.blocking import Exchange, connect
from serl.exchange.records import COMMAND, CommandKind
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


def compiled(cache: Path) -> set[Path]:
    return {path for path in cache.rglob("*.nb?") if path.is_file()}


@pytest.mark.timeout(600)
def test_first_answers_do_not_wait_for_the_compiler(tmp_path: Path) -> None:
    """With an empty cache of compiled code: the start itself takes about a minute."""
    with start_exchange(environment={"NUMBA_CACHE_DIR": str(tmp_path)}) as served:
        before = compiled(tmp_path)
        with (
            connect(served.endpoint, "first", cancel_on_disconnect=True) as client,
            Raw(served.endpoint) as raw,
            Raw(served.endpoint, "admin") as admin,
        ):
            for name, ask in ANSWERS.items():
                assert seconds(ask, client) < PROMPT_S, name
            assert seconds(duplicates, raw) < PROMPT_S
            assert seconds(operate, admin, Kind.OPERATE, 1, "", int(CommandKind.HALT), 0) < PROMPT_S
            assert seconds(operate, admin, Kind.SNAPSHOT, 2, "") < PROMPT_S
        assert before
        assert compiled(tmp_path) == before


def duplicates(raw: Raw) -> None:
    """An order again, then as the first row of a bulk message; more orders than the first pool holds; and malformed ones."""
    raw.login("again")
    for _ in range(2):
        raw.say(1, 1, 1, 0, 1, 5, 1, 0, 0)
    raw.hear(Kind.DUPLICATE)
    rows = np.zeros(6 * 1000, COMMAND)
    rows["command_id"], rows["kind"], rows["symbol"] = np.arange(1, 6001), CommandKind.NEW, 1
    rows["qty_lots"], rows["price_ticks"], rows["time_in_force"] = 1, 1 + np.arange(6000) * 50, 1
    for first in range(0, 6000, 1000):
        raw.say(Kind.BULK, rows[first : first + 1000].tobytes())
    while raw.hear(Kind.REPORTS)[2][-1][2] != 6000:
        pass
    raw.say(1, 6001)
    assert raw.hear(Kind.ERROR)[1] == "malformed"


def operate(admin: Raw, *message: object) -> None:
    admin.say(*message)
    assert admin.hear()[0] != Kind.ERROR


def seconds(call: Callable[..., object], *arguments: object) -> float:
    began = time.perf_counter()
    call(*arguments)
    return time.perf_counter() - began
