"""`serl simulate`."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from serl.agents.traders.cli import simulate as command
from serl.agents.traders.errors import PopulationError
from serl.agents.traders.population import load_population
from serl.agents.traders.simulate import replay_events, simulate, tape_hash
from serl.agents.traders.trader_api import SECOND_NS
from serl.exchange.errors import ConfigError, UnwritableFileError
from serl.history.day import read_day


def test_the_day_is_the_one_that_the_library_simulates(tmp_path: Path) -> None:
    path = tmp_path / "one.day"
    done = CliRunner().invoke(command, ["small", "-o", str(path), "--seed", "4", "--until", "09:40"])
    assert done.exit_code == 0, done.output
    config = load_population("small")
    made = simulate(config, 4, config.open_ns + 600 * SECOND_NS)
    assert f"small, 31 traders, seed 4: {len(made):,} commands" in done.output
    assert "note:" not in done.output
    assert tape_hash(replay_events(read_day(path))) == tape_hash(replay_events(made))


def test_empty_sides_and_dropped_requests_are_reported(tmp_path: Path) -> None:
    (tmp_path / "some.yaml").write_text(
        "{name: some, modules: [tests.agents.traders.sample_traders], groups: [{trader: absurd}, "
        "{trader: flooder, start_s: 5, start_spread_s: 0, profile: {orders: 200}}, {trader: sweeper, start_s: 6.5, start_spread_s: 0}]}"
    )
    path = str(tmp_path / "one.day")
    done = CliRunner().invoke(command, [str(tmp_path / "some.yaml"), "-o", path, "--until", "09:30:07"])
    assert done.exit_code == 0, done.output
    assert "requests beyond 128 at one wake-up were dropped" in done.output
    assert "the ask side is empty at the end" in done.output


@pytest.mark.parametrize("until", ["09:30", "16:01", "04:00"])
def test_times_outside_the_day_are_refused(tmp_path: Path, until: str) -> None:
    done = CliRunner().invoke(command, ["small", "-o", str(tmp_path / "one.day"), "--until", until])
    assert isinstance(done.exception, PopulationError)
    assert f"expected a time after 09:30 and up to 16:00, got {until}" in str(done.exception)


def test_outputs_are_refused_before_the_simulation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("serl.agents.traders.simulate.Simulation", lambda *_: pytest.fail("it simulates"))
    for output, message in ((tmp_path, "got a folder"), (tmp_path / "none" / "one.day", "got no folder")):
        done = CliRunner().invoke(command, ["small", "-o", str(output)])
        assert isinstance(done.exception, UnwritableFileError) and message in str(done.exception)


def test_a_seed_beyond_the_generators_is_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(command, ["small", "-o", str(tmp_path / "one.day"), "--seed", str(2**63)])
    assert done.exit_code == 2 and "is not in the range" in done.output


def test_the_population_is_not_replaced(tmp_path: Path) -> None:
    """The day took the place of a population that may have taken hours to calibrate."""
    path = tmp_path / "mine.yaml"
    path.write_text(text := "{name: mine, groups: [{trader: noise}]}")
    done = CliRunner().invoke(command, [str(path), "-o", str(path), "--until", "09:31"])
    assert isinstance(done.exception, ConfigError) and "which it would replace" in str(done.exception)
    assert path.read_text() == text
