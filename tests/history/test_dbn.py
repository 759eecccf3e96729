"""Databento market-by-order: its rules, broken files, and the sample against a reference reading."""

import datetime
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from serl.exchange.records import TimeInForce
from serl.extras import MissingPackageError
from serl.history import dbn as reader
from serl.history import stream_book
from serl.history.day import Day
from serl.history.dbn import (
    ACTION,
    ADD,
    BID,
    CANCEL,
    FLAGS,
    LAST,
    MODIFY,
    NO_PRICE,
    ORDER,
    PRICE,
    SIDE,
    SIZE,
    SNAPSHOT,
    read_records,
)
from serl.history.errors import DbnError, SourceError
from serl.history.importing import import_day
from serl.history.source import Options
from tests.history.sample import commands_of_row
from tests.history.samples import Levels, best, replay_to_rows, sample, top

dbn = pytest.importorskip("databento_dbn", reason="databento-dbn is not installed (extra history)")
MIDNIGHT_NS = 1_703_462_400 * 10**9
QUARTERS = Options(tick_size="0.25")
Record = tuple[str, str, int, int, int]
"""action, side, order_id, price in ticks of 0.25, size."""


def file_bytes(*records: Record, schema: Any = dbn.Schema.MBO, flags: dict[int, int] = {}, **more: Any) -> bytes:  # noqa: B006
    """Records a second apart, each the last of its event."""
    start, end = datetime.date(2023, 12, 25), datetime.date(2023, 12, 26)
    spans = [SimpleNamespace(start_date=start, end_date=end, symbol=symbol) for symbol in more.get("named", ["7"])]
    metadata = dbn.Metadata(
        "GLBX.MDP3", MIDNIGHT_NS, dbn.SType.RAW_SYMBOL, dbn.SType.INSTRUMENT_ID, schema, symbols=["ESH4"],
        mappings=[SimpleNamespace(raw_symbol="ESH4", intervals=spans)], version=3,
    )  # fmt: skip
    data = bytes(metadata)
    for row, (action, side, order, ticks, size) in enumerate(records):
        time_ns = MIDNIGHT_NS + more.get("times", {}).get(row, row) * 10**9
        data += bytes(dbn.MBOMsg(
            more.get("publishers", {}).get(row, 1), more.get("instruments", {}).get(row, 7), time_ns, order, ticks * 250_000_000, size, dbn.Action(action), dbn.Side(side), time_ns,
            flags=flags.get(row, LAST),
        ))  # fmt: skip
    return data


def imported(folder: Path, *records: Record, options: Options = QUARTERS, **more: Any) -> Day:
    (folder / "a.dbn").write_bytes(file_bytes(*records, **more))
    return import_day(folder / "a.dbn", options)


FIRST: Record = ("A", "B", 5, 100, 10)


@pytest.mark.parametrize(
    ("records", "commands", "counts"),
    [
        ([("A", "A", 6, 101, 3)], [[("NEW", 0, 1, 3, 101)]], {"new_orders": 2}),
        ([("C", "B", 5, 100, 10)], [[("CANCEL", 1, 0, 0, 100)]], {"cancels": 1}),
        ([("C", "B", 5, 100, 4)], [[("REDUCE", 1, 0, 4, 100)]], {"cancels": 1}),
        ([("C", "B", 9, 100, 4)], [[]], {"cancels_unknown": 1}),
        ([("M", "B", 5, 100, 4)], [[("REDUCE", 1, 0, 6, 100)]], {"modifies": 1}),
        ([("M", "B", 5, 100, 10)], [[]], {"modifies": 1}),
        ([("M", "B", 5, 100, 12)], [[("CANCEL", 1, 0, 0, 100), ("NEW", 0, 0, 12, 100)]], {"modifies": 1}),
        ([("M", "B", 5, 99, 10)], [[("CANCEL", 1, 0, 0, 100), ("NEW", 0, 0, 10, 99)]], {"modifies": 1}),
        ([("M", "B", 9, 99, 1)], [[("NEW", 0, 0, 1, 99)]], {"modifies_unknown": 1}),
        (
            [("T", "A", 0, 100, 4), ("F", "B", 5, 100, 4), ("M", "B", 5, 100, 6)],
            [[], [("NEW", 0, 1, 4, 100)], []], {"executions": 1, "executions_other_head": 0},
        ),
        ([("F", "B", 5, 100, 10), ("C", "B", 5, 100, 10)], [[("NEW", 0, 1, 10, 100)], []], {"executions": 1}),
        (
            [("F", "B", 5, 100, 13), ("M", "B", 5, 100, 10)],
            [[("NEW", 0, 1, 10, 100), ("PRINT", 0, 0, 3, 100)], [("NEW", 0, 0, 10, 100)]], {"fills_beyond_shown": 1},
        ),
        (
            [("F", "B", 5, 101, 4), ("C", "B", 5, 100, 4)],
            [[("PRINT", 0, 0, 4, 101)], [("REDUCE", 1, 0, 4, 100)]], {"fills_other_price": 1},
        ),
        ([("F", "A", 9, 101, 4)], [[("PRINT", 0, 1, 4, 101)]], {"fills_unknown": 1}),
        (
            [
                ("A", "A", 6, 99, 4), ("T", "N", 0, 100, 4), ("F", "N", 5, 100, 4), ("F", "N", 6, 100, 4), ("C", "B", 5, 100, 4),
                ("C", "A", 6, 99, 4),
            ],
            [[], [("PRINT", 0, 0, 4, 100)], [], [], [("REDUCE", 1, 0, 4, 100)], []], {"orders_held": 1, "auction_fills": 2},
        ),
        ([("A", "A", 6, 99, 4), ("C", "B", 5, 100, 10)], [[], [("CANCEL", 1, 0, 0, 100), ("NEW", 0, 1, 4, 99)]], {"orders_held": 1}),
        ([("R", "N", 0, 0, 0), ("A", "B", 5, 90, 1)], [[("CANCEL", 1, 0, 0, 100)], [("NEW", 0, 0, 1, 90)]], {"clears": 1}),
    ],
    ids=lambda value: value[0][0] if isinstance(value, list) and isinstance(value[0], tuple) else "",
)  # fmt: skip
def test_records(records: list[Record], commands: list[Any], counts: dict[str, int], tmp_path: Path) -> None:
    day = imported(tmp_path, FIRST, *records)
    assert [commands_of_row(day, row) for row in range(1, 1 + len(records))] == commands
    assert counts.items() <= day.reference.counts.items()


FILL_4, TRADE_4 = ("F", "B", 5, 100, 4), ("NEW", 0, 1, 4, 100)


@pytest.mark.parametrize(
    ("records", "commands", "remaining"),
    [
        ([FILL_4, ("C", "B", 5, 100, 4)], [[TRADE_4], []], 6),
        ([FILL_4, ("M", "B", 5, 100, 6)], [[TRADE_4], []], 6),
        ([FILL_4, ("C", "B", 5, 100, 4), ("C", "B", 5, 100, 1)], [[TRADE_4], [], [("REDUCE", 1, 0, 1, 100)]], 5),
        ([FILL_4, ("M", "B", 5, 100, 6), ("C", "B", 5, 100, 1)], [[TRADE_4], [], [("REDUCE", 1, 0, 1, 100)]], 5),
        ([FILL_4, ("C", "B", 5, 100, 6)], [[TRADE_4], [("REDUCE", 1, 0, 2, 100)]], 4),
        ([FILL_4, ("M", "B", 5, 100, 3)], [[TRADE_4], [("REDUCE", 1, 0, 3, 100)]], 3),
        ([FILL_4, ("C", "B", 5, 100, 10)], [[TRADE_4], [("CANCEL", 1, 0, 0, 100)]], 0),
        ([FILL_4, ("M", "B", 5, 99, 6)], [[TRADE_4], [("CANCEL", 1, 0, 0, 100), ("NEW", 0, 0, 6, 99)]], 6),
        ([FILL_4, ("M", "B", 5, 100, 10)], [[TRADE_4], [("CANCEL", 1, 0, 0, 100), ("NEW", 0, 0, 10, 100)]], 10),
        ([FILL_4, ("C", "B", 5, 100, 2), ("C", "B", 5, 100, 2)], [[TRADE_4], [], []], 6),
        ([FILL_4, FILL_4, ("C", "B", 5, 100, 8)], [[TRADE_4], [TRADE_4], []], 2),
        ([FILL_4, FILL_4, ("M", "B", 5, 100, 2)], [[TRADE_4], [TRADE_4], []], 2),
        ([FILL_4, ("C", "B", 5, 100, 4), FILL_4, ("C", "B", 5, 100, 4)], [[TRADE_4], [], [TRADE_4], []], 2),
        ([("F", "B", 5, 100, 10), ("C", "B", 5, 100, 4), ("C", "B", 5, 100, 6)], [[("NEW", 0, 1, 10, 100)], [], []], 0),
        ([("F", "B", 5, 100, 13), ("C", "B", 5, 100, 10)], [[("NEW", 0, 1, 10, 100), ("PRINT", 0, 0, 3, 100)], []], 0),
    ],
)  # fmt: skip
def test_a_fill_is_removed_once(records: list[Record], commands: list[Any], remaining: int, tmp_path: Path) -> None:
    """Only C and M change the source's book; our trade has removed the lots already. In one event or in several."""
    for last in (LAST, 0):
        flags = dict.fromkeys(range(1, len(records)), last)
        day = imported(tmp_path, FIRST, *records, flags=flags)
        assert [commands_of_row(day, row) for row in range(1, 1 + len(records))] == commands
        (market,) = replay_to_rows(day, [len(records)])
        assert sum(top(market, 9)[0].values()) == remaining
        counts = day.reference.counts
        assert counts["cancels_unknown"] == counts["missing_lots"] == counts["executions_unfilled"] == 0


def test_auction_fills_alone_change_nothing(tmp_path: Path) -> None:
    day = imported(tmp_path, FIRST, ("T", "N", 0, 100, 4), ("F", "N", 5, 100, 4), ("M", "B", 5, 100, 6))
    assert [commands_of_row(day, row) for row in (1, 2, 3)] == [
        [("PRINT", 0, 0, 4, 100)],
        [],
        [("REDUCE", 1, 0, 4, 100)],
    ]


def test_a_fill_behind_better_orders_reduces_its_own_order(tmp_path: Path) -> None:
    """An IOC order would fill the better order, whose cancel comes later in the same event."""
    records = (("A", "B", 6, 101, 1), FILL_4, ("C", "B", 6, 101, 1), ("C", "B", 5, 100, 4))
    day = imported(tmp_path, FIRST, *records, flags={2: 0, 3: 0})
    assert [commands_of_row(day, row) for row in (2, 3, 4)] == [
        [("PRINT", 0, 0, 4, 100)], [("CANCEL", 2, 0, 0, 101)], [("REDUCE", 1, 0, 4, 100)]
    ]  # fmt: skip
    assert day.reference.counts["executions_behind_best"] == 1


def test_a_record_without_an_action_can_end_an_event(tmp_path: Path) -> None:
    """A held order enters at the end of the event after which it no longer crosses."""
    records = (("A", "A", 6, 99, 4), ("C", "B", 5, 100, 10), ("N", "N", 0, 0, 0))
    day = imported(tmp_path, FIRST, *records, flags={2: 0})
    assert [commands_of_row(day, row) for row in (1, 2, 3)] == [[], [("CANCEL", 1, 0, 0, 100)], [("NEW", 0, 1, 4, 99)]]


def sweeps(seed: int, events: int) -> tuple[list[Record], dict[int, int]]:
    """(records, flags) of random orders, cancels and sweeps in price-time priority, with every form of fill."""
    random = np.random.default_rng(seed)
    book: list[list[Any]] = []  # side, order_id, ticks, size by time
    records: list[Record] = []
    flags: dict[int, int] = {}

    def draw(low: int, high: int) -> int:
        return int(random.integers(low, high + 1))

    def rest(order_id: int) -> None:
        side = "BA"[draw(0, 1)]
        book.append([side, order_id, 100 - draw(1, 5) if side == "B" else 100 + draw(1, 5), draw(1, 9)])
        records.append(("A", *book[-1]))

    def cancel(order: list[Any]) -> None:
        lots = draw(1, order[3])
        records.append(("C", *order[:3], lots))
        order[3] -= lots

    def sweep() -> None:
        side = "BA"[draw(0, 1)]
        queue = sorted((o for o in book if o[0] == side), key=lambda o: o[2] if side == "A" else -o[2])
        lots, after = draw(1, 20), []
        records.append(("T", "A" if side == "B" else "B", 0, 100, lots))
        for order in queue:
            fills = [min(lots, order[3])]
            if draw(0, 2) == 0 and fills[0] > 1:
                fills = [1, fills[0] - 1]
            for lot in filter(None, fills):
                records.append(("F", *order[:3], lot))
            lots -= sum(fills)
            order[3] -= sum(fills)
            told = draw(0, 2) if order[3] else 0
            if sum(fills):
                after += (
                    [("M", *order)]
                    if told == 2
                    else [("C", *order[:3], lot) for lot in ([sum(fills)] if told else fills)]
                )
        records.extend(after)

    for number in range(1, events):
        if len(book) < 6 or draw(0, 2) == 0:
            rest(number)
        elif draw(0, 2) == 0:
            cancel(book[draw(0, len(book) - 1)])
        else:
            start = len(records)
            sweep()
            flags |= dict.fromkeys(range(start, len(records) - 1), 0)
        book = [order for order in book if order[3]]
    return records, flags


@pytest.mark.parametrize("seed", range(3))
def test_fills_of_every_form_leave_the_book_of_the_reference_reading(seed: int, tmp_path: Path) -> None:
    records, flags = sweeps(seed, 400)
    day = imported(tmp_path, *records, flags=flags)
    rows, books = reference_reading(read_all(tmp_path / "a.dbn"), every=1)
    assert [list(top(market, 10)) for market in replay_to_rows(day, rows)] == books
    counts = day.reference.counts
    wrong = ("missing_lots", "cancels_unknown", "fills_unknown", "executions_other_head", "executions_unfilled")
    assert counts["executions"] > 200 and not any(counts[name] for name in wrong)
    trades = day.commands[day.commands["time_in_force"] == TimeInForce.IOC]
    assert int(trades["qty_lots"].sum()) == sum(size for action, *_, size in records if action == "F")


def test_snapshot_symbols_and_tick(tmp_path: Path) -> None:
    more = {"flags": {0: SNAPSHOT}, "instruments": {1: 8}}
    day = imported(tmp_path, FIRST, ("A", "B", 6, 102, 1), options=Options(), **more)
    assert day.rows.tolist() == [-1, 1] and [s.name for s in day.reference.symbols] == ["ESH4", "8"]
    assert day.reference.symbols[0].tick_size == "0.5", "the largest step of 25.0 and 25.5"
    assert day.commands["price_ticks"].tolist() == [50, 51] and day.reference.date == "2023-12-25"
    one = imported(tmp_path, FIRST, ("A", "B", 6, 102, 1), options=Options(symbols=("ESH4",)), **more)
    assert len(one) == 1 and one.reference.counts["records_left_out"] == 1
    with pytest.raises(DbnError, match="expected ZZ"):
        imported(tmp_path, FIRST, options=Options(symbols=("ESH4", "ZZ")))
    with pytest.raises(SourceError, match="--tick-size"):
        imported(tmp_path, FIRST, options=Options(tick_size="0"))


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (file_bytes(FIRST, ("A", "B", 5, 100, 1)), "record 2: expected an order_id that is not open.*order_id 5"),
        (file_bytes(FIRST, ("A", "N", 6, 100, 1)), "record 2: expected side A or B"),
        (file_bytes(FIRST, ("A", "B", 6, 100, 0)), "record 2: expected a size above 0"),
        (file_bytes(FIRST, ("A", "B", 6, -100, 1)), "record 2: expected a price above 0"),
        (file_bytes(FIRST, ("A", "B", 6, 100, 1), times={0: 9}), "record 2: expected a ts_recv not before"),
        (file_bytes(FIRST)[:-3], "ends within a record"),
        (file_bytes(), "expected an order"),
        (file_bytes(FIRST, schema=dbn.Schema.TRADES), "expected schema mbo .*, got trades"),
        (b"DBN\x01" + b"nonsense" * 40, "ends within a record|cannot be decoded|expected an order"),
    ],
)
def test_broken_files(data: bytes, error: str, tmp_path: Path) -> None:
    (tmp_path / "a.dbn").write_bytes(data)
    with pytest.raises(DbnError, match=error):
        import_day(tmp_path / "a.dbn", Options(tick_size="0.25"))


def test_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "databento_dbn", None)
    with pytest.raises(MissingPackageError, match=r"pip install -e '\.\[history\]'"):
        imported(tmp_path, FIRST)


def read_all(path: Path) -> NDArray[np.int64]:
    return np.concatenate([part for _, part in read_records(path)])


def reference_reading(records: NDArray[np.int64], every: int) -> tuple[list[int], list[list[Levels]]]:
    """(rows, the ten best levels of both sides) at the ends of events in which the book is not crossed, by A, C and M alone."""
    orders: dict[int, tuple[int, int, int]] = {}
    book: tuple[Levels, Levels] = ({}, {})
    rows: list[int] = []
    books: list[list[Levels]] = []

    def change(side: int, ticks: int, lots: int) -> None:
        book[side][ticks] = book[side].get(ticks, 0) + lots
        if not book[side][ticks]:
            del book[side][ticks]

    for row, record in enumerate(records.tolist()):
        name, action = record[ORDER], record[ACTION]
        if name in orders and action in (ADD, MODIFY, CANCEL):
            side, ticks, lots = orders.pop(name)
            gone = min(lots, record[SIZE]) if action == CANCEL else lots
            change(side, ticks, -gone)
            if gone < lots:
                orders[name] = side, ticks, lots - gone
        if action in (ADD, MODIFY):
            orders[name] = (0 if record[SIDE] == BID else 1, record[PRICE] // 250_000_000, record[SIZE])
            change(*orders[name])
        if record[FLAGS] & LAST and row % every == 0 and max(book[0], default=0) < min(book[1], default=NO_PRICE):
            rows.append(row)
            books.append([best(book[side], side, 10) for side in range(2)])
    return rows, books


@pytest.mark.long
def test_the_sample_has_the_book_of_every_event() -> None:
    """Ten levels after every tenth event in which the source's book is not crossed (a call phase)."""
    path = sample("databento/esh4-glbx-mdp3-20231225.mbo.dbn.zst")
    rows, books = reference_reading(read_all(path), every=10)
    assert len(rows) > 4_000
    day = import_day(path)
    assert day.reference.symbols[0].tick_size == "0.25"
    assert [list(top(market, 10)) for market in replay_to_rows(day, rows)] == books


def test_many_instruments(tmp_path: Path) -> None:
    """Above 1,024 they were written beyond the arrays."""
    count = 1_500
    more = {"instruments": {row: 10 + row for row in range(count)}, "times": dict.fromkeys(range(count), 1)}
    day = imported(tmp_path, *((("A", "B", 1 + row, 100, 1)) for row in range(count)), **more)
    assert day.commands["symbol"].tolist() == list(range(count)) and len(day) == day.reference.counts["new_orders"]


def test_too_many_instruments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("serl.history.dbn.SYMBOLS_MAX", 1)
    with pytest.raises(DbnError, match="expected at most 1 instruments, got more; choose some with --symbols"):
        imported(tmp_path, FIRST, ("A", "B", 6, 100, 1), instruments={1: 8})
    assert (
        len(imported(tmp_path, FIRST, ("A", "B", 6, 100, 1), instruments={1: 8}, options=Options(symbols=("8",)))) == 1
    )


def test_orders_of_one_venue_and_of_whole_books(tmp_path: Path) -> None:
    with pytest.raises(DbnError, match="expected the orders of one venue, got those of publishers 1 and 2"):
        imported(tmp_path, FIRST, ("A", "B", 6, 100, 1), publishers={1: 2})
    with pytest.raises(DbnError, match="record 2: expected orders of a whole book, whose flags lack 64"):
        imported(tmp_path, FIRST, ("A", "B", 6, 100, 1), flags={1: LAST | 64})


def test_instruments_of_one_name_are_two_symbols(tmp_path: Path) -> None:
    """As of a continuous contract that rolls: no market can have two symbols of one name."""
    records, named = (FIRST, ("A", "A", 6, 104, 3)), ["7", "8"]
    for symbols in ((), ("ESH4",)):
        day = imported(tmp_path, *records, options=Options(symbols=symbols), instruments={1: 8}, named=named)
        assert [symbol.name for symbol in day.reference.symbols] == ["ESH4", "ESH4_8"]
        assert day.commands["symbol"].tolist() == [0, 1]
    later = imported(tmp_path, records[1], instruments={0: 8}, named=named)
    assert [symbol.name for symbol in later.reference.symbols] == ["ESH4"]


def test_ids_are_of_their_instrument(tmp_path: Path) -> None:
    records = (FIRST, ("A", "A", 5, 101, 3), ("C", "A", 5, 101, 3), ("C", "A", 5, 101, 3), ("C", "B", 5, 100, 4))
    day = imported(tmp_path, *records, instruments={1: 8, 2: 8, 3: 8})
    assert [commands_of_row(day, row) for row in range(1, 5)] == [
        [("NEW", 0, 1, 3, 101)], [("CANCEL", 2, 1, 0, 101)], [], [("REDUCE", 1, 0, 4, 100)]
    ]  # fmt: skip
    assert day.reference.counts["cancels_unknown"] == 1


def test_the_tick_is_that_of_the_orders_of_the_selected_symbols(tmp_path: Path) -> None:
    """Not of trades between ticks, which are rounded, nor of an instrument that is not imported."""
    records = (FIRST, ("A", "A", 6, 102, 5), ("T", "N", 0, 101, 4), ("F", "B", 5, 103, 2), ("A", "B", 7, 1, 1))
    day = imported(tmp_path, *records, instruments={4: 8}, options=Options(symbols=("ESH4",)))
    assert day.reference.symbols[0].tick_size == "0.5"
    assert [commands_of_row(day, row) for row in (2, 3)] == [[("PRINT", 0, 0, 4, 50)], [("PRINT", 0, 0, 2, 52)]]
    assert day.reference.counts["prints_rounded"] == 2 and day.reference.counts["fills_other_price"] == 1
    given = imported(tmp_path, *records[:4], options=Options(tick_size="0.5"))
    assert given.commands.tobytes() == day.commands.tobytes()


def test_held_orders_enter_at_the_end_of_an_event_also_without_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Room was made for them, and then nobody let them in: they waited for the next event, behind the last one for ever."""
    empty = stream_book.empty_book
    monkeypatch.setattr(stream_book, "empty_book", lambda symbols: empty(symbols, orders=256, levels=16, block=64))
    asks: list[Record] = [("A", "A", 6 + number, 90 - number, 1) for number in range(30)]
    flags = dict.fromkeys(range(1, 31), 0)
    day = imported(tmp_path, FIRST, *asks, ("C", "B", 5, 100, 10), flags=flags)
    assert len(commands_of_row(day, 31)) == 31 and day.reference.counts["orders_held"] == 30


def test_the_names_of_many_symbols(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of 40,000 are longer than a block: the symbols had numbers for names, and --symbols found none."""
    monkeypatch.setattr(reader, "BLOCK_BYTES", 100)
    day = imported(tmp_path, FIRST, options=Options(symbols=("ESH4",), tick_size="0.25"))
    assert [symbol.name for symbol in day.reference.symbols] == ["ESH4"] and len(day) == 1


def test_a_clear_costs_as_much_as_its_symbol_has_orders(tmp_path: Path) -> None:
    """A snapshot of all instruments clears each of them first: each clear looked at all orders of the file, and 20,000 took a second or more."""
    took_s = []
    for action, count in (("R", 1), ("N", 20_000), ("R", 20_000)):  # to compile; nothing; clears
        records: list[Record] = [FIRST, *[(action, "N", 0, 0, 0)] * count]
        rows = range(1, len(records))
        (tmp_path / "a.dbn").write_bytes(
            file_bytes(*records, times=dict.fromkeys(rows, 1), instruments=dict.fromkeys(rows, 8))
        )
        began_s = time.process_time()
        import_day(tmp_path / "a.dbn", QUARTERS)
        took_s.append(time.process_time() - began_s)
    assert took_s[2] < 4 * took_s[1], took_s
