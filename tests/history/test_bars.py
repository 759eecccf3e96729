"""Tables of bars in several layouts become the canonical table; invalid ones are refused with the reason."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from serl.agents.execution.bar_files import read_bars
from serl.history.bars import import_bars
from serl.history.cli import day
from serl.history.errors import BarsError, SourceError
from serl.history.importing import import_day, is_bars_source
from serl.history.source import DEFAULTS, Options
from tests.history.samples import sample

HEAD = "open,high,low,close,volume"
BAR = "10.0,10.2,9.9,10.1,500"
NEW_YORK = Options(("A",), time_zone="America/New_York")


def imported(folder: Path, text: str, options: Options = DEFAULTS) -> list[dict[str, Any]]:
    """Imports a CSV; returns the rows of the table."""
    (folder / "in.csv").write_text(text)
    import_bars(folder / "in.csv", folder / "out.parquet", options)
    return list(pq.read_table(folder / "out.parquet").to_pylist())


def starts_of(rows: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(row["date"], row["ToD"]) for row in rows]


@pytest.mark.parametrize(
    ("head", "when", "expected_time"),
    [
        ("Date,Time", "2018-02-16,09:30:00", ("2018-02-16", "09:30:00")),
        ("timestamp", "2018-02-16 09:30:00", ("2018-02-16", "09:30:00")),
        ("datetime", "2018-02-16T09:30:00Z", ("2018-02-16", "09:30:00")),
        ("Date", "2018-02-16 09:30:00", ("2018-02-16", "09:30:00")),
        ("open_time", "1518773400", ("2018-02-16", "09:30:00")),
        ("open_time", "1518773400000", ("2018-02-16", "09:30:00")),
        ("ts", "1518773400000000", ("2018-02-16", "09:30:00")),
        ("ts_event", "1518773400000000000", ("2018-02-16", "09:30:00")),
    ],
)
def test_layouts(head: str, when: str, expected_time: tuple[str, str], tmp_path: Path) -> None:
    rows = imported(tmp_path, f"ticker,{head},{HEAD}\n000001,{when},{BAR}\n")
    assert rows == [
        {
            "symbol": "000001",
            "date": expected_time[0],
            "ToD": expected_time[1],
            "open": 10.0,
            "high": 10.2,
            "low": 9.9,
            "close": 10.1,
            "volume": 500.0,
        }
    ]


@pytest.mark.parametrize("head", [f"symbol,timestamp,{HEAD}", f"timestamp,symbol,{HEAD}"])
@pytest.mark.parametrize("quote", ["", '"'])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_headers_with_quotes_or_a_byte_order_mark(mark: str, quote: str, head: str, tmp_path: Path) -> None:
    """As R and spreadsheets write them; the symbol stays text."""
    cells = {"symbol": "000001", "timestamp": "2018-02-16 09:30:00"} | dict.fromkeys(HEAD.split(","), "1")
    lines = [[f"{quote}{name}{quote}" for name in head.split(",")], [cells[name] for name in head.split(",")]]
    (tmp_path / "in.csv").write_text(mark + "".join(f"{','.join(line)}\r\n" for line in lines))
    assert is_bars_source(tmp_path / "in.csv")
    import_bars(tmp_path / "in.csv", tmp_path / "out.parquet")
    (row,) = pq.read_table(tmp_path / "out.parquet").to_pylist()
    assert (row["symbol"], row["ToD"]) == ("000001", "09:30:00")


def test_names_that_are_not_utf_8(tmp_path: Path) -> None:
    """As of columns that are not read."""
    text = f"symbol,timestamp,{HEAD},\u540d\nA,2018-02-16 09:30:00,{BAR},\u540d\n"
    (tmp_path / "in.csv").write_bytes(text.encode("gbk"))
    assert import_bars(tmp_path / "in.csv", tmp_path / "out.parquet")["bars"] == 1


def test_parquet_compressed_csv_amount_and_capitalised_names(tmp_path: Path) -> None:
    text = f"Symbol,Timestamp,{HEAD.title()},Turnover\nA,2018-02-16 09:30:00,{BAR},5050\n"
    (tmp_path / "in.csv.gz").write_bytes(gzip.compress(text.encode()))
    assert import_bars(tmp_path / "in.csv.gz", tmp_path / "a.parquet")["bars"] == 1
    assert pq.read_table(tmp_path / "a.parquet")["amount"].to_pylist() == [5050.0]
    table = pa.table(
        {"Symbol": ["A"], "Datetime": pa.array([1518773400], pa.timestamp("s", "UTC"))}
        | {n: [1.0] for n in HEAD.split(",")}
    )
    pq.write_table(table, tmp_path / "in.parquet")
    import_bars(tmp_path / "in.parquet", tmp_path / "b.parquet", NEW_YORK)
    assert pq.read_table(tmp_path / "b.parquet")["ToD"].to_pylist() == ["04:30:00"]


def minutes(*starts: str) -> str:
    return f"timestamp,{HEAD}\n" + "".join(f"{start},{BAR}\n" for start in starts)


def test_times_follow_daylight_saving_time(tmp_path: Path) -> None:
    """New York goes from UTC-5 to UTC-4 on 2018-03-11: it opens at 14:30 UTC before and at 13:30 UTC after."""
    rows = imported(tmp_path, minutes("2018-03-09T14:30:00Z", "2018-03-12T13:30:00Z"), NEW_YORK)
    assert starts_of(rows) == [("2018-03-09", "09:30:00"), ("2018-03-12", "09:30:00")]


def test_a_repeated_hour_is_refused_and_a_skipped_hour_is_absent(tmp_path: Path) -> None:
    """On 2018-11-04 New York has 01:30 twice; on 2018-03-11 it has no 02:30."""
    twice = minutes("2018-11-04T05:30:00Z", "2018-11-04T06:30:00Z")  # also if nothing happened in both
    with pytest.raises(
        BarsError, match=r"A: expected one bar at 01:30:00 of 2018-11-04, .*daylight saving time ends.*--time-zone UTC"
    ):
        imported(tmp_path, twice, NEW_YORK)
    assert starts_of(imported(tmp_path, twice, Options(("A",)))) == [
        ("2018-11-04", "05:30:00"),
        ("2018-11-04", "06:30:00"),
    ]
    rows = imported(tmp_path, minutes("2018-03-11T06:30:00Z", "2018-03-11T07:30:00Z"), NEW_YORK)
    assert starts_of(rows) == [("2018-03-11", "01:30:00"), ("2018-03-11", "03:30:00")]


def test_duplicate_rows(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text(minutes("2018-02-16 09:31:00", "2018-02-16 09:30:00", "2018-02-16 09:31:00"))
    counts = import_bars(path, tmp_path / "out.parquet", Options(("A",)))
    assert counts == {"bars": 2, "symbols": 1, "dates": 1, "rows_twice": 1, "bars_beyond_high_low": 0}
    assert pq.read_table(tmp_path / "out.parquet")["ToD"].to_pylist() == ["09:30:00", "09:31:00"]
    with pytest.raises(BarsError, match="two that differ"):
        imported(tmp_path, minutes("2018-02-16 09:30:00") + f"2018-02-16 09:30:00,{BAR}1\n", Options(("A",)))


def test_a_suspended_day_is_dropped_by_the_reader(tmp_path: Path) -> None:
    """All-zero bars stay in the table; the training reader drops and counts them."""
    lines = [
        f"A,2018-02-{day:02} 09:{minute}:00,{BAR if day != 17 else '0,0,0,0,0'}"
        for day in range(16, 20)
        for minute in range(30, 40)
    ]
    imported(tmp_path, f"symbol,timestamp,{HEAD}\n" + "\n".join(lines) + "\n")
    table = read_bars(tmp_path / "out.parquet")
    assert [table.dates[date] for date in table.date] == ["2018-02-16", "2018-02-18", "2018-02-19"]
    assert table.counts["rows_without_price"] == 10
    assert np.isclose(table.bars.values[0, 0, 0], 1000.0)


@pytest.mark.parametrize(
    ("text", "options", "error"),
    [
        (f"timestamp,{HEAD}\n", Options(("A",)), "expected at least one bar, got an empty table"),
        (minutes("2018-02-16 09:30:00"), Options(), "expected a column of symbols, got .*give `--symbols NAME`"),
        (f"symbol,date,{HEAD}\nA,2018-02-16,{BAR}\n", Options(), "expected bars with a time of day"),
        (
            f"symbol,timestamp,{HEAD}\nA,soon,{BAR}\n",
            Options(),
            "row 1: timestamp: expected a time like 2018-02-16 09:30:00.*, got 'soon'",
        ),
        (
            f"symbol,timestamp,{HEAD}\nA,2018-02-16 09:30:00,1,2,x,4,5\n",
            Options(),
            "row 1: low: expected a number, got 'x'",
        ),
        (
            "symbol,timestamp,open,high,low,close\nA,2018-02-16 09:30:00,1,2,1,1\n",
            Options(),
            "expected a column of volumes",
        ),
        (
            f"symbol,timestamp,{HEAD}\nA,2018-02-16 09:30:00,{BAR}\n",
            Options(("B",)),
            "--symbols: expected symbols of this file, got B",
        ),
        (
            f"symbol,timestamp,{HEAD}\nA,2018-02-16 09:30:00,{BAR}\n,2018-02-16 09:31:00,{BAR}\n",
            Options(),
            "row 2: symbol: expected a symbol",
        ),
        (minutes("2018-02-16 09:30:00"), NEW_YORK, "--time-zone: expected UTC times"),
        (
            f"symbol,timestamp,{HEAD}\nA,1518773400,{BAR}\n",
            Options(time_zone="Mars/Base"),
            "--time-zone: expected a name like America/New_York",
        ),
        (
            f"symbol,timestamp,{HEAD}\nA,2018-02-16 09:30:00,1\n",
            Options(),
            "table of bars; row 1: expected 7 columns, got 3",
        ),
        (
            f"symbol,timestamp,{HEAD},Close\nA,2018-02-16 09:30:00,{BAR},7\n",
            Options(),
            "expected one column close, got 2",
        ),
        (
            "symbol,timestamp,open\nA,2018-02-16 09:30:00,1\n",
            Options(),
            "expected columns open, high, low, close and times",
        ),
    ],
)
def test_broken_tables(text: str, options: Options, error: str, tmp_path: Path) -> None:
    with pytest.raises(BarsError, match=error):
        imported(tmp_path, text, options)
    assert not (tmp_path / "out.parquet").exists()


@pytest.mark.parametrize(
    ("whens", "error"),
    [
        (("-5", "1518773400"), "row 1: timestamp: expected a count from 1970, not below 0, got -5"),
        (
            ("1518773400", "1518773460000"),
            "row 2: timestamp: expected a count from 1970 in s, as in row 1, got 1518773460000",
        ),
        (
            ("20180216093000", "20180216093100"),
            "row 1: timestamp: expected a count of ms from 1970, .*got 20180216093000",
        ),
        (
            ("1518773400", "20180216"),
            "row 2: timestamp: expected a count of s from 1970, .*1980 to 2099, .*got 20180216",
        ),
        (("2018-02-16 09:30:00", "yesterday"), "row 2: timestamp: expected a time like .*, got 'yesterday'"),
        (
            ("2018-02-16T09:30:00Z", "2018-02-16 09:31:00"),
            "row 2: timestamp: expected a time like .*with an offset in all rows",
        ),
        (
            ("2018-02-16 09:30:00", "2018-02-30 09:31:00"),
            "row 2: timestamp: expected a time like .*, got '2018-02-30 09:31:00'",
        ),
        (("2018-02-16 09:30:00", ""), "row 2: timestamp: expected a time, got None"),
    ],
)
def test_broken_times(whens: tuple[str, ...], error: str, tmp_path: Path) -> None:
    with pytest.raises(BarsError, match=error):
        imported(tmp_path, minutes(*whens), Options(("A",)))


@pytest.mark.parametrize(
    ("date", "time", "expected_time"),
    [
        ("20180216", "9:30", ("2018-02-16", "09:30:00")),
        ("2018/02/16", "09:30:00.5", ("2018-02-16", "09:30:00")),
        ("2018-02-16", "930", "row 2: date and time: expected a time like .*, got '2018-02-16 930'"),
        ("garbage", "09:30", "row 2: date and time: expected a time like .*, got 'garbage 09:30"),
        ("2018-02-16", "24:30", "row 2: date and time: expected a time like"),
        ("2018-02-16", "", "row 2: .*expected a time"),
    ],
)
def test_date_and_time_in_two_columns(
    date: str, time: str, expected_time: tuple[str, str] | str, tmp_path: Path
) -> None:
    text = f"date,time,{HEAD}\n2018-02-15,10:00,{BAR}\n{date},{time},{BAR}\n"
    if isinstance(expected_time, str):
        with pytest.raises(BarsError, match=expected_time):
            imported(tmp_path, text, Options(("A",)))
    else:
        assert starts_of(imported(tmp_path, text, Options(("A",))))[1] == expected_time


@pytest.mark.parametrize(
    ("bar", "error"),
    [
        ("10.0,9.8,9.9,10.1,500", "row 2: high: expected a price not below low, got 9.8"),
        ("-1,10.2,9.9,10.1,500", "row 2: open: expected a number not below 0, got -1"),
        ("10.0,10.2,9.9,10.1,-5", "row 2: volume: expected a number not below 0, got -5"),
        ("10.0,10.2,,10.1,500", "row 2: low: expected a number, got None"),
        ("10.0,10.2,nan,10.1,500", "row 2: low: expected a number, got"),
        ("10.0,inf,9.9,10.1,500", "row 2: high: expected a number, got inf"),
    ],
)
def test_invalid_bars(bar: str, error: str, tmp_path: Path) -> None:
    """Invalid bars of symbols that are not selected are ignored."""
    text = f"symbol,timestamp,{HEAD}\nA,2018-02-16 09:30:00,{BAR}\nB,2018-02-16 09:30:00,{bar}\n"
    with pytest.raises(BarsError, match=error):
        imported(tmp_path, text)
    assert len(imported(tmp_path, text, Options(("A",)))) == 1


def test_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text(minutes("2018-02-16T14:30:00Z"))
    arguments = [
        "import",
        str(tmp_path / "in.csv"),
        "-o",
        str(tmp_path / "out.parquet"),
        "--symbols",
        "A",
        "--time-zone",
        "America/New_York",
    ]
    result = CliRunner().invoke(day, arguments, catch_exceptions=False)
    assert (
        "1 bars, 1 symbols, 1 dates, 0 rows twice, 0 bars beyond high low; use it with `serl train`, `serl evaluate` and `serl data`"
        in result.output
    )
    with pytest.raises(BarsError, match="read this file directly"):
        CliRunner().invoke(day, ["import", str(tmp_path / "out.parquet"), "-o", "x.parquet"], catch_exceptions=False)


@pytest.mark.parametrize(
    "name", ["nasdaq_44stocks_1min_2018-02-16_2018-04-06.parquet", "cn_42stocks_15min_2025.parquet"]
)
def test_the_samples_need_no_import(name: str) -> None:
    with pytest.raises(SourceError, match="`serl train`, `serl evaluate` and `serl data` read this file directly"):
        import_day(sample(f"bars/{name}"))


def test_bars_beyond_their_high_and_low_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text(f"timestamp,{HEAD}\n2018-02-16 09:30:00,{BAR}\n2018-02-16 09:31:00,20,10.2,9.9,5,1\n")
    assert import_bars(path, tmp_path / "out.parquet", Options(("A",)))["bars_beyond_high_low"] == 1
