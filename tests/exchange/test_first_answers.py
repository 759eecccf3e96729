"""An exchange that reports ready has nothing left to compile."""

import time
from collections.abc import Callable

import numpy as np

from serl.clients.blocking import Exchange, connect
from serl.exchange.records import COMMAND, CommandKind
from serl.exchange.wire import Kind
from tests.server_fixture import RawClient, start_exchange

PROMPT_S = 1.0
CACHE_LINE = "[cache] data "
"""The start of numba's debug line when it loads or saves a compiled function."""

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


def test_first_answers_do_not_wait_for_the_compiler() -> None:
    """numba logs every function that it loads from or saves to its cache: all of them before the exchange is ready."""
    with start_exchange(environment={"NUMBA_DEBUG_CACHE": "1"}) as served:
        with (
            connect(served.endpoint, "first", cancel_on_disconnect=True) as client,
            RawClient(served.endpoint) as raw,
            RawClient(served.endpoint, "admin") as admin,
        ):
            for name, ask in ANSWERS.items():
                assert seconds(ask, client) < PROMPT_S, name
            assert seconds(duplicates, raw) < PROMPT_S
            assert seconds(operate, admin, Kind.OPERATE, 1, served.operator, int(CommandKind.HALT), 0) < PROMPT_S
            assert seconds(operate, admin, Kind.SNAPSHOT, 2, served.operator) < PROMPT_S
        assert CACHE_LINE in "\n".join(served.banner)
        assert CACHE_LINE not in served.stop()


def duplicates(raw: RawClient) -> None:
    """A duplicate order, alone and as the first row of a bulk message; more orders than the initial pool holds; a malformed one."""
    raw.login("again")
    for _ in range(2):
        raw.send(1, 1, 1, 0, 1, 5, 1, 0, 0)
    raw.receive(Kind.DUPLICATE)
    rows = np.zeros(6 * 1000, COMMAND)
    rows["command_id"], rows["kind"], rows["symbol"] = np.arange(1, 6001), CommandKind.NEW, 1
    rows["qty_lots"], rows["price_ticks"], rows["time_in_force"] = 1, 1 + np.arange(6000) * 50, 1
    for first in range(0, 6000, 1000):
        raw.send(Kind.BULK, rows[first : first + 1000].tobytes())
    while raw.receive(Kind.REPORTS)[2][-1][2] != 6000:
        pass
    raw.send(1, 6001)
    assert raw.receive(Kind.ERROR)[1] == "malformed"


def operate(admin: RawClient, *message: object) -> None:
    admin.send(*message)
    assert admin.receive()[0] != Kind.ERROR


def seconds(call: Callable[..., object], *arguments: object) -> float:
    began = time.perf_counter()
    call(*arguments)
    return time.perf_counter() - began
