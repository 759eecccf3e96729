"""A day that an exchange cannot replay is refused before anything is sent."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from serl.clients.replay import Replayer, ReplayError
from serl.exchange.records import COMMAND, CommandKind, Rows, command
from serl.history.day import Day, Reference, SymbolReference, write_day
from tests.server_fixture import Served, start_exchange


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


@pytest.mark.long
def test_a_halted_symbol_is_blamed_itself(tmp_path: Path) -> None:
    rows = np.concatenate([command(CommandKind.NEW, qty_lots=1, price_ticks=10, command_id=each) for each in (1, 2)])
    write_day(day_of(rows), tmp_path / "two.day")
    with start_exchange(symbols="AMZN") as exchange:
        serl(exchange, "exchange", "operate", "halt")
        done = serl(exchange, "replay", str(tmp_path / "two.day"))
    assert done.returncode == 2 and "2 rejected with HALTED: the symbol is halted; resume it" in done.stdout
    assert "expected the exchange to take every command, got 2 rejected with HALTED" in done.stderr


def serl(exchange: Served, *words: str) -> "subprocess.CompletedProcess[str]":
    line = [sys.executable, "-m", "serl", *words, "--connect", exchange.endpoint]
    return subprocess.run(line, capture_output=True, text=True, check=False, timeout=60)
