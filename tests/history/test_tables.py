"""Tables of a day against the market itself, command by command."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray
from pyarrow import csv, parquet

from serl.exchange.errors import ConfigError
from serl.exchange.market import Market
from serl.exchange.records import EventFlag, EventKind, Rows
from serl.history import book_rows, tables
from serl.history.cli import day as commands_of_day
from serl.history.day import Day, write_day
from serl.history.generate import OPEN_NS, SECOND_NS, generate_day
from tests.history.accounts_sample import random_day
from tests.history.sample import imported
from tests.history.test_lobster_rules import NO_CHANGE, START

DEPTH = 3


@pytest.fixture(scope="module")
def day() -> Day:
    return generate_day(3, start_ns=OPEN_NS, end_ns=OPEN_NS + 60 * SECOND_NS)


def steps(day: Day) -> Iterator[tuple[Market, Rows, Rows]]:
    """(market, command, its events) after each command of the day's replay."""
    market, commands = tables._market(day)
    for index in range(len(commands)):
        row = commands[index : index + 1]
        yield market, row, market.submit(row)


def shown(market: Market, symbol: int) -> NDArray[np.int64]:
    """(2, DEPTH, 2) ticks and lots of the market's own book."""
    found = np.zeros((2, DEPTH, 2), np.int64)
    for side, rows in enumerate(market.book(symbol, DEPTH)):
        found[side, : len(rows), 0], found[side, : len(rows), 1] = rows["price_ticks"], rows["qty_lots"]
    return found


def recorded(day: Day, times_ns: Any = None) -> list[Any]:
    """[(time, sequence, symbol, ticks and lots)] of the rows."""
    rows = book_rows.book_rows(*tables._market(day), DEPTH, -1, times_ns)
    books = np.stack([rows.ticks, rows.lots], axis=-1).transpose(2, 0, 1, 3)
    return [(*key, book.tolist()) for *key, book in zip(rows.time_ns.tolist(), rows.sequence.tolist(), rows.symbol.tolist(), books, strict=True)]  # fmt: skip


@pytest.mark.parametrize("profile", ["thin", "few_levels", "terms", "phases", "bands", "generated"])
def test_books_are_those_of_the_market_after_every_command(profile: str, day: Day) -> None:
    """Days with hidden orders, auctions, mass cancels, stops and several symbols among them."""
    made = day if profile == "generated" else random_day(profile, 500)
    expected, before = [], np.zeros((len(made.reference.symbols), 2, DEPTH, 2), np.int64)
    for market, row, _ in steps(made):
        for symbol in range(len(before)):
            book = shown(market, symbol)
            if not np.array_equal(book, before[symbol]):
                before[symbol] = book
                expected.append((int(row["time_ns"][0]), int(row["sequence"][0]), symbol, book.tolist()))
    assert sorted(recorded(made)) == sorted(expected) and len(expected) > 50


def test_books_at_times_are_after_all_commands_up_to_them(day: Day) -> None:
    times = np.array([0, OPEN_NS, int(day.commands["time_ns"][250]), OPEN_NS + 30 * SECOND_NS, OPEN_NS + 3600 * SECOND_NS])  # fmt: skip
    changes = recorded(day)
    for found, time_ns in zip(recorded(day, times), times.tolist(), strict=True):
        last = max((row for row in changes if row[0] <= time_ns), key=lambda row: row[1], default=None)
        assert found[0] == time_ns and found[1] == int((day.commands["time_ns"] <= time_ns).sum())
        assert found[3] == (np.zeros((2, DEPTH, 2)).tolist() if last is None else last[3])
    grid = tables.book(day, DEPTH, every_s=10)
    assert (np.diff(grid["time_ns"]) == 10 * SECOND_NS).all() and grid["time_ns"][-1] >= day.commands["time_ns"][-1]
    assert len(grid) == 7 and list(grid.columns)[4:8] == ["bid_1", "bid_lots_1", "ask_1", "ask_lots_1"]


def test_arrays_that_are_too_small_grow(day: Day, monkeypatch: pytest.MonkeyPatch) -> None:
    """One command may change many symbols."""
    rows, original, sizes = recorded(day), book_rows._allocate, []

    def allocate(count: int, depth: int) -> book_rows.BookRows:
        sizes.append(count)
        return original(2 if len(sizes) == 1 else count, depth)

    monkeypatch.setattr(book_rows, "_allocate", allocate)
    assert recorded(day) == rows and sizes[1:4] == [4, 8, 16]


def test_quotes_are_the_first_level(day: Day) -> None:
    quotes, book = tables.quotes(day), tables.book(day, 1)
    for name in ("bid", "ask"):
        np.testing.assert_array_equal(quotes[name], book[f"{name}_1"])
        np.testing.assert_array_equal(quotes[f"{name}_lots"], book[f"{name}_lots_1"])
    both = (quotes["bid_ticks"] > 0) & (quotes["ask_ticks"] > 0)
    np.testing.assert_allclose(quotes["mid"][both], (quotes["bid"] + quotes["ask"])[both] / 2, rtol=1e-15)
    assert np.isnan(quotes["mid"][~both]).all() and 0 < both.sum() < len(quotes)


@pytest.mark.parametrize("profile", ["terms", "phases", "generated"])
def test_trades_are_the_matches_of_the_replay(profile: str, day: Day) -> None:
    made = day if profile == "generated" else random_day(profile, 2000 if profile == "phases" else 800)
    expected = []
    for _, row, events in steps(made):
        fills = events[events["kind"] == EventKind.FILL]
        for one in events[(events["kind"] == EventKind.PRINT) | ((events["flags"] & EventFlag.MAKER > 0) & (events["kind"] == EventKind.FILL))]:  # fmt: skip
            taker = [fill for fill in fills if fill["match_id"] == one["match_id"] and not fill["flags"] & EventFlag.MAKER]  # fmt: skip
            auction = bool(one["flags"] & EventFlag.AUCTION)
            side = None if auction else ("sell", "buy")[int(one["side"])]
            expected.append((int(row["sequence"][0]), int(one["match_id"]), side, int(one["price_ticks"]), int(one["qty_lots"]), int(one["order_id"]), int(taker[0]["order_id"]) if taker else 0, auction, not taker))  # fmt: skip
    table = tables.trades(made)
    names = ("command_sequence", "match_id", "side", "price_ticks", "qty_lots", "maker_order_id", "taker_order_id", "auction", "off_book")  # fmt: skip
    assert list(zip(*(table[name].tolist() for name in names), strict=True)) == expected and expected
    if profile == "phases":
        assert table["auction"].any() and {"maker", "taker"} <= set(table.columns)


def test_events_are_those_of_the_replay(day: Day) -> None:
    table = tables.events(day)
    rows = np.concatenate([events for _, _, events in steps(day)])
    for name in ("time_ns", "sequence", "command_sequence", "price_ticks", "qty_lots", "leaves_lots", "order_id", "match_id"):  # fmt: skip
        np.testing.assert_array_equal(table[name], rows[name])
    assert table["kind"].tolist() == [EventKind(int(kind)).name.lower() for kind in rows["kind"]]
    assert "participant" not in table.columns and "participant" in tables.events(random_day("thin", 50)).columns


def test_tables_of_one_symbol() -> None:
    made = random_day("thin", 500)
    name = made.reference.symbols[1].name
    for table in (tables.orders, tables.events, tables.trades, tables.quotes):
        whole, one = table(made), table(made, name)
        assert set(one["symbol"]) == {name} and len(one) == int((whole["symbol"] == name).sum()) > 0
    book = tables.book(made, 2, name, every_s=0.5)
    assert set(book["symbol"]) == {name} and len(set(book["time_ns"].tolist())) == len(book)


def test_times_have_the_date_of_the_day(tmp_path: Path) -> None:
    day, _ = imported(tmp_path, NO_CHANGE, ((4, 1, 4, 101, -1), ([(101, 6), (103, 10)], START[1])))
    trades = tables.trades(day)
    assert trades["time"].astype(str).tolist() == ["2020-01-02T09:30:00.500000000", "2020-01-02T09:30:01.500000000"]
    assert trades["price"].tolist() == [1.0, 1.01] and trades["off_book"].tolist() == [True, False]
    assert trades["side"].tolist() == ["sell", "buy"], "a hidden buy order was hit"
    assert tables.orders(day)["time"][0] == np.datetime64("2020-01-02T09:30:00.5")


def test_an_empty_day_has_empty_tables(day: Day) -> None:
    empty = Day(day.commands[:0], day.rows[:0], day.reference)
    for table in (tables.orders, tables.events, tables.trades, tables.quotes, tables.book):
        assert len(table(empty)) == 0 and list(table(empty).columns) == list(table(day).columns)
    assert len(tables.book(empty, every_s=1)) == 0


@pytest.mark.parametrize(("settings", "message"), [
    ({"symbol": "XYZ"}, "symbol: expected one of DEMO, got XYZ"), ({"depth": 0}, "depth: expected 1 to 1000"),
    ({"every_s": 0}, "every_s: expected"), ({"every_s": 1, "times_ns": np.array([1])}, "expected every_s or times_ns, got both"),
    ({"times_ns": np.array([2, 1])}, "times_ns: expected increasing times"),
    ({"times_ns": np.array(["2012-06-21T10:00"], "datetime64[ns]")}, "expected integers, nanoseconds after midnight, got datetime64"),
    ({"times_ns": [36_000.0]}, "expected integers, nanoseconds after midnight, got float64"),
    ({"times_ns": np.array([36_000], "timedelta64[s]")}, "expected integers, nanoseconds after midnight, got timedelta64"),
    ({"times_ns": [[1]]}, "expected a list of times, got an array of 2 dimensions"), ({"times_ns": 5}, "an array of 0 dimensions"),
    ({"times_ns": [2**64 - 1]}, "expected times that fit in 64 bits"), ({"depth": 1.5}, "depth: expected an integer"),
    ({"every_s": "minute"}, "every_s: expected .* got minute"), ({"every_s": float("nan")}, "every_s: expected .* got nan"),
    ({"every_s": 1e-9}, "every_s: expected a time that gives at most 100,000,000 rows of the day"),  # filled the memory
    ({"every_s": 1e18}, "every_s: expected .* up to 1,000,000 s"), ({"every_s": float("inf")}, "every_s: expected .* got inf"),
])  # fmt: skip
def test_settings_that_cannot_be(settings: dict[str, Any], message: str, day: Day) -> None:
    with pytest.raises(ConfigError, match=message):
        tables.book(day, **settings)


def test_a_time_step_of_few_digits_is_exact(day: Day) -> None:
    """Steps of np.float32(60) were two microseconds too long."""
    steps = np.diff(tables.book(day, 1, every_s=np.float32(60))["time_ns"])  # pyrefly: ignore[bad-argument-type]
    assert len(steps) and (steps == 60 * 10**9).all()


def test_the_command_writes_tables(day: Day, tmp_path: Path) -> None:
    file = tmp_path / "a.day"
    write_day(day, file)

    def run(*arguments: str) -> tuple[int, str]:
        result = CliRunner().invoke(commands_of_day, ["export", str(file), "-o", *arguments])
        return result.exit_code, result.output

    code, text = run(str(tmp_path / "t.csv"), "--table", "trades")
    trades = tables.trades(day)
    assert code == 0 and f"trades, {len(trades):,} rows of 14 columns" in text
    assert csv.read_csv(tmp_path / "t.csv")["price_ticks"].to_pylist() == trades["price_ticks"].tolist()
    assert run(str(tmp_path / "b.parquet"), "--table", "book", "--levels", "2", "--every", "10")[0] == 0
    read = parquet.read_table(tmp_path / "b.parquet")
    assert read.num_rows == 7 and read.column_names[-1] == "ask_lots_2"
    for arguments, message in (
        (("t.csv",), "say with --table which table"), (("t.zip", "--table", "trades"), "expected a name that ends in .parquet"),
        (("t.csv", "--table", "trades", "--every", "1"), "--every: expected with --table book, got it with trades"),
    ):  # fmt: skip
        code, text = run(*arguments)
        assert code == 2 and message in " ".join(text.split())


@pytest.mark.parametrize("name", ["orders", "events", "trades", "quotes", "book"])
def test_a_path_is_no_day(name: str) -> None:
    path: Any = "x.day"
    with pytest.raises(
        ConfigError, match=r"day: expected a Day, got 'x\.day'; read it with serl\.history\.day\.read_day"
    ):
        getattr(tables, name)(path)
