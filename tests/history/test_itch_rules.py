"""The commands of each ITCH message, by the table of docs/history.md."""

from pathlib import Path

import numpy as np
import pytest

from serl.history import stream_book
from serl.history.errors import ItchError, SourceError
from serl.history.itch import reader
from serl.history.itch.messages import LAYOUTS, decode, encode
from tests.history.itch_sample import Fields, add, file_bytes, import_itch, imported, order_message, state
from tests.history.sample import commands_of_row

LENGTHS: dict[str, int] = dict(zip("SRHYLVWKJhAFECXDUPQBINO", (
    12, 39, 25, 20, 26, 35, 12, 28, 35, 21, 36, 40, 31, 36, 23, 19, 35, 44, 40, 19, 50, 20, 48,
), strict=True))  # fmt: skip
"""From the specification."""


def test_every_type_has_the_length_of_the_specification() -> None:
    assert {kind: layout.length for kind, layout in LAYOUTS.items()} == LENGTHS


@pytest.mark.parametrize("kind", LENGTHS)
def test_decode_reverses_encode(kind: str) -> None:
    values: Fields = {"type": kind}
    for number, (name, (_, code)) in enumerate(LAYOUTS[kind].fields.items(), 1):
        values[name] = "ABCDEFGH"[: int(code[:-1] or 1)] if code[-1] in "sc" else number
    message = encode(values)
    assert int.from_bytes(message[:2], "big") == len(message) - 2 == LENGTHS[kind]
    assert decode(message[2:]) == values


BID = add(7, "B", 100, 10_000)
NEW_BID = [("NEW", 0, 0, 100, 100)]


@pytest.mark.parametrize(
    ("message", "commands", "counts"),
    [
        (add(8, "S", 30, 20_000), [("NEW", 0, 1, 30, 200)], {"new_orders": 2}),
        (add(8, "S", 30, 20_000, type="F"), [("NEW", 0, 1, 30, 200)], {"new_orders": 2}),
        (add(8, "B", 30, 10_050), [("NEW", 0, 0, 30, 100)], {"prices_rounded": 1}),
        (add(8, "S", 30, 10_050), [("NEW", 0, 1, 30, 101)], {"prices_rounded": 1}),
        (order_message("E", 7, 40, match=1), [("NEW", 0, 1, 40, 100)], {"executions": 1, "executions_other_head": 0}),
        (order_message("E", 7, 100, match=1), [("NEW", 0, 1, 100, 100)], {"executions": 1}),
        (
            order_message("C", 7, 40, printable="Y", price=9_950),
            [("REDUCE", 1, 0, 40, 100), ("PRINT", 0, 0, 40, 100)],
            {"executions_other_price": 1, "prints_rounded": 1},
        ),
        (
            order_message("C", 7, 100, printable="N", price=9_900),
            [("CANCEL", 1, 0, 0, 100)],
            {"executions_unprinted": 1, "prints": 0},
        ),
        (order_message("X", 7, 40), [("REDUCE", 1, 0, 40, 100)], {"cancels": 1}),
        (order_message("X", 7, 100), [("CANCEL", 1, 0, 0, 100)], {"cancels": 1}),
        (order_message("D", 7), [("CANCEL", 1, 0, 0, 100)], {"cancels": 1}),
        (
            order_message("U", 7, 60, new_order=9, price=10_100),
            [("CANCEL", 1, 0, 0, 100), ("NEW", 0, 0, 60, 101)],
            {"replaces": 1, "new_orders": 2},
        ),
        ({**add(0, "S", 5, 10_049), "type": "P"}, [("PRINT", 0, 1, 5, 100)], {"prints": 1, "prints_rounded": 1}),
        ({"type": "Q", "shares": 5, "stock": "AAA", "price": 10_150}, [("PRINT", 0, 0, 5, 102)], {"prints": 1}),
        ({"type": "Q", "shares": 0, "stock": "AAA", "price": 0}, [], {"crosses_empty": 1, "prints": 0}),
        ({"type": "B", "match": 1}, [], {"broken_trades": 1}),
        ({"type": "I", "stock": "AAA"}, [], {"messages_without_effect": 1}),
        (state("T"), [], {"resumes": 0, "halts": 0}),
        (state("H"), [("HALT", 0, 0, 0, 0)], {"halts": 1}),
        (state("P"), [("HALT", 0, 0, 0, 0)], {"halts": 1}),
        (state("Q"), [("HALT", 0, 0, 0, 0)], {"halts": 1}),
        ({"type": "h", "stock": "AAA", "market": "Q", "action": "H"}, [("HALT", 0, 0, 0, 0)], {"halts": 1}),
        ({"type": "N", "stock": "AAA", "interest": "B"}, [], {"messages_without_effect": 1}),
    ],
    ids=lambda value: value["type"] if isinstance(value, dict) and "type" in value else "",
)
def test_one_message(
    message: Fields, commands: list[tuple[str, int, int, int, int]], counts: dict[str, int], tmp_path: Path
) -> None:
    day = imported(tmp_path, BID, message)
    assert commands_of_row(day, 0) == NEW_BID
    assert commands_of_row(day, 1) == commands
    assert counts.items() <= day.reference.counts.items()
    assert day.commands["time_ns"].tolist() == [(34_200 + row) * 10**9 for row in day.rows]
    assert day.reference.source_rows == 2 and day.reference.first_time_ns == 34_200 * 10**9


def test_prints_are_rounded_half_to_even(tmp_path: Path) -> None:
    prints = [{**add(0, "B", 5, price), "type": "P"} for price in (10_050, 10_150, 10_149, 10_151, 1)]
    assert imported(tmp_path, *prints).commands["price_ticks"].tolist() == [100, 102, 101, 102, 1]


def test_an_execution_out_of_priority(tmp_path: Path) -> None:
    """The head trades instead; when history deletes that order, the executed order's lots are removed."""
    day = imported(
        tmp_path, BID, add(8, "B", 50, 10_000), order_message("E", 8, 50), order_message("D", 7), add(9, "B", 1, 10_000)
    )
    assert day.reference.counts["executions_other_head"] == 1
    assert commands_of_row(day, 3) == [("CANCEL", 1, 0, 0, 100), ("CANCEL", 2, 0, 0, 100)]
    assert day.reference.counts["missing_lots"] == 0


def test_orders_held_in_a_halt_enter_when_it_ends(tmp_path: Path) -> None:
    day = imported(
        tmp_path, BID, state("H"), add(8, "B", 10, 10_000), add(9, "S", 20, 10_100), add(10, "B", 30, 10_000), order_message("D", 8),
        order_message("X", 9, 5), order_message("X", 7, 60), order_message("E", 7, 10), state("Q"), state("T"),
    )  # fmt: skip
    assert [commands_of_row(day, row) for row in range(1, 11)] == [
        [("HALT", 0, 0, 0, 0)], [], [], [], [], [], [("REDUCE", 1, 0, 60, 100)],
        [("REDUCE", 1, 0, 10, 100), ("PRINT", 0, 0, 10, 100)], [],
        [("RESUME", 0, 0, 0, 0), ("NEW", 0, 1, 15, 101), ("NEW", 0, 0, 30, 100)],
    ]  # fmt: skip
    assert day.reference.counts["executions_halted"] == 1


def test_both_kinds_of_halt_must_end(tmp_path: Path) -> None:
    operational = {"type": "h", "stock": "AAA", "market": "Q"}
    day = imported(
        tmp_path, BID, state("H"), {**operational, "action": "H"}, state("T"), {**operational, "action": "T"}
    )
    assert day.rows[1:].tolist() == [1, 4]


def test_symbols_are_selected(tmp_path: Path) -> None:
    other = {"locate": 2, "stock": "BBB"}
    messages = [
        BID,
        {**add(8, "B", 1, 5_000), **other},
        {**order_message("D", 8), "locate": 2},
        {**add(9, "B", 2, 5_000), **other},
    ]
    both = imported(tmp_path, *messages)
    assert [symbol.name for symbol in both.reference.symbols] == ["AAA", "BBB"]
    assert both.commands["symbol"].tolist() == [0, 1, 1, 1]
    one = imported(tmp_path, *messages, symbols=("BBB",))
    assert [symbol.name for symbol in one.reference.symbols] == ["BBB"]
    assert one.commands["symbol"].tolist() == [0, 0, 0] and one.rows.tolist() == [1, 2, 3]
    assert one.reference.counts["messages_left_out"] == 1
    with pytest.raises(SourceError, match="expected symbols of this file \\(AAA, BBB\\), got CCC"):
        imported(tmp_path, *messages, symbols=("BBB", "CCC"))


def test_smaller_ticks_are_exact(tmp_path: Path) -> None:
    day = imported(tmp_path, add(1, "B", 5, 12_345), tick_size="0.0001")
    assert day.commands["price_ticks"][0] == 12_345 and day.reference.symbols[0].tick_size == "0.0001"
    assert day.reference.counts["prices_rounded"] == 0
    for bad in ("0.00005", "x", "-1"):
        with pytest.raises(SourceError, match="--tick-size"):
            imported(tmp_path, BID, tick_size=bad)
    with pytest.raises(SourceError, match="got --lot-size"):
        imported(tmp_path, BID, lot_size="10")


def test_date_from_the_name(tmp_path: Path) -> None:
    for name, date in (("01302019.NASDAQ_ITCH50", "2019-01-30"), ("S020717-v50.txt", "2017-02-07"), ("x.itch", "")):
        (tmp_path / name).write_bytes(file_bytes([BID]))
        assert import_itch(tmp_path / name).reference.date == date
        assert import_itch(tmp_path / name, date="2020-01-02").reference.date == "2020-01-02"


def broken(*messages: Fields, at: int = 1) -> bytes:
    """A file of a valid first message and these."""
    return file_bytes([BID, *messages])


LATER = 34_300 * 10**9


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (
            file_bytes([BID]) + b"\x00\x13D\x00",
            r"byte 38: expected a message D of 21 bytes, got the end of the file after 4",
        ),
        (file_bytes([BID]) + b"\x00", "byte 38: expected a message, got the end of the file after 1"),
        (file_bytes([BID]) + b"\x00\x05Z1234", "byte 38: expected a message type of ITCH 5.0 .*got 'Z'"),
        (file_bytes([BID]) + b"\x00\x14D" + bytes(30), "byte 38: expected a message D of 19 bytes, got length 20"),
        (broken(order_message("D", 8)), "byte 38: message D .*expected an open order"),
        (broken(order_message("D", 7), order_message("E", 7, 1)), "byte 59: message E .*expected an open order"),
        (broken(add(7, "B", 1, 1)), "byte 38: message A .*expected an order reference above 0 that is not open yet"),
        (
            broken(order_message("U", 7, 1, new_order=7, price=1)),
            "byte 38: message U .*expected an order reference above 0 that is not open yet",
        ),
        (broken(add(8, "B", 0, 1)), "byte 38: .*shares above 0"),
        (broken({"type": "X", "order": 7}), "byte 38: .*shares above 0"),
        (broken(order_message("U", 7, 0, new_order=8, price=1)), "byte 38: .*shares above 0"),
        (broken({**add(0, "B", 0, 1), "type": "P"}), "byte 38: .*shares above 0"),
        (broken(order_message("E", 7, 101)), "byte 38: .*expected at most the open shares"),
        (broken(add(8, "Z", 1, 1)), "byte 38: .*side B or S"),
        (broken(add(8, "B", 1, 0)), "byte 38: .*price above 0"),
        (broken(order_message("C", 7, 1, printable="Y", price=0)), "byte 38: .*price above 0"),
        (broken({"type": "Q", "shares": 1 << 63, "stock": "AAA", "price": 1}), "byte 38: .*shares above 0"),
        (broken({**order_message("D", 7), "time_ns": 1}), "byte 38: .*a time not before that of the previous message"),
    ],
)
def test_broken_files(data: bytes, error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.itch").write_bytes(data)
    with pytest.raises(ItchError, match=error):
        import_itch(tmp_path / "a.itch")
    monkeypatch.setattr(reader, "BLOCK_BYTES", 7)  # offsets count over blocks
    with pytest.raises(ItchError, match=error):
        import_itch(tmp_path / "a.itch")


def test_a_damaged_gzip_file(tmp_path: Path) -> None:
    import gzip

    packed = gzip.compress(file_bytes([BID, order_message("D", 7)] * 1))
    (tmp_path / "a.gz").write_bytes(packed[:-9])
    with pytest.raises(SourceError, match="damaged or truncated"):
        import_itch(tmp_path / "a.gz")
    with pytest.raises(SourceError, match="cannot be read"):
        import_itch(tmp_path / "none.itch")


def test_many_orders_make_the_tables_grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every order has its own price, and all are deleted in another order: the tables grow while they are full."""
    monkeypatch.setattr(stream_book, "empty_book", lambda symbols: made(symbols, orders=16, levels=16, block=16))
    count = 500
    order = np.random.default_rng(1).permutation(count) + 1
    messages = [add(int(number), "B", int(number), 10_000 + 100 * int(number)) for number in order]
    messages += [order_message("D", int(number)) for number in order[::-1]] + [add(1, "B", 1, 100)]
    day = imported(tmp_path, *messages)
    assert len(day) == 2 * count + 1
    assert (day.commands["order_id"][count : 2 * count] == np.arange(count, 0, -1)).all()


made = stream_book.empty_book


def test_all_orders_of_a_level_are_cancelled_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An execution out of priority may need a command for every order of its level: the block grows for them."""
    monkeypatch.setattr(stream_book, "empty_book", lambda symbols: made(symbols, orders=64, levels=16, block=8))
    small = [add(number, "B", 1, 10_000) for number in range(2, 32)]
    executed = [order_message("E", number, 1) for number in range(31, 1, -1)]
    day = imported(tmp_path, add(1, "B", 30, 10_000), *small, *executed, order_message("D", 1))
    assert len(day) == 31 + 30 + 30 and day.reference.counts["missing_lots"] == 0


@pytest.mark.parametrize(
    ("name", "own", "other"), [("a.itch", "Q", "B"), ("20190130.BX_ITCH_50", "B", "Q"), ("S1.PSX_ITCH50", "X", "B")]
)
def test_an_operational_halt_of_another_market_is_none_of_this_one(
    name: str, own: str, other: str, tmp_path: Path
) -> None:
    halt = {"type": "h", "stock": "AAA", "action": "H"}
    path = tmp_path / name
    path.write_bytes(file_bytes([{**halt, "market": other}, BID, {**halt, "market": other}, {**halt, "market": own}]))
    day = import_itch(path)
    assert day.rows.tolist() == [1, 3] and day.reference.counts["halts"] == 1
    assert day.reference.counts["halts_elsewhere"] == 2


@pytest.mark.parametrize(
    ("name", "date"),
    [
        ("20190130.BX_ITCH_50.gz", "2019-01-30"), ("01302019.NASDAQ_ITCH50.gz", "2019-01-30"), ("S020717-v50.txt.gz", "2017-02-07"),
        ("20201212.PSX_ITCH_50", "2020-12-12"), ("99999999.itch", ""),
    ],
)  # fmt: skip
def test_dates_of_file_names(name: str, date: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(file_bytes([BID]))
    assert import_itch(tmp_path / name).reference.date == date


def test_a_resume_has_a_level_for_each_held_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They were written over levels in use where fewer were free than orders held."""
    empty = stream_book.empty_book
    monkeypatch.setattr(stream_book, "empty_book", lambda symbols: empty(symbols, orders=256, levels=16, block=256))
    held = [add(10 + number, "B", 10, 20_000 + 100 * number) for number in range(60)]
    others = [add(100 + number, "B", 10, 10_000 + 100 * number, stock="BBB", locate=2) for number in range(8)]
    executed = [order_message("E", 69 - number, 10) for number in range(60)]
    day = imported(tmp_path, add(1, "B", 1, 100), state("H"), *held, *others, state("T"), *executed)
    counts = day.reference.counts
    assert counts["executions"] == 60 and counts["executions_behind_best"] == counts["executions_unfilled"] == 0
