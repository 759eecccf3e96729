"""A day that an exchange cannot replay is refused before anything is sent."""

from collections.abc import Iterator

import numpy as np
import pytest

from serl.clients.replay import Replayer, ReplayError
from serl.exchange.records import COMMAND, CommandKind, Rows, command
from serl.history.day import Day, Reference, SymbolReference
from tests.server_fixture import start_exchange


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with start_exchange(symbols="AMZN") as exchange:
        yield exchange.endpoint


def day_of(rows: Rows) -> Day:
    return Day(rows, np.arange(len(rows)), Reference((SymbolReference("AMZN"),), "", "generated"))


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        (np.zeros(0, COMMAND), "expected a day with commands, got an empty one"),
        (command(CommandKind.NEW, qty_lots=1_000_001, price_ticks=1, command_id=1), "qty_lots up to 1000001, the exchange accepts 1000000"),
        (command(CommandKind.NEW, qty_lots=1, price_ticks=10**9 + 1, command_id=1), "price_ticks up to 1000000001"),
    ],
)  # fmt: skip
def test_refused(rows: Rows, error: str, endpoint: str) -> None:
    with pytest.raises(ReplayError, match=error):
        Replayer(day_of(rows), endpoint)
