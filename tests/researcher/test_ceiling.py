"""The ceiling study: a quick one ends with a table, and continues without repeating; differences are paired."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from benchmarks import ceiling
from benchmarks.ceiling_orders import paired
from benchmarks.ceiling_search import search
from serl.exchange.errors import ConfigError
from serl.researcher.inner import training


@pytest.mark.long
def test_a_quick_study_continues_without_repeating(task: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = [str(task), "--quick", "--output", str(tmp_path / "studies")]
    rows = ceiling.studied(ceiling.parser().parse_args(words))
    assert rows[0]["seeds"] == 2
    assert 1 < rows[0]["days"] <= 6
    assert {"twap", "patience", "TPE rule", "TPE training", "foresight of price"} <= set(rows[0]["gains_bps"])
    assert rows[0]["ceiling"] in ceiling.table(rows)
    assert json.loads((tmp_path / "studies" / "mine" / "row.json").read_text()) == rows[0]
    with pytest.raises(ConfigError, match="--resume"):
        ceiling.studied(ceiling.parser().parse_args(words))
    (tmp_path / "studies" / "mine" / ceiling.ROW).unlink()  # as if stopped before the end
    monkeypatch.setattr(training, "train", None)  # nothing is trained again
    assert ceiling.studied(ceiling.parser().parse_args([*words, "--resume"])) == rows
    with pytest.raises(ConfigError, match="these options"):
        ceiling.studied(ceiling.parser().parse_args([*words[:1], *words[2:], "--resume"]))


def test_the_error_of_a_difference_is_that_of_days_and_of_seeds() -> None:
    random, days = np.random.default_rng(0), 400
    clusters = np.repeat(np.arange(days), 5)
    common = np.repeat(random.normal(0, 10, days), 5)  # cancels
    by_day = np.repeat(random.normal(0, 1, days), 5)
    one, other = common + 0.3 + by_day, common
    found = paired(one, other, clusters)
    assert found.days == days
    assert found.bps == pytest.approx(0.3 + by_day.mean())
    assert found.se_bps == pytest.approx(1 / days**0.5, rel=0.1)
    seeds = paired([one, one + 2.0], other, clusters)
    assert seeds.se_bps == pytest.approx(np.hypot(found.se_bps, 1.0), rel=0.01)  # std sqrt 2 over sqrt 2 seeds


def test_a_search_finds_the_better_half_and_keeps_its_trials(tmp_path: Path) -> None:
    seen: list[int] = []

    def evaluate(value: float, number: int) -> float:
        seen.append(number)
        return -((value - 0.8) ** 2)

    def draw(trial: object) -> float:
        return float(trial.suggest_float("x", 0, 1))  # pyrefly: ignore[missing-attribute]

    for trials in (15, 30):
        best = search(draw, evaluate, tmp_path / "journal", trials, 2, lambda done: None, [{"x": 0.7}], 3)
    assert sorted(seen) == list(range(30))  # two at a time
    assert len(best) == 3
    assert max(abs(one - 0.8) for one in best) < 0.1


def test_a_bad_option_says_so(tmp_path: Path) -> None:
    for words in (["thin", "--seeds", "0"], ["thin", "--data", "file"], ["absent"]):
        with pytest.raises(ConfigError):
            ceiling.studied(ceiling.parser().parse_args([*words, "--output", str(tmp_path / "studies")]))


@pytest.mark.long
def test_ctrl_c_stops_at_once_and_resume_continues(task: Path, tmp_path: Path) -> None:
    studies = tmp_path / "studies"
    command = [
        sys.executable,
        "-m",
        "benchmarks.ceiling",
        str(task),
        "--output",
        str(studies),
        "--trials",
        "3",
        "--trainings",
        "0",
    ]
    command += ["--seeds", "2", "--orders", "6", "--search-orders", "4", "--steps-share", "0.02"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as running:
        while not list(studies.glob("mine/training/*")):
            assert running.poll() is None
            time.sleep(0.2)
        running.send_signal(signal.SIGINT)
        assert "--resume" in running.communicate(timeout=60)[1]
    assert running.returncode == 130
    before = json.loads((studies / "mine" / "measured.json").read_text())
    done = subprocess.run([*command, "--resume", "--json"], check=True, capture_output=True, text=True)
    assert json.loads(done.stdout)[0]["seeds"] == 2
    after = json.loads((studies / "mine" / "measured.json").read_text())
    assert before.items() <= after.items()
