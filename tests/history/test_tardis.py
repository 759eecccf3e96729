"""Tardis CSV files: the rules of docs/history.md, broken rows, blocks, and random days against a book of dictionaries."""

import gzip
import random
import time
from pathlib import Path

import numpy as np
import pytest

from serl.history import decompress
from serl.history.day import Day
from serl.history.errors import SourceError, TardisError
from serl.history.importing import detect_format, import_day
from serl.history.source import Options
from serl.history.tardis_rows import BOOK_HEADER, TRADES_HEADER
from serl.history.verify import market_of
from tests.history.sample import commands_of_row
from tests.history.samples import Levels, replay_to_rows, top

MIDNIGHT_US = 1_598_918_400_000_000
BOOK, TRADES = (
    "binance-futures_incremental_book_L2_2020-09-01_BTCUSDT.csv",
    "binance-futures_trades_2020-09-01_BTCUSDT.csv",
)
Row = tuple[int, str, str, object, object]
"""us after midnight, is_snapshot or id, side, price, amount."""
SNAPSHOT: list[Row] = [(1, "true", "bid", "100.0", 5), (1, "true", "bid", "99.5", 2), (1, "true", "ask", "100.5", 3)]


def text(header: bytes, rows: list[Row]) -> str:
    lines = [
        f"binance-futures,BTCUSDT,{MIDNIGHT_US + us},{MIDNIGHT_US + us},{flag},{side},{price},{amount}"
        for us, flag, side, price, amount in rows
    ]
    return "\n".join([header.decode(), *lines]) + "\n"


def imported(folder: Path, rows: list[Row], trades: list[Row] | None = None, **options: str) -> Day:
    (folder / BOOK).write_text(text(BOOK_HEADER, rows))
    if trades is not None:
        (folder / TRADES).write_text(text(TRADES_HEADER, trades))
    return import_day(folder / BOOK, Options(**{"lot_size": "1", **options}))  # pyrefly: ignore[bad-argument-type]


def test_rows_of_one_time_are_one_message(tmp_path: Path) -> None:
    """What a message removes goes first, wherever in the message it stands, or it would trade with what the message adds."""
    day = imported(
        tmp_path, [*SNAPSHOT, (2_000, "false", "bid", "100.5", 4), (2_000, "false", "ask", "100.5", 0), (2_000, "false", "ask", "101.0", 1)]
    )  # fmt: skip
    assert commands_of_row(day, -1) == [("NEW", 0, 0, 5, 200), ("NEW", 0, 0, 2, 199), ("NEW", 0, 1, 3, 201)]
    assert commands_of_row(day, 3) == [("CANCEL", 3, 1, 0, 201), ("NEW", 0, 0, 4, 201), ("NEW", 0, 1, 1, 202)]
    assert day.commands["time_ns"].tolist() == [1_000] * 3 + [2_000_000] * 3
    reference = day.reference
    assert (reference.first_time_ns, reference.last_time_ns) == (1_000, 2_000_000)
    assert (reference.symbols[0].name, reference.symbols[0].tick_size, reference.date) == (
        "BTCUSDT",
        "0.5",
        "2020-09-01",
    )
    assert reference.source_rows == 6 and reference.counts["updates"] == reference.counts["snapshots"] == 1


def test_the_last_row_of_a_level_counts(tmp_path: Path) -> None:
    day = imported(tmp_path, [*SNAPSHOT, (2, "false", "bid", "100.0", 9), (2, "false", "bid", "100.0", 3)])
    assert commands_of_row(day, 3) == [("REDUCE", 1, 0, 2, 200)]


def test_trades_are_found_whether_they_are_compressed_or_not(tmp_path: Path) -> None:
    trades: list[Row] = [(2, "7", "buy", "100.5", "1.2")]
    day = imported(tmp_path, SNAPSHOT, trades)
    assert day.reference.counts["trades"] == day.reference.counts["sizes_rounded"] == 1
    (tmp_path / f"{TRADES}.gz").write_bytes(gzip.compress((tmp_path / TRADES).read_bytes()))
    (tmp_path / TRADES).unlink()
    assert imported(tmp_path, SNAPSHOT).commands.tobytes() == day.commands.tobytes()


def test_trades_beside_the_book_take_and_the_next_message_sets_right(tmp_path: Path) -> None:
    trades: list[Row] = [
        (0, "7", "buy", "100.5", 1), (2, "8", "sell", "99.5", 6), (3, "9", "unknown", "100.5", 1), (9, "10", "buy", "100.5", 1),
    ]  # fmt: skip
    day = imported(tmp_path, [*SNAPSHOT, (2, "false", "bid", "100.0", 4)], trades)
    assert commands_of_row(day, 0) == [("NEW", 0, 1, 6, 199)]  # of the row before it
    assert commands_of_row(day, 3) == [("NEW", 0, 0, 4, 200), ("NEW", 0, 0, 1, 199), ("NEW", 0, 0, 1, 201)]
    counts = day.reference.counts
    assert (counts["trades"], counts["trades_of_unknown_side"], counts["trades_unfilled"]) == (2, 1, 0)
    assert [file.name for file in day.reference.files] == [BOOK, TRADES]


def test_a_snapshot_begins_the_book_anew(tmp_path: Path) -> None:
    """After a lost connection."""
    day = imported(
        tmp_path, [*SNAPSHOT, (2, "false", "bid", "98.0", 1), (5, "true", "bid", "100.0", 5), (5, "true", "ask", "102.0", 2)]
    )  # fmt: skip
    market = next(replay_to_rows(day, [5]))
    assert top(market, 9) == ({200: 5}, {204: 2}) and day.reference.counts["snapshots"] == 2


def test_a_snapshot_may_arrive_in_parts(tmp_path: Path) -> None:
    """A change in the time of its last part is no part of it."""
    rows: list[Row] = [(1, "true", "bid", "100.0", 5), (2, "true", "ask", "100.5", 3), (2, "false", "bid", "98.0", 1)]
    day = imported(tmp_path, rows)
    assert commands_of_row(day, -1) == [("NEW", 0, 0, 5, 200), ("NEW", 0, 1, 3, 201)]
    assert commands_of_row(day, 2) == [("NEW", 0, 0, 1, 196)]
    assert (day.reference.counts["snapshots"], day.reference.counts["updates"]) == (1, 1)


def test_levels_that_a_message_should_have_removed(tmp_path: Path) -> None:
    day = imported(tmp_path, [*SNAPSHOT, (2, "false", "bid", "100.5", 4), (3, "false", "ask", "100.5", 2)])
    markets = replay_to_rows(day, [3, 4])
    assert top(next(markets), 9) == ({201: 4, 200: 5, 199: 2}, {})
    assert top(next(markets), 9) == ({200: 5, 199: 2}, {201: 2}) and day.reference.counts["levels_crossed"] == 2
    both: list[Row] = [(2, "false", "bid", "99.0", 1), (2, "false", "ask", "100.0", 2)]
    market = next(replay_to_rows(imported(tmp_path, [*SNAPSHOT, *both]), [4]))
    assert top(market, 9) == ({199: 2, 198: 1}, {200: 2, 201: 3}), "the last row of a message is the newest"


def test_sizes_are_rounded_and_the_tick_is_found(tmp_path: Path) -> None:
    day = imported(tmp_path, [(1, "true", "bid", "0.30", "0.2"), (1, "true", "ask", "0.42", "2.6")])
    assert day.commands["qty_lots"].tolist() == [1, 3] and day.commands["price_ticks"].tolist() == [5, 7]
    assert day.reference.symbols[0].tick_size == "0.06" and day.reference.counts["sizes_rounded"] == 2
    given = imported(tmp_path, [(1, "true", "bid", "0.30", "0.2")], tick_size="0.01", symbols=("X",), lot_size="")  # pyrefly: ignore[bad-argument-type]
    assert (given.commands["price_ticks"][0], given.commands["qty_lots"][0], given.reference.symbols[0].name) == (
        30,
        20_000,
        "X",
    )


@pytest.mark.parametrize(
    ("row", "error"),
    [
        ((2, "false", "up", "100.0", 1), "row 4: side: expected one of bid, ask, got up"),
        ((2, "maybe", "bid", "100.0", 1), "row 4: is_snapshot: expected true or false, got maybe"),
        ((2, "false", "bid", "100.0", -1), "row 4: amount: expected an amount not below 0, got -1"),
        ((2, "false", "bid", "-1", 1), "row 4: price: expected a decimal above 0 with at most nine places, got -1"),
        ((2, "false", "bid", "ten", 1), "row 4: price: expected a decimal with up to 12 places, got 'ten'"),
        ((2, "false", "bid", "100.0", "1,1"), "row 4: expected 8 columns, got 9"),
        ((2, "false", "bid", "100.0", 10**17), "row 4: amount: expected at most 2.53 ticks x lots"),
        ((0, "false", "bid", "100.0", 1), "row 4: local_timestamp: expected a time not before the row above"),
        ((1 << 62, "false", "bid", "100.0", 1), "row 4: local_timestamp: expected microseconds since 1970"),
    ],
)
@pytest.mark.parametrize("block_bytes", [1 << 20, 150])
def test_broken_rows(row: Row, error: str, block_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Row numbers are those of the file, in whichever block the row is."""
    monkeypatch.setattr(decompress.read_blocks, "__defaults__", (block_bytes,))
    with pytest.raises(TardisError, match=error):
        imported(tmp_path, [*SNAPSHOT, row])


def test_files_that_are_no_day(tmp_path: Path) -> None:
    with pytest.raises(TardisError, match="row 1: expected a snapshot, with which each day begins, got a change"):
        imported(tmp_path, [(2, "false", "bid", "100.0", 1)])
    with pytest.raises(TardisError, match="expected at least one row"):
        imported(tmp_path, [])
    (tmp_path / TRADES).write_text(text(TRADES_HEADER, [(1, "7", "buy", "1", 1)]))
    with pytest.raises(TardisError, match="expected the file of book updates, got trades; give incremental_book_L2"):
        import_day(tmp_path / TRADES)
    with pytest.raises(TardisError, match="row 4: symbol: expected BTCUSDT, the symbol of the rows above, got ETHUSDT"):
        two = text(BOOK_HEADER, [*SNAPSHOT, (2, "false", "bid", "100.0", 1)])
        (tmp_path / BOOK).write_text(two[::-1].replace("TDSUCTB", "TDSUHTE", 1)[::-1])
        import_day(tmp_path / BOOK)
    with pytest.raises(SourceError, match="--tick-size"):
        imported(tmp_path, SNAPSHOT, tick_size="x")
    with pytest.raises(TardisError, match=r"row 1: price: expected a multiple of the tick 0\.3"):
        imported(tmp_path, SNAPSHOT, tick_size="0.3")


def random_day(seed: int) -> tuple[list[Row], list[Row], dict[int, tuple[Levels, Levels]]]:
    """(updates, trades, row: the book after the message that ends with it), of a source whose book never crosses."""
    chance = random.Random(seed)
    books: tuple[Levels, Levels] = ({199 - n: 5 for n in range(5)}, {201 + n: 5 for n in range(5)})
    rows: list[Row] = [
        (1, "true", ("bid", "ask")[side], f"{price / 2}", lots)
        for side in range(2)
        for price, lots in books[side].items()
    ]
    trades: list[Row] = []
    expected = {}
    for us in range(2, 60):
        touch = max(books[0]), min(books[1])
        if chance.random() < 0.5:  # the book hears of it in one of the messages that come, or never
            trades.append(
                (us, str(us), chance.choice(["buy", "sell"]), f"{chance.choice(touch) / 2}", chance.randint(1, 8))
            )
        first = len(rows)
        for _ in range(chance.randint(1, 4)):
            side = chance.randrange(2)
            price = (
                chance.randint(touch[0] - 5, touch[1] - 1) if side == 0 else chance.randint(touch[0] + 1, touch[1] + 5)
            )
            if price >= min(books[1]) if side == 0 else price <= max(books[0]):
                continue
            lots = chance.choice([0, 1, 4, 9]) if len(books[side]) > 1 else 5
            rows.append((us, "false", ("bid", "ask")[side], f"{price / 2}", lots))
            books[side].pop(price, None)
            if lots:
                books[side][price] = lots
        if len(rows) > first:
            expected[first] = (dict(books[0]), dict(books[1]))
    return rows, trades, expected


@pytest.mark.parametrize("seed", range(20))
def test_random_days_equal_a_book_of_dictionaries_after_each_message(seed: int, tmp_path: Path) -> None:
    """The commands of a message have its first row; a trade has the row of the message before it, after which the book may differ."""
    rows, trades, expected = random_day(seed)
    day = imported(tmp_path, rows, trades, tick_size="0.5")
    updates = [row for row in expected if row]
    market, commands = market_of(day)
    at = 0
    for row in updates:
        stop = int(np.searchsorted(commands["time_ns"], rows[row][0] * 1000, side="right"))
        market.submit(commands[at:stop])
        at = stop
        assert top(market, 99) == expected[row], row


def test_compressed_files_and_small_blocks_are_the_same_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, trades, _ = random_day(3)
    whole = imported(tmp_path, rows, trades)
    assert detect_format(tmp_path / BOOK).name == "Tardis"
    monkeypatch.setattr(decompress.read_blocks, "__defaults__", (333,))
    assert import_day(tmp_path / BOOK, Options(lot_size="1")).commands.tobytes() == whole.commands.tobytes()
    for name in (BOOK, TRADES):
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress((tmp_path / name).read_bytes()))
    assert import_day(tmp_path / f"{BOOK}.gz", Options(lot_size="1")).commands.tobytes() == whole.commands.tobytes()


def test_what_a_later_snapshot_corrects_are_no_orders_of_its_moment(tmp_path: Path) -> None:
    """A tape for calibration counted them as messages."""
    day = imported(
        tmp_path,
        [*SNAPSHOT, (2, "false", "bid", "98.0", 1), (5, "true", "bid", "100.0", 5), (6, "false", "bid", "97.0", 1)],
    )
    assert [(row, int(us)) for row, us in zip(day.rows, day.commands["time_ns"] // 1_000, strict=True) if us >= 2] == [
        (3, 2), (-1, 5), (-1, 5), (-1, 5), (5, 6),
    ]  # fmt: skip


def test_a_blank_last_line_is_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / BOOK).write_text(text(BOOK_HEADER, SNAPSHOT) + "\r\n\n")
    for size in (7, decompress.BLOCK_BYTES):
        monkeypatch.setattr(decompress.read_blocks, "__defaults__", (size,))
        assert import_day(tmp_path / BOOK).reference.source_rows == 3
    (tmp_path / BOOK).write_text(text(BOOK_HEADER, SNAPSHOT).replace("\n", "\n\n", 2))
    with pytest.raises(TardisError, match="row 1: "):
        import_day(tmp_path / BOOK)


def test_prices_beyond_64_bits_of_the_smallest_tick(tmp_path: Path) -> None:
    """A bitcoin costs over 9.2e9 in some currencies. Finding the tick ended with a traceback."""
    day = imported(tmp_path, [(1, "true", "bid", "93000000000.5", 5), (1, "true", "ask", "93000000001.0", 5)])
    assert day.reference.symbols[0].tick_size == "0.5"
    assert day.commands["price_ticks"].tolist() == [186_000_000_001, 186_000_000_002]


def test_a_snapshot_from_the_best_level_on_costs_as_much_as_one_from_the_worst_on(tmp_path: Path) -> None:
    """Each level was searched from the best one on: 80,000 on a side took 10 s, and twice as many four times that."""
    bids: list[Row] = [(1, "true", "bid", f"{number / 100:.2f}", 1) for number in range(1, 30_001)]
    imported(tmp_path, bids[:9], tick_size="0.01")
    took_s = []
    for rows in (bids, bids[::-1]):
        began_s = time.process_time()
        assert len(imported(tmp_path, rows, tick_size="0.01")) == len(bids)
        took_s.append(time.process_time() - began_s)
    assert took_s[1] < 3 * took_s[0]
