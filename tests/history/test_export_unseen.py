"""Exports contain only what is public: of hidden orders their trades, of icebergs the displayed part."""

from pathlib import Path

import numpy as np
import pytest

from serl.exchange.records import CommandKind, Phase, Rows, Side, command
from serl.exchange.terms import Terms, order
from serl.history.day import Day, Reference, SymbolReference
from serl.history.errors import ExportError
from serl.history.importing import import_day
from serl.history.itch.writer import write_itch
from serl.history.tape import Tape
from serl.history.verify import market_of
from tests.history.test_lobster_export import verified

ROWS = [
    order(1, side=Side.BUY, qty_lots=7, price_ticks=90, time_in_force=1),
    order(2, Terms(display_lots=4), qty_lots=10, price_ticks=102, side=Side.SELL, time_in_force=1),
    order(4, Terms(hidden=True), qty_lots=5, price_ticks=100, side=Side.SELL, time_in_force=1),
    order(5, qty_lots=9, price_ticks=103, side=Side.SELL, time_in_force=1),
    order(6, side=Side.BUY, qty_lots=8, price_ticks=100, time_in_force=1),  # 5 hidden lots, the rest stays
    order(7, side=Side.BUY, qty_lots=6, price_ticks=102, time_in_force=2),  # a part and a half of the iceberg
    command(CommandKind.CANCEL, command_id=8, order_id=3),
]


def day(*more: Rows) -> Day:
    commands = np.concatenate([*ROWS, *more])
    commands["time_ns"] = 1_000_000_000 + np.arange(len(commands))
    last_ns = int(commands["time_ns"][-1])
    reference = Reference((SymbolReference("A"),), "2020-01-02", "generated", (), 1_000_000_000, last_ns)
    return Day(commands, np.arange(len(commands)), reference)


def tape(one: Day) -> str:
    market, commands = market_of(one)
    hashed = Tape()
    hashed.update(market.submit(commands))
    return hashed.hexdigest()


def test_itch_has_the_same_tape(tmp_path: Path) -> None:
    write_itch(day(), tmp_path / "a.itch")
    assert tape(import_day(tmp_path / "a.itch")) == tape(day())


def test_lobster_is_verified(tmp_path: Path) -> None:
    verified(day(), tmp_path / "a.zip", 10)


def test_a_day_with_an_auction_is_refused(tmp_path: Path) -> None:
    phase = command(CommandKind.PHASE, flags=Phase.PRE_OPEN, command_id=9)
    with pytest.raises(ExportError, match="phases"):
        write_itch(day(phase), tmp_path / "a.itch")
