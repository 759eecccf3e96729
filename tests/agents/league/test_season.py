"""A season is played, kept and continued; its cross tables are drawn; the dashboard shows them."""

import dataclasses
import json
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from serl.agents.league import players, season
from serl.agents.league.browse import REFRESH_S
from serl.agents.league.cli import league
from serl.agents.league.config import LeagueConfig
from serl.agents.league.players import EXECUTOR, MAKER
from serl.agents.league.season import FILE, Cells, Season, SeasonConfig
from serl.agents.learning.market_config import MarketConfig
from serl.agents.learning.policy import Policy, load_policy
from serl.agents.learning.sources import open_source
from serl.exchange.errors import ConfigError
from serl.result_file import ResultFileError
from tests.agents.half_hour import SMALL
from tests.clients.dashboard.server_fixture import dashboard
from tests.server_fixture import free_endpoint

CONFIG = SeasonConfig(
    league=LeagueConfig(population=SMALL, environments=4, duration_s=60, simulated_days=2), executors=("twap", "passive"),
    makers=("symmetric:1",), windows=4, rounds=2, seeds=2, executor_steps=24, maker_steps=80,
)  # fmt: skip
TRAININGS = 2 * 2 * 2
MATCHES = 2 * 1 + 2 * (4 * 3 - 2 * 1)


@pytest.fixture(autouse=True, scope="module")
def quick() -> Iterator[None]:
    """Short rollouts."""
    with pytest.MonkeyPatch.context() as patch:
        short = {"rollout_steps": 6, "minibatch": 24, "epochs": 1}
        patch.setattr(season, "EXECUTOR", EXECUTOR.model_copy(update=short))
        patch.setattr(season, "MAKER", MAKER.model_copy(update=short | {"rollout_steps": 20, "minibatch": 40}))
        yield


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Season:
    found = Season(CONFIG, tmp_path_factory.mktemp("league"), resume=False)
    found.play()
    found.close()
    return found


def as_text(cells: Cells) -> str:
    return repr({names: [values.tolist() for values in cell[2:]] for names, cell in cells.items()})


def test_everybody_meets_everybody(whole: Season) -> None:
    learners = ["PPO, round 1", "PPO, round 2"]
    assert (whole.executor_names, whole.maker_names) == (
        ["twap", "passive", *learners],
        ["symmetric, 1 ticks", *learners],
    )
    assert set(whole.cells) == {(one, other) for one in whole.executor_names for other in whole.maker_names}
    assert whole.parts == whole.parts_done == TRAININGS + MATCHES and len(whole.played) == MATCHES
    both = [cell.profit_ticks for _, cell in whole.played if (cell.executor, cell.maker) == ("twap", "PPO, round 1")]
    assert len(both) == 2 and not np.array_equal(*both), "a learner of each seed"
    np.testing.assert_allclose(whole.cells["twap", "PPO, round 1"].profit_ticks, np.mean(both, axis=0))


@pytest.mark.long
@pytest.mark.parametrize("done", [6, 1, 3, 14])
def test_an_interrupted_season_continues_without_repeating(
    whole: Season, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, done: int
) -> None:
    """After a match of rules, after trainings, after matches of learners, in the second seed."""
    trained: list[Any] = []
    learn = players.learnt_policy

    def counted(*arguments: Any) -> Any:
        trained.append(arguments)
        return learn(*arguments)

    monkeypatch.setattr(players, "learnt_policy", counted)
    first = Season(CONFIG, tmp_path, resume=False)
    with pytest.raises(KeyboardInterrupt):
        first.play(stop_after(done))
    first.close()
    with (tmp_path / FILE).open("ab") as file:
        file.write(b'{"seed": 0, "exec')  # a kill cuts a line off
    again, parts = Season(CONFIG, tmp_path, resume=True), list[None]()
    assert again.parts_done == done
    again.play(lambda: parts.append(None))
    again.close()
    assert len(parts) == whole.parts - done and len(trained) == TRAININGS
    assert as_text(again.cells) == as_text(whole.cells)


def stop_after(count: int) -> Callable[[], None]:
    parts: list[None] = []

    def on_part() -> None:
        parts.append(None)
        if len(parts) == count:
            raise KeyboardInterrupt

    return on_part


def test_another_season_is_refused(whole: Season, tmp_path: Path) -> None:
    with pytest.raises(ResultFileError, match="expected no results, got some; continue with --resume"):
        Season(CONFIG, whole.folder, resume=False)
    with pytest.raises(ResultFileError, match=r"those of others \(season differ\)"):
        Season(CONFIG.model_copy(update={"windows": 5}), whole.folder, resume=True)
    file = tmp_path / "mine.safetensors"
    file.write_bytes((whole.folder / "seed-0" / "executor-2.safetensors").read_bytes())
    mine = CONFIG.model_copy(update={"executors": (str(file),), "rounds": 0})
    Season(mine, tmp_path / "new", resume=False).close()
    file.write_bytes((whole.folder / "seed-1" / "executor-2.safetensors").read_bytes())
    with pytest.raises(ResultFileError, match=r"those of others \(files differ\)"):
        Season(mine, tmp_path / "new", resume=True)


def test_a_trained_policy_plays_as_it_did(whole: Season, tmp_path: Path) -> None:
    """The file of a learner, as an executor of another season."""
    file = whole.folder / "seed-1" / "executor-1.safetensors"
    changes = {"executors": (str(file),), "rounds": 0}
    alone = Season(CONFIG.model_copy(update=changes), tmp_path, resume=False)
    alone.play()
    alone.close()
    (found,) = alone.cells.values()
    (there,) = [
        cell for seed, cell in whole.played if (seed, cell.executor, cell.maker) == (1, "PPO, round 1", "symmetric, 1 ticks")
    ]  # fmt: skip
    assert found.executor == "executor-1" and found.pa_bps.tolist() == there.pa_bps.tolist()


def test_a_policy_that_cannot_play_is_refused_before_the_folder_is_made(whole: Season, tmp_path: Path) -> None:
    """A maker, one that observes forecasts, and one that was trained on the days on which players meet."""
    known = load_policy(whole.folder / "seed-0" / "executor-1.safetensors")
    assert isinstance(known, Policy)
    forecasting = dataclasses.replace(known.interface, horizons_s=(1.0,))
    Policy(known.network, forecasting, {}).save(tmp_path / "forecasting.safetensors")
    market = MarketConfig(kind="dynamic", population=SMALL, part="test", simulated_days=1)
    learnt = {"data": [{"market": market.model_dump(mode="json"), **open_source(market).describe()}]}
    Policy(known.network, known.interface, learnt).save(tmp_path / "tested.safetensors")
    for file, error in (
        (whole.folder / "seed-0" / "maker-1.safetensors", "got maker-1, with actions box"),
        (tmp_path / "forecasting.safetensors", "got forecasting, with forecasts, which a league does not have"),
        (tmp_path / "tested.safetensors", "not trained on the test days, on which players meet, got tested"),
    ):
        folder = tmp_path / f"of-{file.stem}"
        with pytest.raises(ConfigError, match=error):
            Season(CONFIG.model_copy(update={"executors": (str(file),), "rounds": 0}), folder, resume=False)
        assert not folder.exists()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--executor", "vwap"], "executor: expected one of twap, pov, ac, aggressive, passive, patience, or the file"),
        (["--executor", "twap", "--executor", "twap"], "executor: expected players with different names, got two of 'twap'"),
        (["--maker", "symmetric"], "maker: expected one of symmetric, avellaneda-stoikov, glft with a number above 0"),
        (["--maker", "glft:-1"], "got 'glft:-1'"),
        (["--windows", "0"], "windows: expected a number greater than or equal to 1, got 0"),
        (["--duration", "25"], "duration_s: expected a multiple of interval_s"),
        (["--duration", "1e300"], "duration_s: expected a number less than or equal to 172800, got 1e+300"),
    ],
)  # fmt: skip
def test_bad_settings_are_errors_of_one_line(tmp_path: Path, options: list[str], error: str) -> None:
    folder = tmp_path / "new"
    done = CliRunner().invoke(league, ["--population", SMALL, "-o", str(folder), *options])
    assert isinstance(done.exception, ConfigError) and error in str(done.exception) and not folder.exists()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--population", "pair", "--maker", "symmetric:1"], "pair: symbols: expected one symbol in an environment"),
        (["--population", SMALL, "--duration", "86400"], "small: expected at least 86400 s of continuous trading"),
    ],
)
def test_a_refused_market_leaves_no_folder(tmp_path: Path, options: list[str], error: str) -> None:
    """The next command would have been refused: there were results already."""
    folder = tmp_path / "new"
    done = CliRunner().invoke(league, ["-o", str(folder), *options])
    assert isinstance(done.exception, ConfigError) and error in str(done.exception) and not folder.exists()


@pytest.mark.long
def test_the_command_writes_tables_and_the_dashboard_shows_them(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    with dashboard(free_endpoint(), "--league", str(folder)) as shown:
        assert shown.get("league") == (200, f"No match has been played in {folder} yet.".encode())
        words = shlex.split(f"--population {SMALL} --windows 4 --days 2 --duration 60 --rounds 0 -o {folder}")
        words += ["--executor", "twap", "--executor", "passive", "--maker", "symmetric:1", "--maker", "glft:0.01"]
        done = CliRunner().invoke(league, words, catch_exceptions=False)
        assert "GLFT, γ = 0.01" in done.stdout and done.stdout.count("twap") == 2
        numbers = json.loads((folder / "league.json").read_text())
        assert [one["windows"] for one in numbers["cells"]] == [4] * 4 and numbers["cells"][0]["pa_bps"]["half"] > 0
        assert (folder / "league.png").read_bytes()[:4] == b"\x89PNG"
        status, page = shown.get("league")
        assert status == 200 and page == (folder / "league.html").read_bytes()
        assert b"symmetric, 1 ticks" in page and b"4 of 4 parts done" in page and REFRESH_S > 0
    with pytest.raises(ResultFileError, match="continue with --resume"):
        league.main(words, standalone_mode=False)
