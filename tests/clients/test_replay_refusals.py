"""A day that an exchange cannot replay is refused before anything is sent."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from serl.clients.replay import END_NS, Replayer, ReplayError
from serl.exchange.records import COMMAND, CommandKind, Rows, command
from serl.history.day import Day, Reference, SymbolReference, write_day
from tests.server_fixture import Served, start_exchange

HOUR_NS = 3600 * 10**9


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


@pytest.mark.parametrize(
    ("from_ns", "to_ns", "message"),
    [
        (15 * HOUR_NS, END_NS, "--from: expected a time of the day, which ends at 10:00:00, got 15:00:00; "),
        (0, 9 * HOUR_NS - 1, "--to: expected a time of the day, which begins at 09:00:00, got 08:59:59; "),
        (10 * HOUR_NS, 9 * HOUR_NS, "--to: expected a time after --from 10:00:00, got 09:00:00"),
    ],
)
def test_a_window_outside_the_day_is_refused(from_ns: int, to_ns: int, message: str) -> None:
    rows = np.concatenate([command(CommandKind.NEW, qty_lots=1, price_ticks=10, command_id=each) for each in (1, 2)])
    rows["time_ns"] = 9 * HOUR_NS, 10 * HOUR_NS
    with pytest.raises(ReplayError, match=message):
        Replayer(day_of(rows), "tcp://127.0.0.1:1", from_ns=from_ns, to_ns=to_ns)


def test_a_symbol_that_the_exchange_lacks_is_named_with_the_option(endpoint: str) -> None:
    rows = command(CommandKind.NEW, qty_lots=1, price_ticks=1, command_id=1)
    day = Day(rows, np.arange(1), Reference((SymbolReference("DEMO", "0.5"),), "", "generated"))
    with pytest.raises(
        ReplayError, match=r"expected an exchange with DEMO, got one with AMZN; start .* --symbols DEMO=0\.5"
    ):
        Replayer(day, endpoint)


def test_tick_sizes_are_compared_as_numbers(endpoint: str) -> None:
    rows = command(CommandKind.NEW, qty_lots=1, price_ticks=1, command_id=1)
    same, other = (Reference((SymbolReference("AMZN", tick_size),), "", "generated") for tick_size in ("0.010", "0.02"))
    Replayer(Day(rows, np.arange(1), same), endpoint).close()
    with pytest.raises(
        ReplayError, match=r"AMZN: expected the day's tick size 0\.02, the exchange has 0\.01; start it with"
    ):
        Replayer(Day(rows, np.arange(1), other), endpoint)


def test_other_lot_sizes_are_refused(endpoint: str) -> None:
    """Money is ticks x lots: with lots of 1 in place of 0.00001 it would be a hundred thousand times as much."""
    rows = command(CommandKind.NEW, qty_lots=1, price_ticks=1, command_id=1)
    for name, error in (("AMZN", "AMZN: expected the day's lot size 0.00001, the exchange has 1"), ("B", "with B")):
        reference = Reference((SymbolReference(name, "0.01", "0.00001"),), "", "depth")
        setting = rf'symbols: \[{{name: {name}, tick_size: "0.01", lot_size: "0.00001"}}\]'
        with pytest.raises(ReplayError, match=rf"{error}.*; start .* with --config and {setting}"):
            Replayer(Day(rows, np.arange(1), reference), endpoint)


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
