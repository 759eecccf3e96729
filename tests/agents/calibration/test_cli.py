"""`serl calibrate` from end to end on a small simulated day."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from click import Command
from click.testing import CliRunner

from serl.agents.calibration import costs
from serl.agents.calibration.cli import calibrate
from serl.agents.calibration.errors import CalibrationError
from serl.agents.calibration.flow.cli import flow
from serl.agents.realism.errors import EmptyWindow, RealismError
from serl.agents.traders.population import load_population
from serl.exchange.errors import ConfigError, UnwritableFileError
from serl.history.day import write_day
from tests.agents.calibration.sample import poisson_day

WINDOWS = ["--train", "09:40-10:30", "--score", "10:30-11:00"]


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("day") / "poisson.day"
    write_day(poisson_day(), path)
    return path


def run(*arguments: object) -> str:
    result = CliRunner().invoke(calibrate, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def few_pairs() -> Iterator[None]:
    """More pairs only take time here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(costs, "DAY_PAIRS", 1)
        for name in ("SEARCH_PAIRS", "SCORE_PAIRS"):
            patch.setattr(f"serl.agents.calibration.calibrate.{name}", 1)
        yield


@pytest.fixture(scope="module")
def calibrated(day: Path, few_pairs: None) -> tuple[Path, str]:
    """The folder of a calibration, and what it printed."""
    found, baseline = day.parent, day.parent / "poisson.yaml"
    options = ("--trials", 1, "--score-seeds", 2, "--baseline-output", baseline)
    return found, run(day, "-o", found / "fitted.yaml", *WINDOWS, *options)


@pytest.mark.long
def test_end_to_end(calibrated: tuple[Path, str]) -> None:
    folder, shown = calibrated
    output, baseline = folder / "fitted.yaml", folder / "poisson.yaml"
    assert "real against real" in shown and "baseline" in shown
    numbers = json.loads((folder / "fitted.yaml.json").read_text())
    assert numbers["search"]["trials"] == 1 and numbers["train"]["messages"]["market"] > 50
    scored = numbers["score"]
    assert scored["window"] == "10:30:00-11:00:00"
    assert 0 < scored["calibrated"]["mean_l1"]["mean"] < 0.6
    assert len(scored["baseline"]["mean_l1"]["values"]) == 2 and len(scored["calibrated"]["l1"]) == 21
    # On a day made by zero intelligence, zero intelligence at the measured rates is the true model.
    assert scored["baseline"]["mean_l1"]["mean"] < 0.2
    (caveat,) = numbers["caveats"]
    assert caveat.startswith(
        "the population is not closer to the held-out hours than zero intelligence at measured rates"
    )
    assert f"caveat: {caveat}" in " ".join(shown.split()) and output.read_text().startswith(f"# {caveat}\n")
    assert "training hours" in shown and scored["ceiling"]["mean_l1"]["mean"] < scored["calibrated"]["mean_l1"]["mean"]
    population = load_population(output)
    assert population.groups[0].trader == "flow" and load_population(baseline).groups[0].trader == "zero_intelligence"


@pytest.mark.long
def test_a_resumed_calibration_has_as_many_trials_in_all(
    day: Path, calibrated: tuple[Path, str], few_pairs: None, tmp_path: Path
) -> None:
    for path in calibrated[0].glob("fitted.yaml*"):
        shutil.copy(path, tmp_path)
    output = tmp_path / "fitted.yaml"
    before = (tmp_path / "fitted.yaml.trials").read_text()
    run(day, "-o", output, *WINDOWS, "--trials", 2, "--score-seeds", 2, "--resume")
    assert (tmp_path / "fitted.yaml.trials").read_text().startswith(before)
    assert json.loads((tmp_path / "fitted.yaml.json").read_text())["search"]["trials"] == 2


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (["--train", "13:00-14:00"], EmptyWindow, "expected visible messages, got none; the day has messages in"),
        (["--score", "12:00-13:00"], EmptyWindow, "give a window there"),
        (["--train", "10:30-10:40"], CalibrationError, "overlap"),
        (["--train", "10:00-10:02"], CalibrationError, "expected at least 5 minutes, got 2"),
        (["--train", "10:20-10:00"], RealismError, "FROM before TO"),
    ],
)
def test_bad_windows(day: Path, tmp_path: Path, options: list[str], error: type[Exception], message: str) -> None:
    arguments = [str(day), "-o", str(tmp_path / "out.yaml"), *WINDOWS, *options]
    with pytest.raises(error, match=message):
        CliRunner().invoke(calibrate, arguments, catch_exceptions=False)
    assert not (tmp_path / "out.yaml").exists()


def test_a_day_of_the_touch_alone_is_refused_before_the_search(day: Path, tmp_path: Path) -> None:
    """Unless it is wanted: then the search begins, here with too little data."""
    arguments = [str(day), "-o", str(tmp_path / "out.yaml"), *WINDOWS, "--levels", "1"]
    with pytest.raises(CalibrationError, match="expected a day with at least two levels a side, got the touch alone"):
        CliRunner().invoke(calibrate, arguments, catch_exceptions=False)
    assert not list(tmp_path.iterdir())
    with pytest.raises(CalibrationError, match="expected at least 5 minutes, got 2"):
        CliRunner().invoke(calibrate, [*arguments, "--touch-only", "--train", "10:00-10:02"], catch_exceptions=False)


def test_a_missing_folder_is_an_error(day: Path, tmp_path: Path) -> None:
    with pytest.raises(UnwritableFileError, match=r"got no folder .*; create it first"):
        CliRunner().invoke(calibrate, [str(day), "-o", str(tmp_path / "no" / "out.yaml")], catch_exceptions=False)


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        (calibrate, ["DAY", "-o", "DAY"]),
        (calibrate, ["DAY", "-o", "x.yaml", "--test-day", "OTHER", "--baseline-output", "OTHER"]),
        (flow, ["train", "DAY", "-o", "DAY"]),
        (flow, ["continue", "amzn", "DAY", "--at", "10:00", "-o", "DAY"]),
        (flow, ["scenario", "OTHER", "-o", "OTHER"]),
    ],
)
def test_sources_are_not_replaced(command: Command, arguments: list[str], day: Path, tmp_path: Path) -> None:
    """The population took the place of the day to which it was fitted."""
    other = tmp_path / "other"
    other.write_text("name: other\n")
    given = [str({"DAY": day, "OTHER": other}.get(one, one)) for one in arguments]
    with pytest.raises(ConfigError, match=r"expected another file than .*, which it would replace"):
        CliRunner().invoke(command, given, catch_exceptions=False)
    with pytest.raises(UnwritableFileError, match="expected a file to write, got a folder"):
        CliRunner().invoke(command, [*given, "-o", str(tmp_path)], catch_exceptions=False)


@pytest.mark.parametrize("name", ["fitted.yaml", "fitted.yaml.json", "fitted.yaml.trials"])
def test_the_baseline_does_not_replace_the_population(name: str, day: Path, tmp_path: Path) -> None:
    """The baseline took the place of the fitted population, its numbers or its trials after all trials."""
    arguments = [str(day), "-o", str(tmp_path / "fitted.yaml"), "--baseline-output", str(tmp_path / name)]
    with pytest.raises(CalibrationError, match="--baseline-output: expected another file"):
        CliRunner().invoke(calibrate, arguments, catch_exceptions=False)
