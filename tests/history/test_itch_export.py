"""A day exported as ITCH and imported again."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from serl.exchange.market import Market
from serl.exchange.records import COMMAND, CommandKind, Rows, TimeInForce, command
from serl.history.day import Day, Reference, SymbolReference
from serl.history.errors import ExportError
from serl.history.generate import generate_day
from serl.history.itch.writer import write_itch
from serl.history.verify import market_of
from tests.history.itch_sample import Levels, import_itch, read_messages, reference_books

MINUTE_NS = 60 * 10**9
OPEN_NS = 570 * MINUTE_NS


@pytest.fixture(scope="module")
def day() -> Day:
    return generate_day(5, start_ns=OPEN_NS, end_ns=OPEN_NS + 5 * MINUTE_NS)


def levels(market: Market, symbol: int = 0) -> tuple[Levels, Levels]:
    bids, asks = market.book(symbol)
    return tuple({int(row["price_ticks"]): int(row["qty_lots"]) for row in side} for side in (bids, asks))  # pyrefly: ignore[bad-return]


def random_commands(count: int, seed: int) -> Rows:
    """Random commands of every kind that changes a book, in two symbols, by one participant."""
    random = np.random.default_rng(seed)
    rows = []
    for number in range(1, count + 1):
        kind = random.choice(
            [CommandKind.NEW] * 5 + [CommandKind.CANCEL, CommandKind.REDUCE, CommandKind.REPLACE, CommandKind.REPLACE]
        )
        if number % 97 == 0:
            kind = CommandKind.PRINT
        in_force = random.choice([TimeInForce.GTC, TimeInForce.DAY, TimeInForce.IOC, TimeInForce.FOK])
        rows.append(command(
            int(kind), symbol=int(random.integers(2)), side=int(random.integers(2)), qty_lots=int(random.integers(1, 9)),
            price_ticks=int(random.integers(95, 106)), time_in_force=int(in_force) if kind == CommandKind.NEW else 0,
            command_id=number, order_id=int(random.integers(max(1, number - 40), number + 1)), participant=1, time_ns=number * 1000,
        ))  # fmt: skip
    return np.concatenate(rows)


def same_after_every_message(day: Day, path: Path) -> None:
    """Replays the imported day: after each message the market has the book of the reference reader."""
    again = import_itch(path)
    names = [symbol.name for symbol in again.reference.symbols]
    market, commands = market_of(again)
    at = 0
    messages = list(read_messages(path.read_bytes()))
    locates = {m["stock"]: m["locate"] for m in messages if m["type"] == "R"}
    for row, books in enumerate(reference_books(messages)):
        stop = int(np.searchsorted(again.rows, row, side="right"))
        if stop > at:
            market.submit(commands[at:stop])
            at = stop
            symbol = int(commands[at - 1]["symbol"])
            assert levels(market, symbol) == books.get(locates[names[symbol]], ({}, {})), row
    assert at == len(again)
    before, played = market_of(day)
    before.submit(played)
    for symbol, of in enumerate(day.reference.symbols):
        assert levels(market, names.index(of.name)) == levels(before, symbol)
    assert again.reference.counts["executions_other_head"] == again.reference.counts["missing_lots"] == 0


@pytest.mark.long
def test_round_trip_of_a_generated_day(day: Day, tmp_path: Path) -> None:
    write_itch(day, tmp_path / "a.itch")
    same_after_every_message(day, tmp_path / "a.itch")


@pytest.mark.parametrize("seed", range(4))
def test_round_trip_of_every_command(seed: int, tmp_path: Path) -> None:
    commands = random_commands(3000, seed)
    reference = Reference((SymbolReference("A"), SymbolReference("B")), "", "generated", last_time_ns=3_000_000)
    made = Day(commands, np.arange(len(commands)), reference)
    write_itch(made, tmp_path / "a.itch")
    kinds = {message["type"] for message in read_messages((tmp_path / "a.itch").read_bytes())}
    assert kinds == set("SRHADEXUP")
    same_after_every_message(made, tmp_path / "a.itch")


def test_a_compressed_file_is_the_same(day: Day, tmp_path: Path) -> None:
    size = write_itch(day, tmp_path / "a.itch")
    assert write_itch(day, tmp_path / "a.itch.gz") == size == (tmp_path / "a.itch").stat().st_size
    assert gzip.decompress((tmp_path / "a.itch.gz").read_bytes()) == (tmp_path / "a.itch").read_bytes()
    packed, plain = import_itch(tmp_path / "a.itch.gz"), import_itch(tmp_path / "a.itch")
    assert np.array_equal(packed.commands, plain.commands)


def test_round_trip_of_halts(tmp_path: Path) -> None:
    rows = [
        command(CommandKind.NEW, qty_lots=5, price_ticks=100, time_in_force=1, command_id=1),
        command(CommandKind.HALT, command_id=2, time_ns=1),
        command(CommandKind.CANCEL, order_id=1, command_id=3, time_ns=2),
        command(CommandKind.RESUME, command_id=4, time_ns=3),
    ]
    made = Day(np.concatenate(rows), np.arange(4), Reference((SymbolReference("A"),), "", "generated", last_time_ns=3))
    write_itch(made, tmp_path / "a.itch")
    again = import_itch(tmp_path / "a.itch")
    assert again.commands["kind"].tolist() == [
        CommandKind.NEW,
        CommandKind.HALT,
        CommandKind.CANCEL,
        CommandKind.RESUME,
    ]


@pytest.mark.parametrize(
    ("symbol", "message"),
    [
        (SymbolReference("A", "0.00001"), "four decimals"),
        (SymbolReference("A", "0.01", "0.5"), "lot size 1, got 0.01 and 0.5"),
        (SymbolReference("LONGLONGNAME"), "8 ASCII letters"),
    ],
)
def test_what_itch_cannot_represent(symbol: SymbolReference, message: str, tmp_path: Path) -> None:
    made = Day(np.zeros(0, COMMAND), np.zeros(0, np.int64), Reference((symbol,), "", "generated"))
    with pytest.raises(ExportError, match=message):
        write_itch(made, tmp_path / "a.itch")
    assert not list(tmp_path.iterdir())


def test_sizes_that_itch_cannot_represent(tmp_path: Path) -> None:
    rows = command(CommandKind.NEW, qty_lots=1 << 32, price_ticks=1, command_id=1)
    made = Day(rows, np.zeros(1, np.int64), Reference((SymbolReference("A"),), "", "generated"))
    with pytest.raises(ExportError, match="32 bits"):
        write_itch(made, tmp_path / "a.itch")


def test_a_session_begins_with_the_directory_and_the_states(tmp_path: Path) -> None:
    """The specification: a security that is absent from the trading actions before the opening is to be taken as halted."""
    symbols = (SymbolReference("A"), SymbolReference("B"))
    made = Day(random_commands(10, 1), np.arange(10), Reference(symbols, "", "generated", last_time_ns=10_000))
    write_itch(made, tmp_path / "a.itch")
    start = list(read_messages((tmp_path / "a.itch").read_bytes()))[:5]
    assert [message["type"] for message in start] == ["S", "R", "R", "H", "H"]
    assert [(message["locate"], message["stock"], message["state"]) for message in start[3:]] == [
        (1, "A", "T"),
        (2, "B", "T"),
    ]


def test_times_that_itch_cannot_represent(tmp_path: Path) -> None:
    """A session recorded for four days: the end of its file was a traceback, and times of executions were cut to 48 bits."""
    reference = Reference((SymbolReference("A"),), "", "recorded", last_time_ns=1 << 48)
    with pytest.raises(ExportError, match="times of up to 48 bits"):
        write_itch(Day(np.zeros(0, COMMAND), np.zeros(0, np.int64), reference), tmp_path / "a.itch")
    assert not list(tmp_path.iterdir())
