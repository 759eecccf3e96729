"""Depth diffs: the rules of docs/history.md, broken recordings, and the sample against its diffs."""

import json
from pathlib import Path
from typing import Any

import pytest

from serl.history.day import Day
from serl.history.depth import depth_view
from serl.history.errors import DepthError
from serl.history.importing import import_day
from serl.history.level_book import TRADE_COUNTS
from serl.history.source import Options
from serl.history.verify import verify
from tests.history.sample import commands_of_row
from tests.history.samples import sample

MIDNIGHT_NS = 1_723_075_200 * 10**9
Message = dict[str, Any]


def diff(first: int, last: int, bids: list[list[str]] = [], asks: list[list[str]] = []) -> Message:  # noqa: B006
    return {"stream": "s", "data": {"e": "depthUpdate", "s": "BTCUSDT", "U": first, "u": last, "b": bids, "a": asks}}


def trade(price: str, size: str, buyer_rests: bool) -> Message:
    return {"stream": "s", "data": {"e": "trade", "s": "BTCUSDT", "p": price, "q": size, "m": buyer_rests}}


def change(**fields: Any) -> Message:
    """A diff behind the snapshot with some fields otherwise."""
    message = diff(11, 11)
    return {**message, "data": message["data"] | fields}


SNAPSHOT: Message = {"lastUpdateId": 10, "bids": [["1.00", "5.0"], ["0.99", "2.0"]], "asks": [["1.01", "3.0"]]}
DIFF = diff(11, 12, [["1.00", "4.0"]])


def recording(*messages: Message) -> str:
    """A second apart from midnight."""
    return "".join(f"{MIDNIGHT_NS + second * 10**9} {json.dumps(message)}\n" for second, message in enumerate(messages))


def imported(folder: Path, *messages: Message) -> Day:
    path = folder / "a.txt"
    path.write_text(recording(*messages))
    return import_day(path, Options(lot_size="1"))


def test_levels_are_orders_without_a_name(tmp_path: Path) -> None:
    day = imported(
        tmp_path, {"stream": "btcusdt@bookTicker", "data": {}}, SNAPSHOT,
        diff(9, 11, [["1.00", "7.0"], ["0.98", "1.0"]], [["1.02", "8.0"]]), diff(12, 12, [["1.00", "1.0"], ["0.99", "0.0"]]),
    )  # fmt: skip
    assert commands_of_row(day, -1) == [("NEW", 0, 0, 5, 100), ("NEW", 0, 0, 2, 99), ("NEW", 0, 1, 3, 101)]
    assert commands_of_row(day, 2) == [("NEW", 0, 0, 2, 100), ("NEW", 0, 0, 1, 98), ("NEW", 0, 1, 8, 102)]
    assert commands_of_row(day, 3) == [("CANCEL", 4, 0, 0, 100), ("REDUCE", 1, 0, 4, 100), ("CANCEL", 2, 0, 0, 99)]
    assert day.commands["time_ns"].tolist() == [10**9] * 3 + [2 * 10**9] * 3 + [3 * 10**9] * 3
    assert (day.reference.symbols[0].name, day.reference.date) == ("BTCUSDT", "2024-08-08")
    assert day.reference.counts["other_messages"] == 1


def test_a_side_may_move_through_the_other(tmp_path: Path) -> None:
    """What is gone goes first, or it would trade with what came."""
    day = imported(tmp_path, SNAPSHOT, diff(11, 11, [["1.01", "4.0"]], [["1.01", "0"], ["1.03", "1.0"]]))
    assert commands_of_row(day, 1) == [("CANCEL", 3, 1, 0, 101), ("NEW", 0, 0, 4, 101), ("NEW", 0, 1, 1, 103)]


def test_trades_take_and_the_next_diff_sets_right(tmp_path: Path) -> None:
    day = imported(
        tmp_path, SNAPSHOT, trade("0.99", "6.0", True), trade("1.05", "4", False), diff(11, 11, [["1.00", "3"]])
    )
    assert commands_of_row(day, 1) == [("NEW", 0, 1, 6, 99)] and commands_of_row(day, 2) == [("NEW", 0, 0, 4, 105)]
    assert commands_of_row(day, 3) == [("NEW", 0, 0, 3, 100), ("NEW", 0, 0, 1, 99), ("NEW", 0, 1, 3, 101)]
    assert [day.reference.counts[name] for name in TRADE_COUNTS] == [2, 1, 10, 1], "four were bought, three offered"


@pytest.mark.parametrize("buyer_rests", [True, False])
def test_the_next_diff_sets_right_every_level_that_trades_took_from(buyer_rests: bool, tmp_path: Path) -> None:
    """Also if the last of them traded at a better price."""
    book = {**SNAPSHOT, "asks": [["1.01", "5.0"], ["1.02", "2.0"]]}
    far, near = ("0.99", "1.00") if buyer_rests else ("1.02", "1.01")
    day = imported(
        tmp_path, book, trade(far, "6", buyer_rests), trade(near, "1", buyer_rests), diff(11, 11, [["0.98", "1"]])
    )
    side, best, worse = (0, 100, 99) if buyer_rests else (1, 101, 102)
    assert set(commands_of_row(day, 3)[-2:]) == {("NEW", 0, side, 5, best), ("NEW", 0, side, 1, worse)}


def test_diffs_that_the_snapshot_has_already(tmp_path: Path) -> None:
    day = imported(
        tmp_path,
        diff(5, 6, [["1.00", "9"]]),
        diff(7, 11, [["1.00", "8"]]),
        trade("1.00", "1", True),
        SNAPSHOT,
        DIFF["data"] | {"U": 12},
    )
    assert commands_of_row(day, 1) == [("NEW", 0, 0, 3, 100)] and commands_of_row(day, 4) == [
        ("CANCEL", 4, 0, 0, 100),
        ("REDUCE", 1, 0, 1, 100),
    ]
    assert day.reference.counts["diffs_before_snapshot"] == 1 and day.reference.counts["trades"] == 0
    counts = imported(tmp_path, SNAPSHOT, diff(9, 10, [["1.00", "5"]]), DIFF).reference.counts
    assert (counts["diffs"], counts["diffs_before_snapshot"]) == (1, 1)


def futures(previous: int, first: int, last: int, size: str) -> Message:
    message = diff(first, last, [["1.00", size]])
    return {**message, "data": message["data"] | {"pu": previous}}


def test_diffs_of_futures_follow_by_the_last_update_of_the_one_before(tmp_path: Path) -> None:
    """Their numbers have gaps: other symbols' updates are counted too."""
    day = imported(
        tmp_path, SNAPSHOT, futures(3, 6, 9, "9"), futures(9, 10, 14, "4"), futures(14, 20, 25, "3"), futures(25, 31, 31, "2")
    )  # fmt: skip
    assert [commands_of_row(day, row)[0][3] for row in (2, 3, 4)] == [1, 1, 1]
    assert (day.reference.counts["diffs"], day.reference.counts["diffs_before_snapshot"]) == (3, 1)
    with pytest.raises(
        DepthError, match="line 3: expected the diff after update 14, got 31 to 31 after 25: diffs are missing"
    ):
        imported(tmp_path, SNAPSHOT, futures(9, 10, 14, "4"), futures(25, 31, 31, "2"))
    with pytest.raises(DepthError, match="line 2: expected the diff after update 10, got 12 to 14 after 11"):
        imported(tmp_path, SNAPSHOT, futures(11, 12, 14, "4"))


def test_trades_of_one_stream_are_read(tmp_path: Path) -> None:
    """A recording of both has each trade twice. What futures pay from their insurance fund is no trade in the book."""
    one = trade("0.99", "1.0", True)
    both = {**one, "data": one["data"] | {"e": "aggTrade"}}
    fund = {**both, "data": both["data"] | {"X": "INSURANCE_FUND"}}
    counts = imported(tmp_path, SNAPSHOT, both, one, fund, both, diff(11, 11)).reference.counts
    assert (counts["trades"], counts["other_messages"]) == (2, 2)


@pytest.mark.parametrize("enveloped", [True, False])
def test_early_diffs_with_and_without_an_envelope(enveloped: bool, tmp_path: Path) -> None:
    early = diff(9, 11, [["1.00", "8"]])
    day = imported(tmp_path, early if enveloped else early["data"], SNAPSHOT)
    assert commands_of_row(day, 0) == [("NEW", 0, 0, 3, 100)]
    assert day.commands["time_ns"].tolist() == [10**9] * 4, "no earlier than the book"


def test_sizes_off_the_lot_are_rounded_and_counted(tmp_path: Path) -> None:
    day = imported(tmp_path, {**SNAPSHOT, "bids": [["1.00", "0.2"], ["0.99", "2.6"]]}, DIFF)
    assert [command[3] for command in commands_of_row(day, -1)] == [1, 3, 3] and day.reference.counts[
        "sizes_rounded"
    ] == 2


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (recording(SNAPSHOT) + "what\n", "line 2: expected a time in ns and a JSON object, got b'what'"),
        (recording(SNAPSHOT) + recording(DIFF)[:-9] + "\n", "line 2: expected a time in ns and a JSON object"),
        (recording(SNAPSHOT, DIFF) + f"{MIDNIGHT_NS} {{}}\n", "line 3: expected a time not before"),
        (
            recording(SNAPSHOT, DIFF, diff(14, 15)),
            "line 3: expected the diff after update 12, got 14 to 15: diffs are missing",
        ),
        (recording(SNAPSHOT, DIFF, DIFF), "line 3: expected the diff after update 12, got 11 to 12: diffs are missing"),
        (recording(SNAPSHOT, diff(12, 12)), "line 2: expected the diff after update 10, got 12 to 12"),
        (recording(SNAPSHOT, DIFF, SNAPSHOT), "line 3: expected one snapshot, got another"),
        (recording(DIFF), "expected a snapshot .*, got none"),
        (recording(SNAPSHOT, diff(11, 11, [["x", "1"]])), "line 2: expected a decimal price and size, got 'x', '1'"),
        (
            recording(SNAPSHOT, diff(11, 11, [["1.001", "1"]])),
            "line 2: expected a price that is a multiple of the tick 0.01",
        ),
        (recording(SNAPSHOT, diff(11, 11, [["1", "-1"]])), "line 2: .*a size not below 0, got 1, -1"),
        (recording(SNAPSHOT, trade("1", "0", True)), "line 2: expected a size above 0"),
        (recording(SNAPSHOT, {"data": {"e": "depthUpdate", "U": 1}}), "line 2: expected a field 'u'"),
        (recording(SNAPSHOT, {"data": None}), "line 2: expected an object in 'data', got None"),
        (recording(SNAPSHOT, change(b=None)), r"line 2: expected a list of \[price, size\], got None"),
        (recording(SNAPSHOT, change(b=[5])), r"line 2: expected \[price, size\], got 5"),
        (recording(SNAPSHOT, change(b=[["1", "2", "x"]])), r"line 2: expected \[price, size\], got \['1', '2', 'x'\]"),
        (recording(SNAPSHOT, change(b=[[None, "2"]])), "line 2: expected a decimal price and size, got None, '2'"),
        (recording(SNAPSHOT, change(b=[["Infinity", "1"]])), "line 2: expected a price and size of at most"),
        (recording(SNAPSHOT, change(b=[["NaN", "1"]])), "line 2: expected a decimal price and size, got 'NaN'"),
        (recording(SNAPSHOT, change(b=[["1e30", "1"]])), "line 2: expected a price and size of at most"),
        (recording(SNAPSHOT, change(b=[["1", "1e30"]])), "line 2: expected a price and size of at most"),
        (recording(SNAPSHOT, change(b=[["1", "NaN"]])), "line 2: expected a decimal price and size, got '1', 'NaN'"),
        (recording(SNAPSHOT, change(b=[["1e999999", "1e999999"]])), "line 2: expected a decimal price and size"),
        (recording(SNAPSHOT, change(U=None)), "line 2: expected 'U' of type int, got None"),
        (recording({**SNAPSHOT, "lastUpdateId": None}), "line 1: expected 'lastUpdateId' of type int, got None"),
        (
            recording({**SNAPSHOT, "bids": [["1.02", "1"]]}),
            "line 1: expected a best bid below the best ask, got 102 and 101",
        ),
        (
            recording(SNAPSHOT, change(b=[["1.01", "1"]])),
            "line 2: expected a best bid below the best ask, got 101 and 101",
        ),
        (
            recording(SNAPSHOT, DIFF, change(U=13, u=13, s="X")),
            "line 3: expected BTCUSDT, the symbol of the lines above, got X",
        ),
        (
            recording(SNAPSHOT, {"data": trade("1", "1", True)["data"] | {"m": "x"}}),
            "line 2: expected 'm' of type bool, got 'x'",
        ),
        (recording(change(b=[["x", "1"]]), SNAPSHOT), "line 1: expected a decimal price and size, got 'x'"),
        (recording(SNAPSHOT), "expected a diff or a trade, .*give `--symbols NAME`"),
        (recording(SNAPSHOT) + f"{10**19} {{}}", "line 2: expected a time not before .* and a JSON object"),
    ],
)
def test_broken_recordings(text: str, error: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(text)
    with pytest.raises(DepthError, match=error):
        import_day(tmp_path / "a.txt")


@pytest.mark.long
def test_the_sample_has_the_book_of_every_diff() -> None:
    path = sample("binance/spot_btcusdt_20240808.gz")
    day = import_day(path)
    result = verify(day, *depth_view(path, day.reference.symbols[0]))
    assert (result.rows, result.differing, result.rejected) == (3448, 0, 0)


def test_times_in_microseconds(tmp_path: Path) -> None:
    """They were read as nanoseconds of 1970."""
    text = recording(SNAPSHOT, DIFF)
    for less in ("", "000"):
        (tmp_path / "a.txt").write_text(text.replace(f"{less} {{", " {"))
        day = import_day(tmp_path / "a.txt", Options(lot_size="1"))
        assert day.reference.date == "2024-08-08" and day.reference.last_time_ns == 10**9
    (tmp_path / "a.txt").write_text(text[1:])
    with pytest.raises(DepthError, match=r"line 1: expected a time of 19 digits \(ns\) or 16 \(us\)"):
        import_day(tmp_path / "a.txt")


def test_deep_nesting_is_an_invalid_line(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(f'{MIDNIGHT_NS} {{"a":{"[" * 100_000}\n')
    with pytest.raises(DepthError, match="line 1: expected a time in ns and a JSON object"):
        import_day(tmp_path / "a.txt")
