"""What `side` means: of events and day files that of the resting order or party, of lists of trades the aggressor's."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgpack
import numpy as np
import pytest

import serl
from serl import tables
from serl.agents.backtest.run import backtest
from serl.exchange.gateway.feed_items import write_trades
from serl.exchange.market import Market
from serl.exchange.queries import Queries
from serl.exchange.records import CommandFlag, CommandKind, EventFlag, EventKind, Side, TimeInForce, command
from serl.history.day import Day, Reference, SymbolReference
from tests.exchange.offline_exchange import ANN, BOB, EXCHANGE, MONDAY_NS, exchange

AGGRESSORS = [Side.BUY, Side.SELL, Side.BUY, Side.SELL]
"""Of a sell order that is taken, a buy order, a PRINT of a resting seller, of a resting buyer."""
NEW, PRINT = CommandKind.NEW, CommandKind.PRINT
RESTING: list[tuple[CommandKind, dict[str, int]]] = [
    (NEW, {"side": Side.SELL, "price_ticks": 101}), (NEW, {"side": Side.BUY, "price_ticks": 101, "time_in_force": TimeInForce.IOC}),
    (NEW, {"side": Side.BUY, "price_ticks": 99}), (NEW, {"side": Side.SELL, "flags": CommandFlag.MARKET, "time_in_force": TimeInForce.IOC}),
    (PRINT, {"side": Side.SELL, "price_ticks": 100}), (PRINT, {"side": Side.BUY, "price_ticks": 100}),
]  # fmt: skip


class Watcher(serl.Strategy):
    """Keeps the aggressors of the last trades."""

    interval_s = 0.1

    def on_wake(self, market: Any) -> None:
        self.sides = [trade.aggressor_side for trade in market.trades("A", 10)]


@pytest.fixture(scope="module")
def day() -> Day:
    rows = np.concatenate([
        command(kind, qty_lots=5, command_id=number + 1, time_ns=1000 + number, **fields)
        for number, (kind, fields) in enumerate(RESTING)
    ])  # fmt: skip
    return Day(rows, np.arange(len(rows)), Reference((SymbolReference("A", "0.01"),), "", "test"))


def test_lists_of_trades_have_the_aggressors_side(day: Day) -> None:
    market = Market(["A"])
    market.grant_operator(0)
    events = market.submit(day.commands)
    traded = events[(events["kind"] == EventKind.PRINT) | (events["flags"] & EventFlag.MAKER > 0)]
    assert [1 - int(side) for side in traded["side"]] == AGGRESSORS, "an event has the resting side"
    assert market.trades()["side"].tolist() == AGGRESSORS
    body = np.zeros(1000, np.uint8)
    size, items = write_trades(events, np.arange(len(events)), body, 0)
    unpacker = msgpack.Unpacker()
    unpacker.feed(body[:size].tobytes())
    assert [item[4] for item in unpacker] == AGGRESSORS and items == 4
    assert tables.trades(day)["side"].tolist() == [side.name.lower() for side in AGGRESSORS]
    assert tables.orders(day)["side"].tolist()[-2:] == ["sell", "buy"], "a PRINT of a day file has the resting party's"


def test_the_query_has_them(tmp_path: Path) -> None:
    with exchange(tmp_path, MONDAY_NS, {}) as offline:
        for number, (kind, fields) in enumerate(RESTING):
            owner = EXCHANGE if kind == PRINT else (ANN, BOB)[number % 2]
            offline.send(kind, MONDAY_NS + number, owner, qty_lots=5, **fields)
        queries = object.__new__(Queries)
        queries._core, queries._sessions = offline.core, SimpleNamespace(limits={"trades_kept": 10})  # pyrefly: ignore[bad-assignment]
        assert [trade[4] for trade in queries._last_trades(0, 10)] == AGGRESSORS


def test_a_strategy_sees_them(day: Day) -> None:
    watcher = Watcher()
    backtest(watcher, day=day, window_ns=(0, 10**9))
    assert watcher.sides == AGGRESSORS
