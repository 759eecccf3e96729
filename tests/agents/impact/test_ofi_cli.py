"""`serl impact --ofi` from end to end: a generated day, a population, and what it refuses."""

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from serl.agents.impact.cli import impact
from serl.agents.realism.tape import SECOND_NS
from serl.exchange.errors import SerlError, UnwritableFileError
from serl.history.day import write_day
from serl.history.generate import generate_day
from tests.agents.realism.sample import TEN_NS


def test_a_day_and_a_population(tmp_path: Path) -> None:
    write_day(generate_day(1, start_ns=TEN_NS, end_ns=TEN_NS + 1200 * SECOND_NS), tmp_path / "x.day")
    output = tmp_path / "ofi.json"
    arguments = [str(tmp_path / "x.day"), "--ofi", "--split", "10:12", "--horizons", "1,20", "-o", str(output)]
    result = CliRunner().invoke(impact, arguments, catch_exceptions=False)
    assert result.exit_code == 0 and "Newey and West (1987)" in result.output
    numbers = json.loads(output.read_text())
    assert numbers["interval_s"] == 10 and numbers["fitted"].endswith("-10:12:00")
    assert all(said in result.output for said in numbers["conclusions"])
    moves = [(one["regressor"], one["move"]) for one in numbers["regressions"]]
    assert moves[:3] == [("OFI", "same interval"), ("OFI", "next 1 s"), ("OFI", "next 20 s")] and len(moves) == 9
    same = numbers["regressions"][0]
    assert same["beta"] > 2 * same["standard_error"] > 0 and 0.05 < same["r2"] < 1
    assert 60 <= same["fitted"] <= 72 and 40 <= same["tested"] <= 48
    assert (
        "x.day" in output.with_suffix(".html").read_text() and output.with_suffix(".png").read_bytes()[:4] == b"\x89PNG"
    )
    population = tmp_path / "flow.yaml"
    population.write_text("{name: flow, close: '09:50', groups: [{trader: flow, latency_us: 1}]}")
    arguments = ["--simulated", str(population), "--ofi", "--interval", "5", "--seed", "3", "--json"]
    result = CliRunner().invoke(impact, [*arguments, "-o", str(output)], catch_exceptions=False)
    printed, written = json.loads(result.stdout), json.loads(output.read_text())
    assert printed["interval_s"] == 5 and printed["regressions"][0]["beta"] > 0
    assert written["made"]["seed"] == 3 and written["regressions"] == printed["regressions"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--ofi"], "expected either DAY or --simulated POPULATION, got neither"),
        (["x.day", "--ofi", "--simulated", "small"], "got both"),
        (
            ["x.day", "--ofi", "--qty-share", ".1"],
            "expected --qty-share with another measurement only, got it with --ofi",
        ),
        (["x.day", "--ofi", "--validity"], "expected --validity with another measurement only"),
        (["x.day", "--ofi", "--seed", "2"], "expected --seed with --simulated only, got it with a DAY"),
        (["x.day", "--side", "buy", "--split", "13:00"], "expected --split with --ofi only, got it with another"),
        (["--simulated", "small", "--validity", "--horizons", "1"], "expected --horizons with --ofi only"),
    ],
)
def test_options_that_do_not_mix(arguments: list[str], message: str) -> None:
    with pytest.raises(click.UsageError, match=message):
        impact.main(arguments, standalone_mode=False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--horizons", "soon"], "--horizons: expected 0.001 to 86400 s, got 'soon'"),
        (["--horizons", "0"], "--horizons: expected 0.001 to 86400 s, got '0'"),
        (["--interval", "0"], "--interval: expected 0.001 to 86400 s, got 0"),
        (["--interval", "nan"], "--interval: expected 0.001 to 86400 s, got nan"),
        (["--split", "noon"], "expected a time of day like 10:30"),
        (["--window", "11:00-12:00"], "give a window there"),
        (["--split", "25:00"], "intervals after 25:00:00: expected 10 or more"),
        (["--split", "12:00"], "intervals after 12:00:00: expected 10 or more"),
        (["--symbol", "SIX"], "expected one of DEMO, got SIX"),
    ],
)  # fmt: skip
def test_settings_that_cannot_be_measured(arguments: list[str], message: str, short_day: Path) -> None:
    with pytest.raises(SerlError, match=message):
        impact.main(
            [str(short_day), "--ofi", *arguments, "-o", str(short_day.with_name("x.json"))], standalone_mode=False
        )
    with pytest.raises(UnwritableFileError, match="expected a file in a folder that exists, got no folder"):
        impact.main([str(short_day), "--ofi", "-o", str(short_day / "none" / "x.json")], standalone_mode=False)
    assert not short_day.with_name("x.json").exists()


@pytest.fixture(scope="module")
def short_day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("days") / "x.day"
    write_day(generate_day(1, start_ns=TEN_NS, end_ns=TEN_NS + 600 * SECOND_NS), path)
    return path
