"""`serl impact` from end to end."""

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from serl.agents.impact.cli import impact
from serl.agents.impact.errors import ImpactError
from serl.agents.realism.errors import RealismError
from serl.agents.realism.tape import SECOND_NS
from serl.cli import COMMANDS, RENAMED, serl
from serl.exchange.errors import ConfigError, UnwritableFileError
from serl.history.day import write_day
from serl.history.generate import generate_day
from tests.agents.realism.sample import TEN_NS


@pytest.mark.long
def test_impact_in_a_replay(tmp_path: Path) -> None:
    write_day(generate_day(1, start_ns=TEN_NS - 60 * SECOND_NS, end_ns=TEN_NS + 1800 * SECOND_NS), tmp_path / "x.day")
    output = tmp_path / "impact.json"
    arguments = [str(tmp_path / "x.day"), "--side", "buy", "--window", "10:00-10:10", "--qty-share", ".05,.2"]
    impact.main([*arguments, "-o", str(output)], standalone_mode=False)
    found = json.loads(output.read_text())
    assert [order["qty_share"] for order in found["orders"]] == [0.05, 0.2]
    assert len(found["time_s"]) == len(found["orders"][0]["impact_ticks"]) == 241
    assert output.with_suffix(".png").read_bytes()[:4] == b"\x89PNG"
    assert found["answering"] is None
    impact.main([*arguments, "-o", str(output), "--answering", "square_root"], standalone_mode=False)
    answered = json.loads(output.read_text())
    assert "used: " in answered["answering"] and "gives way" in output.with_suffix(".html").read_text()
    for plain, gives_way in zip(found["orders"], answered["orders"], strict=True):
        assert gives_way["impact_at_end_ticks"] > plain["impact_at_end_ticks"] + 1
        assert gives_way["impact_ticks"][-1] > plain["impact_ticks"][-1] + 1, "it is remembered"
    for wrong in (["--qty-share", "much"], ["--window", "10:10-10:00"], ["-o", str(tmp_path / "none" / "x.json")]):
        with pytest.raises((RealismError, UnwritableFileError)):
            impact.main([*arguments, *wrong], standalone_mode=False)


def test_impact_in_a_simulated_market(tmp_path: Path) -> None:
    population = tmp_path / "flow.yaml"
    population.write_text("{name: flow, close: '10:30', groups: [{trader: flow, latency_us: 1}]}")
    arguments = ["--simulated", str(population), "--qty-share", ".01,.1", "--seeds", "4", "--participation", ".3"]
    result = CliRunner().invoke(impact, [*arguments, "-o", str(tmp_path / "law.json")], catch_exceptions=False)
    assert result.exit_code == 0 and "delta = " in result.output
    numbers = json.loads((tmp_path / "law.json").read_text())
    assert len(numbers["runs"]) == 8 and (tmp_path / "law.png").stat().st_size > 1000
    assert "expected 5 or more markets for intervals, got 4" in result.output
    assert numbers["delta"]["interval"] == numbers["sizes"][0]["interval"] == [None, None]
    page = (tmp_path / "law.html").read_text()
    assert "(no interval)" in page and "expected 5 or more markets" in page
    assert f"<td>{numbers['delta']['value']:.3f}</td>" in page and numbers["made"]["data"] in page
    assert numbers["delta"]["value"] == pytest.approx(float(result.output.split("delta = ")[1].split()[0]), abs=1e-3)


REPLAY = ["x.day", "--side", "buy", "--window", "10:00-10:10"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "expected either DAY or --simulated POPULATION, got neither; give one of them"),
        (["x.day", "--simulated", "small"], "got both"),
        (["x.day", "--window", "10:00-10:10"], "expected --side with a DAY, got none; add it"),
        (["x.day", "--side", "buy"], "expected --window with a DAY, got none; add it"),
        ([*REPLAY, "--seeds", "3"], "expected --seeds with --simulated only, got it with a DAY; leave it out"),
        (
            ["--simulated", "small", "--answering", "fitted"],
            "expected --answering with a DAY only, got it with --simulated",
        ),
        (
            ["--simulated", "small", "--answering", "fitted", "--validity"],
            "expected --answering with a DAY only, got it with --simulated",
        ),
        (
            ["--simulated", "small", "--window", "10:00-10:10"],
            "expected --window with a DAY only, got it with --simulated",
        ),
    ],
)
def test_options_of_the_two_markets_do_not_mix(arguments: list[str], message: str) -> None:
    with pytest.raises(click.UsageError, match=message):
        impact.main(arguments, standalone_mode=False)


@pytest.mark.parametrize("shares", ["much", "", "0", ".1,-.1", "inf", "nan", ".1,1.01", ".1,.10"])
def test_shares_are_parts_of_a_volume(shares: str) -> None:
    with pytest.raises(
        ImpactError, match=f"--qty-share: expected shares above 0 and up to 1, each once, got '{shares}'"
    ):
        impact.main([*REPLAY, "--qty-share", shares], standalone_mode=False)


@pytest.mark.parametrize("option", ["--duration", "--participation"])
@pytest.mark.parametrize("value", ["-5", "0", "nan", "inf"])
def test_times_and_shares_of_orders_are_in_their_range(option: str, value: str) -> None:
    with pytest.raises(click.BadParameter, match=f"{float(value)}|{value} is not in the range 0<x<="):
        impact.main(["--simulated", "small", option, value], standalone_mode=False)


@pytest.mark.parametrize("option", ["--interval", "--grid"])
@pytest.mark.parametrize("seconds", ["nan", "inf", "0"])
def test_steps_are_seconds_of_a_day(option: str, seconds: str, tmp_path: Path) -> None:
    arguments = [*REPLAY, option, seconds, "-o", str(tmp_path / "x.html")]
    with pytest.raises(ImpactError, match=f"{option}: expected 0.001 to 86400 s, got {seconds}"):
        impact.main(arguments, standalone_mode=False)


@pytest.mark.parametrize("market", [REPLAY, ["--simulated", "small"]])
def test_an_output_without_a_folder_is_refused_before_the_measurement(market: list[str], tmp_path: Path) -> None:
    with pytest.raises(UnwritableFileError, match="got no folder"):  # neither x.day nor a market is looked at
        impact.main([*market, "-o", str(tmp_path / "none" / "x.html")], standalone_mode=False)


@pytest.mark.parametrize("former", RENAMED)
def test_a_former_command_names_the_present_one(former: str) -> None:
    result = CliRunner().invoke(serl, [former, "goog.yaml", "--shares", ".1"])
    assert result.exit_code == 2 and f"got the former `serl {former}`; use {RENAMED[former]}" in result.output
    assert RENAMED[former].split()[1] in COMMANDS


@pytest.mark.parametrize("options", [["--side", "buy", "--window", "10:00-10:10"], ["--ofi"], ["--validity"]])
def test_the_day_is_not_replaced(options: list[str], tmp_path: Path) -> None:
    """A day named like one of the three files that the measurement writes was replaced."""
    (tmp_path / "day.json").write_text("a day")
    with pytest.raises(ConfigError, match="which it would replace"):
        impact.main([str(tmp_path / "day.json"), *options, "-o", str(tmp_path / "day")], standalone_mode=False)
