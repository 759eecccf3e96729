"""`serl day` from end to end on a sample."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from serl.exchange.errors import ConfigError, UnwritableFileError
from serl.history.cli import day
from serl.history.day import read_day, write_day
from serl.history.errors import SourceError
from tests.history.sample import write_sample
from tests.history.test_l3_csv import csv_text
from tests.history.test_lobster_rules import NO_CHANGE, START


def run_cli(*arguments: object) -> str:
    result = CliRunner().invoke(day, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_import_info_head_verify(tmp_path: Path) -> None:
    source = write_sample(tmp_path, [NO_CHANGE, ((4, 1, 4, 101, -1), ([(101, 6), (103, 10)], START[1]))])
    file = tmp_path / "a.parquet"
    assert "6 commands of 2 rows" in run_cli("import", source, "-o", file)
    information = run_cli("info", file)
    assert "symbols\tTEST (tick 0.01, lot 1)" in information and "executions\t1" in information
    lines = run_cli("head", file, "-n", 6).splitlines()
    assert lines[1] == "09:30:00.500000000\t-1\t1\tNEW GTC\t0\tTEST\tBUY\t10\t99"
    assert lines[6] == "09:30:01.500000000\t1\t6\tNEW IOC\t0\tTEST\tBUY\t4\t101"
    assert run_cli("verify", file, source).startswith("0 of 2 rows differ (6 commands, 0 rejected")


def test_verify_fails_where_rows_differ(tmp_path: Path) -> None:
    source = write_sample(tmp_path, [NO_CHANGE])
    file = tmp_path / "a.parquet"
    run_cli("import", source, "-o", file)
    made = read_day(file)
    made.commands["qty_lots"][0] += 1
    write_day(made, file)
    result = CliRunner().invoke(day, ["verify", str(file), str(source)])
    assert result.exit_code == 1
    assert result.output.startswith("1 of 1 rows differ") and "row 1 bids" in result.output


def test_generate(tmp_path: Path) -> None:
    file = tmp_path / "g.parquet"
    assert "seed 3" in run_cli("generate", "-o", file, "--seed", 3, "--end", "09:40")
    assert "generated" in run_cli("info", file)
    for words in ((file,), (file, file)):
        with pytest.raises(SourceError, match="got a generated one; it has no source to verify it against"):
            CliRunner().invoke(day, ["verify", *map(str, words)], catch_exceptions=False)


@pytest.mark.parametrize("symbol", ["", "A,B", "A\nB", "A" * 33])
def test_a_symbol_that_no_exchange_can_have_is_not_generated(symbol: str, tmp_path: Path) -> None:
    """The day could be replayed nowhere."""
    words = ["generate", "-o", str(tmp_path / "x"), "--seed", "1", "--end", "09:31", "--symbol", symbol]
    refused = CliRunner().invoke(day, words)
    assert isinstance(refused.exception, ConfigError) and "expected 1 to 32 letters" in str(refused.exception)
    assert not (tmp_path / "x").exists()


def test_help_has_an_example_everywhere() -> None:
    for name in day.commands:
        assert f"Example: serl day {name}" in " ".join(run_cli(name, "--help").split())


def test_without_an_output_no_file_but_an_older_import_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source = tmp_path / "spy.csv"
    source.write_text(csv_text((1, 0, "10.00", 5, "created", "bid")))
    (tmp_path / "spy.parquet").write_text("results")
    for _ in range(2):
        assert run_cli("import", source, "--symbols", "X/Y").startswith("X-Y_2015-05-01_0.parquet: 1 commands")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["X-Y_2015-05-01_0.parquet", "spy.csv", "spy.parquet"]
    assert (tmp_path / "spy.parquet").read_text() == "results"
    (tmp_path / "X-Y_2015-05-01_0.parquet").write_text("results")
    result = CliRunner().invoke(day, ["import", str(source), "--symbols", "X/Y"])
    assert result.exit_code == 2 and "exists already; give -o FILE" in result.output
    source.write_text("symbol,timestamp,open,high,low,close,volume\nA,2018-02-16 09:30:00,1,1,1,1,1\n")
    result = CliRunner().invoke(day, ["import", str(source)])
    assert result.exit_code == 2 and "spy.parquet exists already; give -o FILE" in result.output
    assert len(list(tmp_path.iterdir())) == 3


def test_commands_that_a_market_rejects_can_be_looked_at_and_exported(tmp_path: Path) -> None:
    """Of a file that another program wrote, with numbers that mean nothing: both were tracebacks."""
    file = tmp_path / "g.parquet"
    run_cli("generate", "-o", file, "--seed", 3, "--end", "09:31")
    made = read_day(file)
    made.commands["symbol"][0], made.commands["kind"][1], made.commands["side"][2] = 7, 200, 9
    write_day(made, file)
    lines = run_cli("head", file, "-n", 3).splitlines()[1:]
    assert [line.split("\t")[3] for line in lines] == ["NEW GTC", "200", "NEW GTC"]
    assert lines[0].split("\t")[5] == "7" and lines[2].split("\t")[6] == "9"
    assert "bytes of messages" in run_cli("export", file, "-o", tmp_path / "g.itch")


def test_an_import_does_not_replace_its_source(tmp_path: Path) -> None:
    """A file that may have taken an hour to download became the day file."""
    source, link = tmp_path / "spy.csv", tmp_path / "link.csv"
    source.write_text(csv_text((1, 0, "10.00", 5, "created", "bid")))
    link.symlink_to(source)
    text = source.read_text()
    for output in (source, link):
        result = CliRunner().invoke(day, ["import", str(source), "-o", str(output)])
        assert isinstance(result.exception, ConfigError) and "which it would replace" in str(result.exception)
    assert source.read_text() == text


@pytest.mark.parametrize(("command", "name"), [("import", "x.parquet"), ("export", "x.zip")])
def test_a_missing_folder_is_an_error_before_the_work(command: str, name: str, tmp_path: Path) -> None:
    """It was found after the import, with the name of a temporary file."""
    output = tmp_path / "no" / name
    result = CliRunner().invoke(day, [command, str(tmp_path / "source.csv"), "-o", str(output)])
    assert isinstance(result.exception, UnwritableFileError)
    assert str(result.exception).startswith(f"{output}: expected a file in a folder that exists, got no folder")


def test_an_export_does_not_replace_the_day(tmp_path: Path) -> None:
    """A table of trades took the place of the day."""
    file = tmp_path / "g.parquet"
    run_cli("generate", "-o", file, "--seed", 3, "--end", "09:31")
    result = CliRunner().invoke(day, ["export", str(file), "--table", "trades", "-o", str(file)])
    assert isinstance(result.exception, ConfigError) and "which it would replace" in str(result.exception)
    assert len(read_day(file)) > 0
