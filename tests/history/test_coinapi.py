"""CoinAPI's order-by-order files in both of their dialects: books of random sessions, snapshots, rules, broken rows."""

import gzip
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from serl.history import stream_book
from serl.history.day import Day
from serl.history.errors import CoinApiError, SourceError
from serl.history.importing import detect_format, import_day, import_file
from serl.history.source import Options
from tests.history.sample import commands_of_row
from tests.history.samples import Levels, replay_to_rows, top

NAME = "IDDI-1234+SC-COINBASE_SPOT_BTC_USD+S-BTC-USD.csv"
Update = tuple[float, str, str, str, str, str]
"""s after midnight, side B or S, update type, price, size, order id."""


def clock(seconds: float) -> str:
    whole = int(seconds)
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}.{round((seconds - whole) * 10**7):07}"


def documented(*updates: Update) -> str:
    """As the documentation shows them: commas, complete times, is_buy before update_type."""
    lines = [
        f"2023-07-01T{clock(s)}Z,2023-07-01T{clock(s + 0.1)}Z,{int(side == 'B')},{kind},{price},{size},{order}"
        for s, side, kind, price, size, order in updates
    ]
    return "\n".join(["time_exchange,time_coinapi,is_buy,update_type,entry_px,entry_sx,order_id", *lines]) + "\n"


def delivered(*updates: Update) -> str:
    """As files are: semicolons, times of day, lines end with CR LF."""
    lines = [
        f"{clock(s)};{clock(s + 0.1)};{kind};{int(side == 'B')};{price};{size};{order}"
        for s, side, kind, price, size, order in updates
    ]
    return "\r\n".join(["time_exchange;time_coinapi;update_type;is_buy;entry_px;entry_sx;order_id", *lines]) + "\r\n"


def imported(folder: Path, *updates: Update, form: Any = documented, **options: Any) -> Day:
    path = folder / NAME
    path.write_text(form(*updates), newline="")
    return import_day(path, Options(**options))


STEPS = {"tick_size": "0.01", "lot_size": "0.5"}
BID = (60.0, "B", "ADD", "10.00", "2.5", "a-1")
NEW_BID = [("NEW", 0, 0, 5, 1_000)]
ASK = (61.0, "S", "ADD", "10.02", "1.5", "a-2")


def test_the_times_of_a_day_are_those_of_its_first_and_last_row(tmp_path: Path) -> None:
    reference = imported(tmp_path, BID, ASK, **STEPS).reference
    assert (reference.first_time_ns, reference.last_time_ns) == (60_000_000_000, 61_000_000_000)


@pytest.mark.parametrize(
    ("update", "commands", "counts"),
    [
        ((62.0, "B", "SUB", "10.00", "1.0", "a-1"), [("REDUCE", 1, 0, 2, 1_000)], {"cancels": 1}),
        ((62.0, "B", "MATCH", "10.00", "1.0", "a-1"), [("NEW", 0, 1, 2, 1_000)], {"executions": 1}),
        ((62.0, "B", "MATCH", "10.00", "2.5", "a-1"), [("NEW", 0, 1, 5, 1_000)], {"executions": 1}),
        ((62.0, "B", "MATCH", "10.00", "9", "a-1"), [("NEW", 0, 1, 5, 1_000)], {"sizes_beyond_open": 1}),
        ((62.0, "B", "SET", "10.00", "1.5", "a-1"), [("REDUCE", 1, 0, 2, 1_000)], {"modifies": 1}),
        ((62.0, "B", "SET", "10.01", "1.5", "a-1"), [("CANCEL", 1, 0, 0, 1_000), ("NEW", 0, 0, 3, 1_001)], {"modifies": 1}),
        ((62.0, "B", "SET", "10.00", "3.5", "a-1"), [("CANCEL", 1, 0, 0, 1_000), ("NEW", 0, 0, 7, 1_000)], {}),
        ((62.0, "B", "SET", "10.00", "0", "a-1"), [("CANCEL", 1, 0, 0, 1_000)], {}),
        ((62.0, "B", "SET", "9.00", "1", "new"), [("NEW", 0, 0, 2, 900)], {}),
        ((62.0, "B", "DELETE", "10.00", "2.5", "a-1"), [("CANCEL", 1, 0, 0, 1_000)], {}),
        ((62.0, "B", "DELETE", "10.00", "2.5", "zz"), [], {"orders_unknown": 1}),
        ((62.0, "B", "ADD", "10.00", "1.5", "a-1"), [("REDUCE", 1, 0, 2, 1_000)], {"adds_repeated": 1}),
        ((62.0, "B", "SUB", "10.00", "0.8", "a-1"), [("REDUCE", 1, 0, 2, 1_000)], {"sizes_rounded": 1}),
        ((62.0, "B", "ADD", "10.05", "1", "b"), [], {"orders_crossing": 0}),
        ((59.0, "S", "SUB", "10.02", "0.5", "a-2"), [("REDUCE", 2, 1, 1, 1_002)], {"times_raised": 1}),
    ],
)  # fmt: skip
def test_one_update(update: Update, commands: list[Any], counts: dict[str, int], tmp_path: Path) -> None:
    day = imported(tmp_path, BID, ASK, update, **STEPS)
    assert commands_of_row(day, 0) == NEW_BID and commands_of_row(day, 2) == commands
    assert counts.items() <= day.reference.counts.items()
    assert day.reference.date == "2023-07-01" and day.reference.symbols[0].name == "COINBASE_SPOT_BTC_USD"
    assert day.commands["time_ns"][0] == 60 * 10**9


def test_an_order_that_would_trade_is_held_until_it_would_not(tmp_path: Path) -> None:
    day = imported(
        tmp_path, BID, ASK, (62.0, "B", "ADD", "10.05", "2.5", "b"), (62.1, "S", "MATCH", "10.02", "1.5", "a-2"),
        (62.2, "B", "SUB", "10.05", "1.5", "b"), **STEPS,
    )  # fmt: skip
    assert [commands_of_row(day, row) for row in (2, 3, 4)] == [
        [], [("NEW", 0, 0, 3, 1_002), ("NEW", 0, 0, 5, 1_005)], [("REDUCE", 4, 0, 3, 1_005)],
    ]  # fmt: skip


def test_snapshots(tmp_path: Path) -> None:
    """The first is the opening book, with times of the day before; a later one discards what it does not have, and keeps places in queues."""
    day = imported(
        tmp_path,
        (86_399.9, "B", "SNAPSHOT", "10.00", "2", "a"), (86_399.9, "B", "SNAPSHOT", "10.00", "3", "b"), (86_399.9, "S", "SNAPSHOT", "10.02", "1", "c"),
        (5.0, "B", "ADD", "9.99", "1", "d"),
        (6.0, "B", "SNAPSHOT", "10.00", "1", "a"), (6.0, "B", "SNAPSHOT", "10.00", "4", "b"), (6.0, "S", "SNAPSHOT", "10.03", "1", "e"),
        form=delivered, date="2023-07-02",
    )  # fmt: skip
    assert commands_of_row(day, 3) == [("NEW", 0, 0, 1, 999)]
    assert commands_of_row(day, -1) == [
        ("NEW", 0, 0, 2, 1_000), ("NEW", 0, 0, 3, 1_000), ("NEW", 0, 1, 1, 1_002),
        ("CANCEL", 3, 1, 0, 1_002), ("CANCEL", 4, 0, 0, 999), ("REDUCE", 1, 0, 1, 1_000), ("CANCEL", 2, 0, 0, 1_000),
        ("NEW", 0, 0, 4, 1_000), ("NEW", 0, 1, 1, 1_003),
    ]  # fmt: skip
    assert set(day.commands["time_ns"].tolist()) == {5 * 10**9, 6 * 10**9}
    assert day.reference.counts["snapshots"] == 2 and day.reference.date == "2023-07-02"
    alone = imported(tmp_path, (7.0, "B", "SNAPSHOT", "10.00", "2", "a"))
    assert commands_of_row(alone, -1) == [("NEW", 0, 0, 1, 1)] and alone.reference.symbols[0].tick_size == "10"


def session(seed: int, count: int) -> tuple[list[Update], list[tuple[Levels, Levels]]]:
    """(random updates, the levels after each of them in ticks of .01 and lots of 1e-8). Matches are in price-time priority."""
    random = np.random.default_rng(seed)
    orders: dict[str, list[Any]] = {}
    updates: list[Update] = []
    books: list[tuple[Levels, Levels]] = []

    def draw(low: int, high: int) -> int:
        return int(random.integers(low, high + 1))

    def sized(lots: int) -> str:
        return f"{Decimal(lots) / 10**8:f}"

    def update(kind: str, name: str, lots: int) -> None:
        side, ticks, _ = orders[name]
        updates.append((len(updates) / 10, side, kind, f"{Decimal(ticks) / 100:f}", sized(lots), name))

    for number in range(count):
        kind = draw(0, 9) if len(orders) > 4 else 0
        name = list(orders)[draw(0, len(orders) - 1)] if orders else ""
        if kind <= 3:
            name, side = f"id-{number}", "BS"[draw(0, 1)]
            orders[name] = [side, draw(9_950, 9_990) if side == "B" else draw(10_010, 10_050), draw(1, 10**9)]
            update("ADD", name, orders[name][2])
        elif kind <= 5:
            side = orders[name][0]
            queue = [one for one, row in orders.items() if row[0] == side]
            name = min(queue, key=lambda one: -orders[one][1] if orders[one][0] == "B" else orders[one][1])
            lots = draw(1, orders[name][2])
            update("MATCH", name, lots)
            orders[name][2] -= lots
        elif kind == 6:
            lots = draw(1, orders[name][2])
            update("SUB", name, lots)
            orders[name][2] -= lots
        elif kind == 7:
            update("DELETE", name, orders[name][2])
            orders[name][2] = 0
        else:
            row = orders.pop(name) if kind == 9 else orders[name]
            row[2] = draw(row[2] + 1, 2 * 10**9) if kind == 9 else draw(1, row[2])
            orders[name] = row  # more joins the queue at its end
            update("SET", name, row[2])
        if not orders[name][2]:
            del orders[name]
        levels: tuple[Levels, Levels] = ({}, {})
        for side, ticks, lots in orders.values():
            level = levels["BS".index(side)]
            level[ticks] = level.get(ticks, 0) + lots
        books.append(levels)
    return updates, books


@pytest.mark.parametrize("form", [documented, delivered])
def test_the_books_of_a_session(form: Any, tmp_path: Path) -> None:
    updates, books = session(5, 500)
    day = imported(tmp_path, *updates, form=form)
    assert (day.reference.symbols[0].tick_size, day.reference.symbols[0].lot_size) == ("0.01", "0.00000001")
    rows = list(range(0, 500, 3))
    for row, market in zip(rows, replay_to_rows(day, rows), strict=True):
        assert top(market, 1_000) == books[row], f"row {row}"
    counts = day.reference.counts
    wrong = ("missing_lots", "executions_other_head", "executions_unfilled", "executions_behind_best", "orders_unknown")
    assert counts["executions"] > 50 and counts["modifies"] > 50 and not any(counts[name] for name in wrong)


def level_session(seed: int, count: int) -> tuple[list[Update], list[tuple[Levels, Levels]]]:
    """(random updates of levels, one or two at a time, the levels after each of them)."""
    random = np.random.default_rng(seed)
    book: tuple[Levels, Levels] = ({}, {})
    updates: list[Update] = []
    books: list[tuple[Levels, Levels]] = []
    for number in range(count):
        side, kind = int(random.integers(2)), int(random.integers(6))
        levels = book[side]
        ticks = int(random.integers(9_980, 9_990) if side == 0 else random.integers(10_010, 10_020))
        if kind >= 4 and levels:
            ticks = max(levels) if side == 0 else min(levels)  # trades take the best
        now, lots = levels.get(ticks, 0), int(random.integers(1, 10**9))
        if kind == 3 or (kind in (2, 4) and not now):
            kind = 0
        if kind >= 4 and now:
            lots = int(random.integers(1, now + 1))
        name, after = [("SET", lots), ("ADD", now + lots), ("DELETE", 0), ("SET", lots), ("MATCH", now - lots), ("SUB", now - lots)][kind if now or kind < 2 else 0]  # fmt: skip
        levels[ticks] = after
        if not after:
            del levels[ticks]
        updates.append(((number // 2 + 1) / 10, "BS"[side], name, f"{Decimal(ticks) / 100:f}", f"{Decimal(lots) / 10**8:f}", ""))  # fmt: skip
        books.append((dict(book[0]), dict(book[1])))
    return updates, books


@pytest.mark.parametrize("form", [documented, delivered])
def test_the_books_of_a_file_of_levels(form: Any, tmp_path: Path) -> None:
    updates, books = level_session(9, 400)
    day = imported(tmp_path, *updates, form=form)
    rows = list(range(1, 400, 2))
    for row, market in zip(rows, replay_to_rows(day, rows), strict=True):
        assert top(market, 1_000) == books[row], f"row {row}"
    counts = day.reference.counts
    assert (
        counts["trades"] > 40 and counts["missing_lots"] == counts["levels_crossed"] == counts["trades_unfilled"] == 0
    )


def test_one_update_of_a_level(tmp_path: Path) -> None:
    day = imported(
        tmp_path, (60.0, "B", "SNAPSHOT", "10.00", "2.5", ""), (60.0, "S", "SNAPSHOT", "10.02", "1", ""), (61.0, "S", "MATCH", "10.02", "0.5", ""),
        (62.0, "B", "SET", "10.02", "1", ""), (63.0, "B", "SNAPSHOT", "10.01", "1", ""), (64.0, "B", "SUB", "10.01", "9", ""), **STEPS,
    )  # fmt: skip
    assert {row: commands_of_row(day, row) for row in sorted(set(day.rows.tolist()))} == {
        -1: [
            ("NEW", 0, 0, 5, 1_000), ("NEW", 0, 1, 2, 1_002),
            ("CANCEL", 1, 0, 0, 1_000), ("CANCEL", 5, 0, 0, 1_002), ("NEW", 0, 0, 2, 1_001),
        ],
        2: [("NEW", 0, 0, 1, 1_002)],
        3: [("CANCEL", 2, 1, 0, 1_002), ("NEW", 0, 0, 2, 1_002)],
        5: [("CANCEL", 8, 0, 0, 1_001)],
    }  # fmt: skip
    counts = day.reference.counts
    assert (counts["levels_crossed"], counts["sizes_beyond_open"], counts["snapshots"]) == (1, 1, 2)
    for price, order, error in (
        ("0", "", "row 2: expected a price above 0"),
        ("10.00", "a", "row 2: expected no order_id"),
    ):
        with pytest.raises(CoinApiError, match=error):
            imported(tmp_path, (60.0, "B", "SET", "10.00", "1", ""), (61.0, "B", "SET", price, "1", order), **STEPS)


def test_the_file_says_its_format_name_and_date(tmp_path: Path) -> None:
    folder = tmp_path / "T-LIMITBOOK_FULL" / "D-20230701" / "E-COINBASE"
    folder.mkdir(parents=True)
    path = folder / f"{NAME}.gz"
    path.write_bytes(gzip.compress(delivered(BID, ASK).encode()))
    assert detect_format(path).name == "CoinAPI"
    reference, verdict = import_file(path, tmp_path / "day.parquet")
    assert (reference.date, reference.symbols[0].name, verdict.commands) == ("2023-07-01", "COINBASE_SPOT_BTC_USD", 2)
    with pytest.raises(SourceError, match="got --time-zone"):
        import_day(path, Options(time_zone="Europe/Berlin"))


@pytest.mark.parametrize(
    ("update", "error"),
    [
        ((61.0, "B", "ADD", "10.00", "1", ""), "row 2: expected an order_id, as in the rows above"),
        ((61.0, "B", "SUB", "10.00", "1", ""), "row 2: expected an order_id, as in the rows above"),
        ((61.0, "B", "GONE", "10.00", "1", "b"), "row 2: update_type: expected one of SNAPSHOT, ADD, .*, got GONE"),
        ((61.0, "B", "ADD", "ten", "1", "b"), "row 2: entry_px: expected a decimal with up to 12 places, got 'ten'"),
        ((61.0, "B", "ADD", "-1", "1", "b"), "row 2: entry_px: expected a decimal not below 0"),
        ((61.0, "B", "ADD", "0", "1", "b"), "row 2: expected a price above 0"),
        (
            (61.0, "B", "ADD", "10.005", "1", "b"),
            "row 2: expected a price at a multiple of the tick 0.01, got .*10.005",
        ),
        ((61.0, "B", "ADD", "10.00", "0", "b"), "row 2: expected a quantity above 0"),
        ((61.0, "S", "ADD", "10.00", "1", "a-1"), "row 2: expected the side that the order has"),
        ((61.0, "B", "ADD", "1000000000", "1000000000", "b"), "row 2: expected a price above 0, and at most 2.53"),
        ((61.0, "B", "ADD", "10.00", "1,more", "b"), "row 2: expected 7 columns, got 8"),
    ],
)
def test_broken_rows(update: Update, error: str, tmp_path: Path) -> None:
    with pytest.raises(CoinApiError, match=error):
        imported(tmp_path, BID, update, **STEPS)


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("00:01:00.0000000Z,", "24:01:00Z,", "row 1: expected hours, minutes and seconds"),
        ("2023-07-01T00:01:00.0", "2023-02-31T00:01:00.0", "row 1: expected a date"),
        (
            "\n2023-07-01T00:01:01",
            "\n9023-07-01T00:01:01",
            "row 2: expected a time of 2023-07-01, the day of the first update",
        ),
        (",1,ADD", ",2,ADD", "row 1: is_buy: expected one of 1, 0, true"),
    ],
)
def test_broken_times_and_sides(old: str, new: str, error: str, tmp_path: Path) -> None:
    (tmp_path / NAME).write_text(documented(BID, ASK).replace(old, new, 1))
    with pytest.raises(CoinApiError, match=error):
        import_day(tmp_path / NAME)


def test_empty_and_truncated_files(tmp_path: Path) -> None:
    for options in ({}, STEPS):
        with pytest.raises(CoinApiError, match=r"expected (rows with prices and sizes above 0|at least one update)"):
            imported(tmp_path, **options)
    (tmp_path / NAME).write_text(documented(BID, ASK)[:-30])
    with pytest.raises(CoinApiError, match="row 2: expected 7 columns, got"):
        import_day(tmp_path / NAME)


@pytest.mark.parametrize("order", ["", "a-9"])
def test_the_first_updates_may_be_of_the_day_before(order: str, tmp_path: Path) -> None:
    """Times of day do not say so; the whole day was raised to 23:59:59."""
    late = [(86_399.9, "B", "ADD", "9.99", "1", order), (86_399.95, "B", "ADD", "9.98", "1", order and "a-8")]
    rest = [(60.0, "B", "ADD", "10.00", "2.5", order and "a-1"), (61.0, "S", "ADD", "10.02", "1.5", order and "a-2")]
    day = imported(tmp_path, *late, *rest, form=delivered)
    assert (
        day.commands["time_ns"].tolist() == [0, 0, 60 * 10**9, 61 * 10**9] and not day.reference.counts["times_raised"]
    )
    alone = imported(tmp_path, *late, form=delivered)
    assert alone.commands["time_ns"].tolist() == [86_399_900_000_000, 86_399_950_000_000]


@pytest.mark.parametrize("order", ["", "a-9"])
def test_a_time_is_raised_by_a_minute_at_most(order: str, tmp_path: Path) -> None:
    rows = [(*BID[:5], order), (0.0, "B", "ADD", "9.99", "1", order and "a-8")]
    assert imported(tmp_path, *rows).reference.counts["times_raised"] == 1
    with pytest.raises(
        CoinApiError, match=r"row 2: expected a time at most a minute before .* it is 60\.500 s before it"
    ):
        imported(tmp_path, (60.5, *rows[0][1:]), rows[1])


def test_orders_held_behind_others_enter_also_without_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three asks cross a bid until it is gone, with the last row: then the block had no room for them, and they were lost."""
    empty = stream_book.empty_book
    monkeypatch.setattr(stream_book, "empty_book", lambda symbols: empty(symbols, orders=64, levels=16, block=8))
    asks: list[Update] = [(61.0 + number, "S", "ADD", f"9.9{number}", "1", f"s-{number}") for number in range(3)]
    day = imported(tmp_path, BID, *asks, (70.0, "B", "DELETE", "10.00", "2.5", "a-1"), **STEPS)
    assert [command[0] for command in commands_of_row(day, 4)] == ["CANCEL", "NEW", "NEW", "NEW"]
