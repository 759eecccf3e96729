"""Broken sources: each error names the file, the row, the expected and the actual value."""

import re
import zipfile
from pathlib import Path

import pytest

from serl.exchange.errors import SerlError
from serl.history.errors import LobsterError, SourceError
from serl.history.importing import import_day
from serl.history.lobster import is_lobster, read_lobster
from tests.history.sample import BOOKS, MESSAGES, write_sample
from tests.history.test_lobster_rules import NO_CHANGE

GOOD = "34203.5,1,9,5,9900,1"
GOOD_BOOK = "10100,10,9900,10,10300,10,9700,10"

MESSAGE_CASES = [
    ("34201.5,1,9,5,9900", "row 2: expected 6 columns, got 5"),
    ("34201.5,1,9,5,9900,1,7", "row 2: expected 6 columns, got 7"),
    ("", "row 2: expected 6 columns, got 1"),
    ("34201.5,1,9,five,9900,1", "row 2: size: expected an integer, got 'five'"),
    ("34201.5,1,9,,9900,1", "row 2: size: expected an integer, got ''"),
    ("34201.5,1,9,5,9900.5,1", "row 2: price: expected an integer, got '9900.5'"),
    ("noon,1,9,5,9900,1", "row 2: time: expected seconds with up to 12 decimals, got 'noon'"),
    ("34201.5,1,9,-5,9900,1", "row 2: size: expected a number above 0, got -5"),
    ("34201.5,4,9,0,9900,1", "row 2: size: expected a number above 0, got 0"),
    ("34201.5,8,9,5,9900,1", "row 2: type: expected 1 to 7, got 8"),
    ("34201.5,1,9,5,9900,0", "row 2: direction: expected 1 or -1, got 0"),
    ("34201.5,1,9,5,9950,1", "row 2: price: expected a multiple of the tick (100), got 9950"),
    ("34201.5,1,9,5,-9900,1", "row 2: price: expected a number above 0, got -9900"),
    ("34201.5,7,0,0,2,-1", "row 2: price of a halt: expected -1, 0 or 1, got 2"),
    ("34200.4,1,9,5,9900,1", "row 2: time: expected a time not before the row above (in ns), got 34200400000000"),
    ("86401,1,9,5,9900,1", "row 2: time: expected 0 to 86400 s (in ns), got 86401000000000"),
    # 2^64 picoseconds more than 34201.5 s, which it was read as
    (
        "18480945.573709551616,1,9,5,9900,1",
        "row 2: time: expected seconds with up to 12 decimals, got '18480945.573709551616'",
    ),
]
BOOK_CASES = [
    ("10100,10,9900,10,10300,10,9700", "row 2: expected 8 columns, got 7"),
    ("10100,10,9900,x,10300,10,9700,10", "row 2: column 4: expected an integer, got 'x'"),
    ("10100,-10,9900,10,10300,10,9700,10", "row 2: ask 1 size: expected a number above 0, got -10"),
    ("10100,10,-9999999999,3,10300,10,9700,10", "row 2: bid 1 size: expected 0, as there is no such level, got 3"),
    ("10150,10,9900,10,10300,10,9700,10", "row 2: ask 1 price: expected a multiple of the tick (100), got 10150"),
    ("10100,10,9900,10,10300,10,9900,10", "row 2: bid 2 price: expected a price worse than the level before, got 9900"),
    (
        "10100,10,9900,10,10000,10,9700,10",
        "row 2: ask 2 price: expected a price worse than the level before, got 10000",
    ),
]


@pytest.mark.parametrize(("line", "text"), MESSAGE_CASES)
def test_broken_message_row(tmp_path: Path, line: str, text: str) -> None:
    write_sample(tmp_path, [NO_CHANGE] * 3)
    (tmp_path / MESSAGES).write_text(f"34200.5,5,0,1,10000,1\n{line}\n{GOOD}\n")
    with pytest.raises(LobsterError, match=f"{MESSAGES}: {re.escape(text)}"):
        read_lobster(tmp_path / MESSAGES)


@pytest.mark.parametrize(("line", "text"), BOOK_CASES)
def test_broken_book_row(tmp_path: Path, line: str, text: str) -> None:
    write_sample(tmp_path, [NO_CHANGE] * 3)
    (tmp_path / BOOKS).write_text(f"{GOOD_BOOK}\n{line}\n{GOOD_BOOK}\n")
    with pytest.raises(LobsterError, match=f"{BOOKS}: {re.escape(text)}"):
        read_lobster(tmp_path)


@pytest.mark.parametrize(("rows_kept", "row"), [(2, 3), (1, 2)])
def test_row_counts_that_do_not_match(tmp_path: Path, rows_kept: int, row: int) -> None:
    write_sample(tmp_path, [NO_CHANGE] * 3)
    (tmp_path / BOOKS).write_text(f"{GOOD_BOOK}\n" * rows_kept)
    with pytest.raises(LobsterError, match=f"3 messages, got {rows_kept}; row {row} is the first"):
        read_lobster(tmp_path)


def test_a_seventh_column_says_who_sent_the_order(tmp_path: Path) -> None:
    """In some of the publisher's files; empty, null or a name."""
    write_sample(tmp_path, [NO_CHANGE] * 3)
    without = import_day(tmp_path)
    rows = (tmp_path / MESSAGES).read_text().splitlines()
    senders = ("", "null", "1ABC")
    (tmp_path / MESSAGES).write_text("".join(f"{row},{sender}\n" for row, sender in zip(rows, senders, strict=True)))
    assert import_day(tmp_path).commands.tobytes() == without.commands.tobytes()
    (tmp_path / MESSAGES).write_text(f"{rows[0]},\n{rows[1]}\n{rows[2]},x\n")
    with pytest.raises(LobsterError, match="row 2: expected 7 columns, got 6"):
        import_day(tmp_path)


def test_empty_message_file(tmp_path: Path) -> None:
    write_sample(tmp_path, [NO_CHANGE])
    (tmp_path / MESSAGES).write_text("")
    with pytest.raises(LobsterError, match="row 1: expected at least one row of 6 columns, got an empty file"):
        read_lobster(tmp_path)


def test_truncated_last_row(tmp_path: Path) -> None:
    write_sample(tmp_path, [NO_CHANGE] * 2)
    (tmp_path / MESSAGES).write_text("34200.5,5,0,1,10000,1\n34201.5,1,9")
    with pytest.raises(LobsterError, match=r"row 2: expected 6 columns, got 3: '34201.5,1,9'"):
        read_lobster(tmp_path)


def test_times_are_exact_to_the_nanosecond(tmp_path: Path) -> None:
    """Up to twelve decimals are read, and rounded to the nearest nanosecond; fewer than nine are filled with zeros."""
    times = ["34200.000000001", "34200.1", "34200.123456789", "57599.999999999", "57599.9999999996"]
    write_sample(tmp_path, [NO_CHANGE] * len(times))
    (tmp_path / MESSAGES).write_text("".join(f"{time},5,0,1,10000,1\n" for time in times))
    source = read_lobster(tmp_path)
    assert source.time_ns.tolist() == [
        34_200_000_000_001, 34_200_100_000_000, 34_200_123_456_789, 57_599_999_999_999, 57_600_000_000_000,
    ]  # fmt: skip
    assert source.times_rounded == 1


def test_folder_zip_and_message_file_are_the_same_day(tmp_path: Path) -> None:
    path = write_sample(tmp_path, [NO_CHANGE] * 2)
    archive = tmp_path / "sample.zip"
    with zipfile.ZipFile(archive, "w") as out:
        for name in (MESSAGES, BOOKS):
            out.write(tmp_path / name, name)
    days = [import_day(source) for source in (path, tmp_path / BOOKS, tmp_path, archive)]
    assert all(day.commands.tobytes() == days[0].commands.tobytes() for day in days)
    assert [(s.name, s.tick_size, s.lot_size) for s in days[0].reference.symbols] == [("TEST", "0.01", "1")]
    assert days[0].reference.date == "2020-01-02" and days[0].reference.levels == 2
    assert [file.name for file in days[3].reference.files] == ["sample.zip"]
    assert [file.name for file in days[0].reference.files] == [MESSAGES, BOOKS]


def test_files_that_are_no_source(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="does not exist"):
        import_day(tmp_path / "nowhere.zip")
    with pytest.raises(SourceError, match="expected a folder with LOBSTER files, got one without; give the file"):
        import_day(tmp_path)
    (tmp_path / "broken.zip").write_bytes(b"PK\x03\x04 cut off")
    with pytest.raises(SerlError, match=r"broken\.zip: not a complete zip file"):
        import_day(tmp_path / "broken.zip")
    write_sample(tmp_path, [NO_CHANGE])
    (tmp_path / BOOKS).unlink()
    with pytest.raises(SourceError, match=f"expected {BOOKS} next to {MESSAGES}"):
        import_day(tmp_path)
    with pytest.raises(SourceError, match=f"expected {BOOKS} next to {MESSAGES}"):
        import_day(tmp_path / MESSAGES)


def test_names_of_files_that_cannot_be(tmp_path: Path) -> None:
    """Billions of levels filled the memory before the file was read; an invalid date came back in every table of the day."""
    path = write_sample(tmp_path, [NO_CHANGE])
    for levels in ("0", "99999999999"):
        assert not is_lobster(path.with_name(MESSAGES.replace("message_2", f"message_{levels}")))
    for name in (MESSAGES, BOOKS):
        (tmp_path / name).rename(tmp_path / name.replace("2020-01-02", "2020-99-02"))
    with pytest.raises(LobsterError, match="expected a date YYYY-MM-DD in its name, got 2020-99-02"):
        import_day(tmp_path)
