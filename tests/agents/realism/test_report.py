"""The report from end to end."""

import json
from pathlib import Path

import pytest
from click import BadParameter

from serl.agents.pages.errors import ReportFileError
from serl.agents.realism.cli import realism
from serl.agents.realism.errors import EmptyWindow, NoSuchSymbol, RealismError
from serl.agents.realism.scores import CONDITIONAL_SCORES, SCORES
from serl.agents.realism.tape import SECOND_NS
from serl.exchange.errors import ConfigError, UnwritableFileError
from serl.history.day import write_day
from serl.history.errors import DayError, SourceError
from serl.history.generate import generate_day
from tests.agents.realism.sample import TEN_NS


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three generated days of 50 minutes: a.day, b.day, c.day."""
    folder = tmp_path_factory.mktemp("days")
    for seed, name in enumerate("abc"):
        write_day(generate_day(seed, start_ns=TEN_NS, end_ns=TEN_NS + 3000 * SECOND_NS), folder / f"{name}.day")
    return folder


def run(folder: Path, *arguments: str) -> None:
    realism.main([str(folder / "a.day"), str(folder / "b.day"), *arguments], standalone_mode=False)


@pytest.mark.long
def test_report(days: Path, tmp_path: Path) -> None:
    output = tmp_path / "report.html"
    window = ["--window-real", "10:00-10:50", "--window-simulated", "10:05-10:50"]
    run(days, "-o", str(output), "--baseline", str(days / "c.day"), *window, "--levels", "4", "--bootstraps", "20")
    found = json.loads(output.with_suffix(".json").read_text())
    assert found["data"]["real"]["window"] == "10:00:00-10:50:00"
    assert found["data"]["baseline"]["window"] == found["data"]["simulated"]["window"] == "10:05:00-10:50:00"
    assert "'seed': 1" in found["data"]["simulated"]["origin"] and found["data"]["simulated"]["levels"] == 4
    assert list(found["scores"]) == [score.name for score in SCORES]
    assert list(found["conditional_scores"]) == [score.name for score in CONDITIONAL_SCORES]
    for name in ("floor", "simulated", "baseline"):
        mean = found["summary"][name]["l1"]["mean"]
        assert mean["interval"][0] < mean["interval"][1] < 0.4, "days of one kind are close to each other"
        assert len(found["facts"]["facts"]) == 12 and 0 <= found["facts"]["agreements"][name] <= 12
        assert found["impact"]["mean_distance_ticks"][name] > 0
    assert found["predictive_mae_ticks"]["no_change"]["value"] > 0
    text = output.read_text()
    assert text.count("data:image/png;base64,") == 3 and "://" not in text, "the page is self-contained"
    for word in ("a.day", "b.day", "c.day", "Stylised facts", "Predictive score", "seed 1"):
        assert word in text


@pytest.mark.long
def test_without_bootstraps_baseline_and_predictive(days: Path, tmp_path: Path) -> None:
    output = tmp_path / "report.html"
    run(days, "-o", str(output), "--bootstraps", "0", "--no-predictive")
    found = json.loads(output.with_suffix(".json").read_text())
    assert found["predictive_mae_ticks"] is None and "baseline" not in found["summary"]
    spread = found["scores"]["spread"]["simulated"]["l1"]
    assert spread["interval"] == [spread["value"]] * 2
    assert "Predictive score" not in output.read_text()


@pytest.mark.long
def test_a_day_against_itself(days: Path, tmp_path: Path) -> None:
    output = tmp_path / "report.html"
    arguments = [str(days / "a.day"), str(days / "a.day"), "-o", str(output), "--no-predictive"]
    realism.main(arguments, standalone_mode=False)
    found = json.loads(output.with_suffix(".json").read_text())
    assert found["summary"]["simulated"]["l1"]["mean"]["value"] == 0
    assert found["summary"]["simulated"]["wasserstein"]["mean"]["value"] == pytest.approx(0, abs=1e-12)
    assert found["summary"]["floor"]["l1"]["mean"]["value"] > 0.01
    assert found["impact"]["mean_distance_ticks"]["simulated"] == 0
    assert found["facts"]["agreements"]["simulated"] >= 11, "all that are measured"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (["--window-real", "09:00-09:30"], EmptyWindow, "expected visible messages, got none"),
        (["--window-simulated", "15:00-16:00"], EmptyWindow, "DEMO in 15:00:00-16:00:00"),
        (["--window-real", "10:00"], RealismError, "FROM-TO"),
        (["--symbol", "AMZN"], NoSuchSymbol, "expected one of DEMO, got AMZN"),
        (["--symbol-real", "AMZN"], NoSuchSymbol, "expected one of DEMO, got AMZN"),
        (["--bootstraps", "-5"], RealismError, "bootstraps: expected 0 or more"),
        (["--seed", "-1"], BadParameter, "-1 is not in the range x>=0"),
        (["--levels", "5000"], RealismError, "levels: expected 1 to 1000"),
        (["--baseline", "missing.day"], SourceError, "does not exist"),
        (["-o", "nowhere/report.html"], UnwritableFileError, "expected a file in a folder that exists"),
        (["-o", "report.json"], ReportFileError, "ends in .html"),
    ],
)
def test_invalid_arguments_are_refused(days: Path, arguments: list[str], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        run(days, "--no-predictive", *arguments)


@pytest.mark.parametrize("name", ["a.day", "b.day", "c.day"])
def test_days_are_not_replaced(name: str, tmp_path: Path) -> None:
    """The page took the place of a day."""
    for one in ("a.day", "b.day", "c.day"):
        (tmp_path / one).write_text(one)
    with pytest.raises(ConfigError, match="which it would replace"):
        run(tmp_path, "--baseline", str(tmp_path / "c.day"), "-o", str(tmp_path / name), "--no-predictive")


def test_a_file_that_is_not_a_day_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.day").write_text("no day")
    with pytest.raises(DayError, match="not a day file"):
        realism.main([str(tmp_path / "x.day"), str(tmp_path / "x.day"), "--no-predictive"], standalone_mode=False)
