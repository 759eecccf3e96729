"""`serl signals train` and `test` from end to end, and what they refuse."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from click.testing import CliRunner

from serl.agents.realism.days import day_origin
from serl.agents.realism.errors import NoSuchSymbol, RealismError
from serl.agents.realism.tape import SECOND_NS
from serl.agents.signals.cli import MODEL_NAMES, signals
from serl.agents.signals.errors import SignalError
from serl.agents.signals.evaluation import FILL, SCORES, TARGETS, TREND, VOLUME
from serl.agents.signals.forecaster import MODELS
from serl.agents.signals.forecaster_file import read_forecaster
from serl.agents.signals.scores import MEASURES
from serl.exchange.errors import ConfigError, SerlError
from serl.history.day import Day, SourceFile, SymbolReference, write_day
from serl.history.generate import generate_day
from tests.agents.realism.sample import BUY, SELL, TEN_NS, day_of, new
from tests.agents.signals import sample


@pytest.fixture(autouse=True, scope="module")
def quick() -> Iterator[None]:
    """Short trainings."""
    with sample.few_epochs():
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """x.day, and f trained on 10:00 to 10:12 of it; days of another symbol, without moves, and with other ticks."""
    path = tmp_path_factory.mktemp("signals")
    write_day(sample.day(), path / "x.day")
    write_day(generate_day(2, "OTHER", start_ns=TEN_NS, end_ns=TEN_NS + 90 * SECOND_NS), path / "other.day")
    write_day(day_of(new(BUY, 99, 1), new(SELL, 101, 1), new(BUY, 98, 1, 720_000)), path / "still.day")
    tenths = replace(sample.day().reference, symbols=(SymbolReference("AMZN", "0.1"),))
    write_day(
        replace(sample.day(), commands=sample.day().commands[:-1], rows=sample.day().rows[:-1], reference=tenths),
        path / "tenths.day",
    )
    arguments = ["train", str(path / "x.day"), "-o", str(path / "f"), "--hours", "10:00-10:12", "--horizons", "1,5"]
    result = CliRunner().invoke(signals, arguments, catch_exceptions=False)
    assert result.exit_code == 0 and "AMZN, 10:00-10:12: fitted 4," in result.stdout
    return path


def run_test(folder: Path, *options: str) -> Any:
    arguments = ["test", str(folder / "f"), str(folder / "x.day"), "-o", str(folder / "s.html"), "--bootstraps", "200"]
    return CliRunner().invoke(signals, [*arguments, *options], catch_exceptions=False)


def test_train_and_test(folder: Path) -> None:
    result = run_test(folder, "--json")
    numbers, written = json.loads(result.stdout), json.loads((folder / "s.json").read_text())
    assert written.pop("made")["seed"] == 1 and written == numbers
    assert (numbers["trained"], numbers["tested"]) == ("10:00-10:12", "10:12-10:30") and numbers["blocks"] == 4
    assert len(numbers["scores"]) == 2 * SCORES
    by_target = {
        target: {(row["horizon_s"], row["model"]): row for row in numbers["scores"] if row["forecast"] == target.name}
        for target in TARGETS
    }
    for target, rows in by_target.items():
        assert list(rows) == [(horizon, name) for horizon in (1, 5) for name in target.rows]
        for measure in target.measures:
            assert all(row[measure]["low"] <= row[measure]["high"] for row in rows.values())
    fills, volumes = by_target[FILL], by_target[VOLUME]
    assert fills[1, "share"]["forecasts"] == 2 * (18 * 600 - 9) and 0 < fills[1, "share"]["label_shares"]["filled"] < 1
    assert volumes[1, "mean"]["explained"]["value"] == 0 and volumes[1, "mean"]["mean_lots"] > 0
    rows = by_target[TREND]
    for row in rows.values():
        for measure in MEASURES:
            one = row[measure]
            assert 0 <= one["low"] <= one["high"] <= 2 and 0 <= one["value"] <= 2
    assert rows[1, "majority"]["forecasts"] == 18 * 600 - 9 and rows[5, "logistic"]["forecasts"] == 18 * 600 - 49
    one, other = rows[5, "logistic"]["brier"], rows[5, "majority"]["brier"]
    assert one["minus"]["majority"]["value"] == pytest.approx(one["value"] - other["value"])
    assert one["minus"]["majority"]["low"] < one["minus"]["majority"]["high"]
    assert {row["model"] for row in numbers["training_scores"]} == {*TREND.rows, *FILL.rows, *VOLUME.rows}
    assert (folder / "s.png").read_bytes()[:4] == b"\x89PNG" and "x.day" in (folder / "s.html").read_text()


@pytest.mark.parametrize(
    "arguments",
    [
        ["train", "x.day", "-o", "x.day"],
        ["test", "f.json", "x.day", "-o", "f.html"],
        ["test", "f.json", "x.png", "-o", "x.html"],
    ],
)
def test_inputs_are_not_replaced(arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The forecaster took the place of the day, and the numbers of the report that of the forecaster."""
    monkeypatch.chdir(tmp_path)
    for name in ("x.day", "x.png", "f.json"):
        Path(name).write_text(name)
    with pytest.raises(ConfigError, match="which it would replace"):
        CliRunner().invoke(signals, arguments, catch_exceptions=False)


@pytest.mark.long
def test_the_tables_show_the_numbers(folder: Path) -> None:
    shown, markdown = run_test(folder).stdout, run_test(folder, "--markdown").stdout
    numbers = json.loads((folder / "s.json").read_text())
    for row in numbers["scores"]:
        value = row["explained" if row["forecast"] == "volume" else "brier"]["value"]
        cell = f"{value:.3f}".replace("0.", ".", 1)
        assert cell in shown and f"| {row['model']}" in markdown and cell in markdown
    assert all(said in shown for said in numbers["conclusions"]) and len(numbers["conclusions"]) == 4
    assert MODEL_NAMES == MODELS


@pytest.mark.long
def test_the_same_seed_gives_the_same_file(folder: Path, tmp_path: Path) -> None:
    arguments = [
        "train",
        str(folder / "x.day"),
        "--hours",
        "10:00-10:12",
        "--horizons",
        "1,5",
        "-o",
        str(tmp_path / "g"),
    ]
    assert CliRunner().invoke(signals, arguments, catch_exceptions=False).exit_code == 0
    assert (tmp_path / "g").read_bytes() == (folder / "f").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        (["test", "f", "x.day", "--hours", "10:05-10:20"], SignalError, r"x\.day: expected hours that were not trained on \(10:00-10:12\)"),
        (["test", "f", "x.day", "--hours", "10:12-10:20"], SignalError, "expected 4 or more blocks of 300 s to resample, got 2"),
        (["test", "f", "x.day", "--hours", "11:00-12:00"], SignalError, "got none; the day covers 10:00:00-10:30:00"),
        (["test", "f", "x.day", "x.day", "--hours", "10:12-10:30"], SignalError, r"x\.day: expected different days, got one for the second time"),
        (["train", "x.day", "x.day", "-o", "g", "--hours", "10:00-10:12"], SignalError, r"x\.day: expected different days, got one for the second time"),
        (["test", "f", "other.day"], NoSuchSymbol, "expected one of OTHER, got AMZN"),
        (["test", "x.day", "x.day"], SignalError, "expected a forecaster"),
        (["test", "f", "x.day", "--json", "--markdown"], click.UsageError, "expected --json or --markdown, got both"),
        (["test", "f", "x.day", "-o", "none/s.html"], SerlError, "got no folder none"),
        (["train", "x.day", "-o", "none/f"], SerlError, "got no folder none"),
        (["train", "x.day", "-o", "g", "--hours", "10:00"], RealismError, "expected FROM-TO"),
        (["train", "x.day", "-o", "g", "--horizons", "a"], SignalError, "expected seconds separated by commas, got 'a'"),
        (["train", "x.day", "-o", "g", "--hours", "10:00-10:02"], SignalError, "expected 500 or more labels"),
        (["train", "x.day", "other.day", "-o", "g", "--hours", "10:00-10:12"], NoSuchSymbol, "expected one of OTHER, got AMZN"),
        (["train", "still.day", "-o", "g", "--hours", "10:00-10:12", "--horizons", "1"], SignalError, "expected moves of the mid within 1 s"),
        (["train", "x.day", "tenths.day", "-o", "g"], SignalError, r"tenths\.day: expected a tick size of 0\.01 and a lot size of 1 .*, got 0\.1 and 1"),
        (["test", "f", "x.day", "tenths.day", "--hours", "10:12-10:30"], SignalError, r"tenths\.day: expected a tick size of 0\.01"),
        (["test", "f", "tenths.day", "--hours", "10:12-10:30"], SignalError, r"tenths\.day: expected a tick size of 0\.01 and a lot size of 1, .* trained, got 0\.1 and 1"),
        (["publish", "f", "--connect", "tcp://127.0.0.1:9", "--until", "x"], SerlError, "expected"),
        (["publish", "x.day"], SignalError, "expected a forecaster"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_in_one_line(
    arguments: list[str], kind: type[Exception], message: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(kind, match=message) as caught:
        signals(arguments, standalone_mode=False)
    assert "\n" not in str(caught.value)
    assert not Path("g").exists()


def test_a_day_of_another_name_or_format_is_still_the_one_that_was_trained_on() -> None:
    """Known by the checksum of one of its files, or by symbol and date; other hours, and other days, are not refused."""

    def day(date: str, *files: tuple[str, str]) -> Day:
        sources = tuple(SourceFile(name, sha256 * 8) for name, sha256 in files)
        return replace(sample.day(), reference=replace(sample.day().reference, date=date, files=sources))

    made, zipped = sample.forecaster(), ("a.zip", "0123abcd")
    days = (day_origin(day("2012-06-21", zipped)),)
    known = replace(made, training=replace(made.training, days=days, dates=("2012-06-21",)))
    old = replace(made, training=replace(made.training, days=days))
    for file, renamed, imported in ((known, True, True), (old, True, False)):
        assert file.was_trained_on(day("2012-06-21", ("b.zip", "0123abcd")), sample.HOURS) == renamed
        assert file.was_trained_on(day("", ("o.csv", "ffffffff"), ("b.zip", "0123abcd")), sample.HOURS) == renamed
        assert file.was_trained_on(day("2012-06-21", ("a.zip", "ffffffff")), sample.HOURS) == imported
        assert not file.was_trained_on(day("2012-06-21", zipped), (sample.HOURS[1], sample.HOURS[1] + 1))
        assert not file.was_trained_on(day("2012-06-22", ("a.zip", "ffffffff")), sample.HOURS)
    assert not replace(known, symbol="GOOG").was_trained_on(day("2012-06-21"), sample.HOURS)


@pytest.mark.long
def test_the_file_keeps_the_dates(tmp_path: Path) -> None:
    dated = replace(sample.day(), reference=replace(sample.day().reference, date="2012-06-21"))
    write_day(dated, tmp_path / "x.day")
    options = ["--hours", "10:00-10:12", "--horizons", "1", "-o", str(tmp_path / "f")]
    assert (
        CliRunner().invoke(signals, ["train", str(tmp_path / "x.day"), *options], catch_exceptions=False).exit_code == 0
    )
    assert read_forecaster(tmp_path / "f").training.dates == ("2012-06-21",)


def test_hours_of_another_day_may_be_those_of_the_training(folder: Path) -> None:
    """Only the hours of the days that were trained on are refused; of several days, blocks belong to one day each."""
    write_day(generate_day(3, "AMZN", start_ns=TEN_NS, end_ns=TEN_NS + 700 * SECOND_NS), folder / "y.day")
    write_day(generate_day(4, "AMZN", start_ns=TEN_NS, end_ns=TEN_NS + 700 * SECOND_NS), folder / "z.day")
    arguments = ["test", str(folder / "f"), str(folder / "y.day"), str(folder / "z.day"), "--hours", "10:02-10:10"]
    result = CliRunner().invoke(signals, [*arguments, "--json", "-o", str(folder / "s.html")], catch_exceptions=False)
    numbers = json.loads(result.stdout)
    assert numbers["blocks"] == 4 and numbers["scores"][0]["forecasts"] == 2 * (480 * 10 - 9)
    assert np.isfinite(numbers["scores"][0]["macro_f1"]["value"])
