"""A day exported as LOBSTER, then read and verified by our reader."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from serl.exchange.records import COMMAND, CommandKind, command
from serl.history.day import Day, Reference, SymbolReference
from serl.history.errors import ExportError
from serl.history.generate import generate_day
from serl.history.lobster import is_lobster, read_lobster
from serl.history.lobster_day import book_view, lobster_day
from serl.history.lobster_export import write_lobster
from serl.history.verify import verify
from tests.history.test_itch_export import MINUTE_NS, OPEN_NS, random_commands


def verified(day: Day, path: Path, levels: int) -> None:
    """Imports the file and compares its book after every row."""
    rows = write_lobster(day, path, levels)
    assert is_lobster(path)
    source = read_lobster(path)
    again = lobster_day(source)
    result = verify(again, *book_view(source))
    assert (result.rows, result.differing, result.unexplained) == (rows, 0, 0), result.first_difference


@pytest.mark.parametrize("levels", [1, 3, 10])
def test_a_generated_day(levels: int, tmp_path: Path) -> None:
    day = generate_day(6, start_ns=OPEN_NS, end_ns=OPEN_NS + 5 * MINUTE_NS)
    verified(day, tmp_path / "a.zip", levels)
    assert read_lobster(tmp_path / "a.zip").levels == levels


@pytest.mark.parametrize("seed", range(3))
def test_every_command(seed: int, tmp_path: Path) -> None:
    commands = random_commands(1500, seed)
    commands["symbol"] = 0
    reference = Reference((SymbolReference("A"),), "2020-01-02", "generated", last_time_ns=1_500_000)
    day = Day(commands, np.arange(len(commands)), reference)
    verified(day, tmp_path / "a.zip", 20)
    kinds = set(read_lobster(tmp_path / "a.zip").messages[:, 0].tolist())
    assert kinds == {1, 2, 3, 4, 5}


def test_the_rows_have_the_documented_form(tmp_path: Path) -> None:
    rows = [
        command(CommandKind.NEW, qty_lots=5, price_ticks=100, time_in_force=1, command_id=1, time_ns=1_500_000_000),
        command(
            CommandKind.NEW, side=1, qty_lots=3, price_ticks=102, time_in_force=1, command_id=2, time_ns=2_000_000_000
        ),
        command(CommandKind.NEW, qty_lots=9, price_ticks=90, time_in_force=1, command_id=3, time_ns=2_000_000_000),
        command(CommandKind.HALT, command_id=4, time_ns=3_000_000_000),
        command(CommandKind.RESUME, command_id=5, time_ns=4_000_000_000),
    ]
    day = Day(np.concatenate(rows), np.arange(5), Reference((SymbolReference("A"),), "2020-01-02", "generated"))
    assert write_lobster(day, tmp_path / "a.zip", 1) == 4, "the order behind the only level is not in the file"
    source = read_lobster(tmp_path / "a.zip")
    assert source.messages.tolist() == [
        [1, 1, 5, 10_000, 1],
        [1, 2, 3, 10_200, -1],
        [7, 0, 0, -1, -1],
        [7, 0, 0, 1, -1],
    ]
    assert source.book.tolist()[:2] == [[9_999_999_999, 0, 10_000, 5], [10_200, 3, 10_000, 5]]
    assert (source.symbol, source.date, source.time_ns[0]) == ("A", "2020-01-02", 1_500_000_000)


def test_what_lobster_cannot_represent(tmp_path: Path) -> None:
    day = Day(np.zeros(0, COMMAND), np.zeros(0, np.int64), Reference((SymbolReference("A"),), "", "generated"))
    for symbols, message in (
        ((SymbolReference("A"), SymbolReference("B")), "expected a day with one symbol, got 2"),
        ((SymbolReference("A", "0.0001"),), "LOBSTER expects tick size 0.01 and lot size 1, got 0.0001"),
        ((SymbolReference("A"),), "expected at least one event, got none"),
    ):
        with pytest.raises(ExportError, match=message):
            write_lobster(replace(day, reference=replace(day.reference, symbols=symbols)), tmp_path / "a.zip")
    assert not list(tmp_path.iterdir())


def one_order(name: str, **fields: int) -> Day:
    row = command(CommandKind.NEW, price_ticks=100, time_in_force=1, command_id=1, **{"qty_lots": 5} | fields)
    return Day(row, np.zeros(1, np.int64), Reference((SymbolReference(name),), "2020-01-02", "generated"))


@pytest.mark.parametrize("name", ["A_B", "BAC+A", "TEST$", "{A}"])
def test_names_are_read_as_they_were_written(name: str, tmp_path: Path) -> None:
    """Names with such letters made files that were in no known format."""
    write_lobster(one_order(name), tmp_path / "a.zip")
    assert read_lobster(tmp_path / "a.zip").symbol == name


@pytest.mark.parametrize(
    ("day", "message"),
    [
        (one_order("BRK/A"), "names of symbols .*, got 'BRK/A'"),  # it was read as A, in a folder
        (one_order("A\\B"), "names of symbols"),
        (one_order("\ud800"), "names of symbols"),
        (one_order("A", qty_lots=1_000_000_001), "sizes of up to 1,000,000,000 and times of up to 86,400 s, got 1,000,000,001 lots"),
        (one_order("A", time_ns=86_400 * 10**9), "got 5 lots at 86,400.000 s"),
    ],
)  # fmt: skip
def test_what_the_reader_would_refuse_or_misread(day: Day, message: str, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=message):
        write_lobster(day, tmp_path / "a.zip")
    assert not list(tmp_path.iterdir())
