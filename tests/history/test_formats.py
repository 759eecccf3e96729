"""The content of a file tells its format; each sample can be imported."""

import gzip
import lzma
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from serl.agents.realism.days import load_day
from serl.history.cli import day
from serl.history.day import read_day, write_day
from serl.history.decompress import read_head
from serl.history.errors import ExportError, SourceError
from serl.history.generate import generate_day
from serl.history.importing import FORMATS, detect_format, import_day, import_file, is_bars_source
from serl.history.lobster import read_lobster
from serl.history.source import Options
from serl.history.verify import verify_source
from tests.history.itch_sample import add, file_bytes, order_message, state
from tests.history.sample import write_sample
from tests.history.samples import sample
from tests.history.test_depth import DIFF, SNAPSHOT, recording
from tests.history.test_itch_export import MINUTE_NS, OPEN_NS
from tests.history.test_l3_csv import csv_text
from tests.history.test_lobster_rules import NO_CHANGE

ITCH = file_bytes([add(1, "B", 5, 10_000)])
L3 = csv_text((1, 0, "10.00", 5, "created", "bid")).encode()


def run(*arguments: object) -> Result:
    return CliRunner().invoke(day, [str(argument) for argument in arguments])


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (ITCH, "NASDAQ ITCH 5.0"),
        (gzip.compress(ITCH), "NASDAQ ITCH 5.0"),
        (L3, "L3 event CSV"),
        (lzma.compress(L3), "L3 event CSV"),
        (recording(SNAPSHOT, DIFF).encode(), "Binance depth"),
        (gzip.compress(recording(SNAPSHOT, DIFF).encode()), "Binance depth"),
        (b"DBN\x01", "Databento MBO"),
    ],
    ids=["itch", "itch.gz", "l3", "l3.xz", "depth", "depth.gz", "dbn"],
)
def test_detected_by_content(data: bytes, name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(data)
    assert detect_format(tmp_path / "file").name == name


def test_lobster_is_detected_by_file_names(tmp_path: Path) -> None:
    assert detect_format(write_sample(tmp_path, [NO_CHANGE])).name == detect_format(tmp_path).name == "LOBSTER"


@pytest.mark.parametrize(
    "data",
    [b"\0", b"hello\n", b"a,b,c\n1,2,3\n", gzip.compress(b"hello"), b"PAR1", bytes(range(256)) * 9],
    ids=["zero", "text", "table", "text.gz", "parquet", "bytes"],
)
def test_anything_else_names_every_format(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(data)
    with pytest.raises(SourceError, match="expected a known format") as error:
        detect_format(tmp_path / "file")
    first, *lines = str(error.value).splitlines()
    assert [line.split(":")[0].strip() for line in lines] == [*(one.name for one in FORMATS), "bars"]
    assert f"got a file that begins with {read_head(tmp_path / 'file')[:24]!r}; " in first


def test_devices_and_pipes_are_no_source(tmp_path: Path) -> None:
    """/dev/zero has no end; a pipe can be read only once, and without a writer it waits for ever."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    expected = "expected a file or folder, got a device or pipe; write its data to a file and give that$"
    for path in (Path("/dev/zero"), pipe):
        for detect in (detect_format, load_day):
            with pytest.raises(SourceError, match=f"^{path}: {expected}"):
                detect(path)


def test_files_that_are_no_source(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"none\.zip: does not exist; check the path$"):
        detect_format(tmp_path / "none.zip")
    (tmp_path / "empty.zip").touch()
    with pytest.raises(SourceError, match=r"empty\.zip: is empty$"):
        detect_format(tmp_path / "empty.zip")
    assert not is_bars_source(tmp_path / "empty.zip")
    (tmp_path / "empty.zip").unlink()
    with pytest.raises(SourceError, match="expected a folder with LOBSTER files"):
        detect_format(tmp_path)
    write_day(generate_day(1, start_ns=OPEN_NS, end_ns=OPEN_NS + MINUTE_NS), tmp_path / "a.parquet")
    with pytest.raises(SourceError, match="is a day file already"):
        detect_format(tmp_path / "a.parquet")
    (tmp_path / "cut.gz").write_bytes(gzip.compress(ITCH)[:20])
    with pytest.raises(SourceError, match="damaged or truncated"):
        detect_format(tmp_path / "cut.gz")
    bars = pa.table(
        {name: [1.0] for name in ("open", "high", "low", "close", "volume")} | {"timestamp": ["2020-01-02 09:30:00"]}
    )
    pq.write_table(bars, tmp_path / "bars.parquet")
    with pytest.raises(SourceError, match=r"expected orders to replay, got bars; `serl day import bars\.parquet"):
        import_day(tmp_path / "bars.parquet")


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", "is empty$"),
        (gzip.compress(b""), "is empty$"),
        (b"\0\0", "is empty: expected a message, got the end of the session"),
        (ITCH + b"\0\x0cZ", r"byte 38: expected a message type of ITCH 5.0 .*, got 'Z'"),
        (ITCH + b"\0\x0dS", r"byte 38: expected a message S of 12 bytes, got length 13"),
    ],
)
def test_empty_files_and_early_errors_in_itch(data: bytes, error: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(data)
    with pytest.raises(SourceError, match=error):
        import_day(tmp_path / "file")


def test_recorded_messages_without_orders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="expected orders, got 1,000 rows of itch without one; "):
        import_file(sample("itch/first1000msgs_stockdirectory.itch"), tmp_path / "a.parquet")


def test_a_file_without_orders_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(file_bytes([state("H"), state("T")]))
    message = "expected orders, got 2 rows of itch without one; "
    with pytest.raises(SourceError, match=message):
        import_day(tmp_path / "file")
    with pytest.raises(SourceError, match=message):
        import_file(tmp_path / "file", tmp_path / "file.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


DEPTH = recording(SNAPSHOT, DIFF).encode()


@pytest.mark.parametrize(
    ("data", "options", "error"),
    [
        (None, {"date": "2020-01-02"}, "LOBSTER accepts no option, got --date"),
        (ITCH, {"time_zone": "Mars/X"}, "NASDAQ ITCH 5.0 accepts --symbols, --tick-size, --date, got --time-zone"),
        (ITCH, {"lot_size": "10"}, "NASDAQ ITCH 5.0 accepts .*, got --lot-size"),
        (L3, {"date": "2020-01-02"}, "L3 event CSV accepts .*, got --date"),
        (L3, {"time_zone": "UTC"}, "L3 event CSV accepts .*, got --time-zone"),
        (L3, {"symbols": ("A", "B")}, "--symbols: expected one name, .*got A, B"),
        (DEPTH, {"date": "2020-01-02"}, "Binance depth accepts .*, got --date"),
        (DEPTH, {"time_zone": "UTC"}, "Binance depth accepts .*, got --time-zone"),
        (DEPTH, {"symbols": ("A", "B")}, "--symbols: expected one name, .*got A, B"),
        (b"DBN\x01", {"lot_size": "1"}, "Databento MBO accepts --symbols, --tick-size, got --lot-size"),
        (b"DBN\x01", {"date": "2020-01-02"}, "Databento MBO accepts .*, got --date"),
    ],
)  # fmt: skip
def test_options_that_a_format_does_not_accept(
    data: bytes | None, options: dict[str, Any], error: str, tmp_path: Path
) -> None:
    if data is None:
        write_sample(tmp_path, [NO_CHANGE])
    else:
        (tmp_path / "file").write_bytes(data)
    with pytest.raises(SourceError, match=error):
        import_day(tmp_path if data is None else tmp_path / "file", Options(**options))


@pytest.mark.parametrize("size", ["0", "-1", "abc", "NaN", "Infinity", "1e999999", "1e-999999"])
@pytest.mark.parametrize("name", ["tick_size", "lot_size"])
def test_invalid_sizes(name: str, size: str) -> None:
    """Quotients of the last two leave the range of decimals: they ended imports of most formats with a traceback."""
    with pytest.raises(SourceError, match=f"--{name.replace('_', '-')}: expected a decimal above 0, got '{size}'"):
        Options(**{name: size})  # pyrefly: ignore[bad-argument-type]


@pytest.mark.parametrize("date", ["2019-13-45", "20190102", "2019-W01-1", "today"])
def test_invalid_dates(date: str) -> None:
    with pytest.raises(SourceError, match=f"--date: expected YYYY-MM-DD, got '{date}'"):
        Options(date=date)


@pytest.mark.parametrize(
    ("name", "commands", "symbol", "date"),
    [
        ("bitstamp/bitstamp_btcusd_2015-05-01_orders.csv.xz", 49_161, "BTCUSD", "2015-05-01"),
        ("binance/spot_btcusdt_20240808.gz", 124_974, "BTCUSDT", "2024-08-08"),
        ("databento/esh4-glbx-mdp3-20231225.mbo.dbn.zst", None, "ESH4", "2023-12-25"),
    ],
)
def test_samples(name: str, commands: int | None, symbol: str, date: str, tmp_path: Path) -> None:
    path = sample(name)
    reference, verdict = import_file(path, tmp_path / "a.parquet")
    assert commands is None or verdict.commands == commands
    assert (",".join(one.name for one in reference.symbols), reference.date) == (symbol, date)
    again = read_day(tmp_path / "a.parquet")
    assert again.reference == reference and (again.commands["time_ns"][1:] >= again.commands["time_ns"][:-1]).all()


def test_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "a.itch").write_bytes(ITCH)
    made = run("import", tmp_path / "a.itch", "-o", tmp_path / "a.parquet", "--date", "2020-01-02")
    assert made.exit_code == 0 and "1 commands of 1 rows" in made.output and "new orders 1" in made.output
    assert read_day(tmp_path / "a.parquet").reference.date == "2020-01-02"
    for output, text in (("b.itch", "ITCH 5.0"), ("b.itch.gz", "ITCH 5.0"), ("b.zip", "1 rows of 3 levels")):
        exported = run("export", tmp_path / "a.parquet", "-o", tmp_path / output, "--levels", 3)
        assert exported.exit_code == 0 and text in exported.output, exported.output
    assert read_lobster(tmp_path / "b.zip").levels == 3
    refused = run("export", tmp_path / "a.parquet", "-o", tmp_path / "b.csv")
    assert refused.exit_code == 2 and ".itch, .itch.gz (ITCH 5.0) or .zip (LOBSTER)" in refused.output
    with pytest.raises(SourceError, match="expected a day of `serl record`"):
        CliRunner().invoke(day, ["verify", str(tmp_path / "a.parquet")], catch_exceptions=False)


@pytest.mark.parametrize(("data", "name"), [(ITCH, "NASDAQ ITCH 5.0"), (L3, "L3 event CSV")])
def test_verify_says_which_formats_cannot_be_verified(data: bytes, name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(data)
    import_file(tmp_path / "file", tmp_path / "a.parquet")
    with pytest.raises(SourceError, match=f"expected LOBSTER files or Binance depth, .*got {name}"):
        verify_source(read_day(tmp_path / "a.parquet"), tmp_path / "file")


def test_one_symbol_of_several_is_exported(tmp_path: Path) -> None:
    messages = [add(1, "B", 5, 10_000), add(2, "S", 7, 20_000, "BBB", locate=2), order_message("X", 2, 3, locate=2)]
    (tmp_path / "two.itch").write_bytes(file_bytes(messages))
    run("import", tmp_path / "two.itch", "-o", tmp_path / "two.parquet")
    refused = run("export", tmp_path / "two.parquet", "-o", tmp_path / "b.zip")
    assert isinstance(refused.exception, ExportError) and "2 (AAA, BBB); give one with --symbol" in str(
        refused.exception
    )
    unknown = run("export", tmp_path / "two.parquet", "-o", tmp_path / "b.zip", "--symbol", "C")
    assert isinstance(unknown.exception, ExportError) and "expected one of AAA, BBB, got C" in str(unknown.exception)
    made = run("export", tmp_path / "two.parquet", "-o", tmp_path / "b.zip", "--symbol", "BBB", "--levels", 1)
    assert made.exit_code == 0, made.output
    exported = read_lobster(tmp_path / "b.zip")
    assert exported.symbol == "BBB" and exported.messages[:, [0, 2, 3]].tolist() == [[1, 7, 20_000], [2, 3, 20_000]]
    assert run("export", tmp_path / "two.parquet", "-o", tmp_path / "b.itch", "--symbol", "BBB").exit_code == 0
    assert [one.name for one in import_day(tmp_path / "b.itch").reference.symbols] == ["BBB"]


@pytest.mark.long
def test_verify_compares_with_the_diffs(tmp_path: Path) -> None:
    path, made = sample("binance/spot_btcusdt_20240808.gz"), tmp_path / "a.parquet"
    import_file(path, made)
    checked = run("verify", made, path)
    assert checked.exit_code == 0 and checked.output.startswith("0 of 3,448 rows differ"), checked.output
    write_day(import_day(path), made)
    broken = read_day(made)
    broken.commands["qty_lots"][0] += 1
    write_day(broken, made)
    assert run("verify", made, path).exit_code == 1


def test_the_name_of_a_source_may_be_as_long_as_one_can_be(tmp_path: Path) -> None:
    """The file that is judged was named after it, and longer."""
    source = tmp_path / ("a" * 250 + ".itch")
    source.write_bytes(ITCH)
    import_file(source, tmp_path / "day.parquet")
    assert sorted(path.name for path in tmp_path.iterdir()) == [source.name, "day.parquet"]
