"""The table of all methods, with a few orders and steps."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks import headline, headline_table
from benchmarks.headline_methods import ALGORITHMS, LEARNT, METHODS, QUICK, SETTINGS, Budget, config_of
from benchmarks.headline_researcher import researched, researcher_config
from benchmarks.headline_table import markdown
from serl.agents.learning.opd import _require_student_learns
from serl.agents.learning.policy import load_policy
from serl.agents.learning.replay_buffer import require_learning
from serl.agents.learning.training import load_config
from serl.exchange.errors import ConfigError
from serl.history.day import write_day
from serl.history.generate import generate_day
from serl.researcher.modules.contracts import Kind
from tests.agents.execution.test_data import write

STOCKS, DATES, BARS = 5, 6, 60


def random_bars() -> dict[str, list[object]]:
    """An hour of minutes of some stocks and dates."""
    random = np.random.default_rng(0)
    table: dict[str, list[object]] = {
        name: [] for name in ("symbol", "date", "ToD", "open", "high", "low", "close", "volume")
    }
    for stock in range(STOCKS):
        for date in range(DATES):
            close = 50 * np.exp(np.cumsum(random.normal(0, 5e-4, BARS + 1)))
            for bar in range(BARS):
                low, high = min(close[bar : bar + 2]) * 0.9995, max(close[bar : bar + 2]) * 1.0005
                numbers = (close[bar], high, low, close[bar + 1], float(random.integers(500, 5000)))
                values = (f"S{stock}", f"2020-01-{date + 1:02d}", f"10:{bar:02d}:00", *numbers)
                for column, value in zip(table.values(), values, strict=True):
                    column.append(value)
    return table


@pytest.mark.long
def test_one_command_makes_the_table_and_continues(tmp_path: Path) -> None:
    bars, output = write(tmp_path / "bars.parquet", random_bars()), tmp_path / "out"
    command = [sys.executable, "-m", "benchmarks.headline", "--quick", "--json", "--no-dynamic"]
    command += ["--nasdaq", str(bars), "--output", str(output)]
    first = subprocess.run(command, capture_output=True, text=True, check=True)
    sections = json.loads(first.stdout)
    assert [(one["market"], one["part"]) for one in sections] == [("nasdaq", "test"), ("nasdaq", "unseen")]
    for one in sections:
        assert [row["policy"] for row in one["rows"]] == ["TWAP", "patience", "VWAP", "AC", *LEARNT]
        assert "fills strict" in one["title"] and "part " + one["part"] in one["facts"]
        rule = one["rows"][1]
        assert not any(rule["PA_rule"])
        for row in one["rows"]:
            assert row["PA"][0] - rule["PA"][0] == pytest.approx(row["PA_rule"][0])
            assert row["PA_mid"][0] != row["PA"][0]
    text = markdown(sections[0])
    assert "| SE-RL | 1 |" in text and "| HALOP-style | 1 |" in text
    times = {path: path.stat().st_mtime_ns for path in output.rglob("policy.safetensors")}
    assert {path.parent.name for path in times} >= {f"{name.replace(' ', '-').lower()}-0" for name in METHODS}
    (output / "nasdaq-unseen.json").unlink()
    (output / "nasdaq" / "opd-0" / "done").unlink()
    again = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(again.stdout) == sections
    changed = [path.parent.name for path, time_ns in times.items() if path.stat().st_mtime_ns != time_ns]
    assert changed == ["opd-0"]


def test_the_researcher_searches_on_the_training_days_of_the_market(tmp_path: Path) -> None:
    """Without a model: the search is what `researched` continues, and the same folder gives the same policy."""
    bars = write(tmp_path / "bars.parquet", random_bars())
    market = load_config(Path("bars")).market.model_copy(update={"data": [bars], "environments": 8, "part": "test"})
    config = researcher_config("nasdaq", market, 3, quick=True)
    assert config.inner.market.part == "train" and config.inner.scored_in == "bars" and config.active_low_level
    assert config.inner.market.duration_s == market.duration_s and config.module_kinds == (Kind.POLICY,)
    config = config.model_copy(update={"proposer": "search", "low_level": None})
    first = researched(config, tmp_path / "run")
    assert load_policy(first).modes == ("hybrid",)
    made_ns = first.stat().st_mtime_ns
    assert researched(config, tmp_path / "run") == first and first.stat().st_mtime_ns == made_ns


def test_an_output_of_other_settings_is_refused(tmp_path: Path) -> None:
    headline.begin(tmp_path, {"seed": 1})
    headline.begin(tmp_path, {"seed": 1})
    with pytest.raises(ConfigError, match="choose another --output"):
        headline.begin(tmp_path, {"seed": 2})


@pytest.mark.parametrize("market", SETTINGS)
@pytest.mark.parametrize("method", METHODS)
def test_every_learner_has_settings_for_every_market(market: str, method: str) -> None:
    config = config_of(market, method, [], 7, Budget(steps=1000))
    assert config.learner.seed == 7 and config.learner.steps == 1000
    assert config.algorithm == ALGORITHMS.get(method, "ppo")
    assert config.market.kind == {"nasdaq": "static", "cn": "static"}.get(market, market)
    if method == "MacMic-style":
        decisions = round(config.market.duration_s / config.market.interval_s)
        assert decisions % config.macmic.interval_steps == 0
    if method == "PPO limit":
        assert config.early_stopping and config.market.reward == "price"


@pytest.mark.parametrize("market", SETTINGS)
@pytest.mark.parametrize("budget", [QUICK, Budget(steps=960)])
def test_few_steps_are_enough_to_learn(market: str, budget: Budget) -> None:
    """Runs in which nothing would be learnt are refused, after hours of others."""
    halop, opd = (config_of(market, method, [], 0, budget) for method in ("HALOP-style", "OPD"))
    require_learning("HALOP", halop.halop.steps, halop.halop.warm_up)
    if budget is QUICK:
        decisions = round(opd.market.duration_s / opd.market.interval_s)
        _require_student_learns(opd.opd, decisions * opd.market.environments)
    full = config_of(market, "HALOP-style", [], 0, Budget()).halop
    assert full.warm_up == load_config(Path("halop")).halop.warm_up


@pytest.mark.long
def test_books_too(tmp_path: Path) -> None:
    day, output = tmp_path / "a.day", tmp_path / "out"
    write_day(generate_day(3, commands_per_s=2.0), day)
    command = [sys.executable, "-m", "benchmarks.headline", "--quick", "--book", str(day), "--output", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "### replay, test: replay market" in done.stdout and "### dynamic, test: dynamic market" in done.stdout


@pytest.mark.parametrize(("blocks", "shown"), [(4, "| TWAP |  | 2.50 |"), (5, "| TWAP |  | 3.00 [1.")])
def test_few_clusters_have_no_intervals(blocks: int, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in `serl evaluate`: of one block they would have no width."""
    values = 1.0 + np.arange(blocks)
    columns = dict.fromkeys(("pa", "pa_mid", "pa_rule", "pa_twap", "afi", "is"), values)
    row: Any = SimpleNamespace(columns=columns)
    evaluation: Any = SimpleNamespace(rows=[row, row], seed=1)
    monkeypatch.setattr(headline_table, "bootstrap_clusters", lambda *_: (np.arange(blocks), "blocks"))
    rows = headline_table.rows_of(evaluation, [], None, None)
    section = {
        "title": "",
        "rows": rows,
        "steps": {},
        "orders": blocks,
        "seed": 1,
        "clusters": blocks,
        "unit": "blocks",
        "without_trades": 0,
        "facts": "",
    }
    assert shown in markdown(section)


def test_what_is_wrong_is_said_in_a_line_before_anything_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    output = ["--no-dynamic", "--output", str(tmp_path / "out")]
    bars = ["--nasdaq", str(tmp_path / "no.parquet"), *output]
    for words, said in (
        (output, "error: expected a market, got none"),
        ([*bars, "--orders", "0"], "error: --orders: expected at least 1, got 0"),
        ([*bars, "--seed", "-1"], "error: --seed: expected 0 or more, got -1"),
        (bars, "error: " + str(tmp_path / "no.parquet")),
        ([*bars, "--seeds", "2"], "choose another --output"),
    ):
        monkeypatch.setattr(sys, "argv", ["headline", *words])
        with pytest.raises(SystemExit) as ended:
            headline.main()
        assert ended.value.code == 1 and said in capsys.readouterr().err
