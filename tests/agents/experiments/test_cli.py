"""`serl experiment` from end to end."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from serl.agents.experiments.cli import experiment
from serl.agents.experiments.errors import ExperimentError
from serl.agents.experiments.store import FILE
from serl.agents.traders.builtin import EXPERIMENTS, builtin_names
from serl.result_file import ResultFileError
from tests.test_cli import completions

TEXT = """
name: sample
population: small
until: "09:32"
seeds: 2
measures: [trades, spread_bps, variance_ratio, pnl]
arms:
  plain:
  "slow [x]": {groups.1.latency_us: 500000}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "sample.yaml"
    path.write_text(TEXT)
    return path


@pytest.mark.long
def test_a_table_a_page_and_all_numbers(file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    done = CliRunner().invoke(experiment, [str(file), "-o", str(folder)], catch_exceptions=False)
    assert "sample: 2 seeds, differences to plain" in done.stdout and "  slow [x]" in done.stdout
    assert max(map(len, done.stdout.split("wrote")[0].splitlines())) <= 80
    found = json.loads((folder / "results.json").read_text())
    assert [(run["arm"], run["seed"]) for run in found["runs"]] == [
        ("plain", 1), ("slow [x]", 1), ("plain", 2), ("slow [x]", 2),
    ]  # fmt: skip
    assert len(found["summary"]) == 2 * (3 + 3)
    assert found["arms"][1]["overrides"] == {"groups.1.latency_us": 500000} and found["arms"][1]["until"] == "09:32:00"
    assert {"command", "versions", "data"} < set(found["made"]) and found["arms"][0]["sha256"] in found["made"]["data"]
    assert (folder / "results.png").read_bytes()[:4] == b"\x89PNG"
    page = (folder / "results.html").read_text()
    assert "quoted spread, bps" in page and "slow [x]" in page and "<td>groups.1.latency_us: 500000</td>" in page
    again = CliRunner().invoke(experiment, [str(file), "-o", str(folder), "--resume", "--json"], catch_exceptions=False)
    assert json.loads(again.stdout)["runs"] == found["runs"]
    with pytest.raises(ResultFileError, match="continue with --resume"):
        experiment.main([str(file), "-o", str(folder)], standalone_mode=False)


@pytest.mark.long
def test_a_killed_experiment_continues(file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    words = [sys.executable, "-m", "serl", "experiment", str(file), "-o", str(folder), "--threads", "1", "--seeds"]
    with subprocess.Popen([*words, "20000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        wait_for_runs(folder / FILE, 1)
        process.send_signal(signal.SIGKILL)
    before = kept(folder)
    with subprocess.Popen(
        [*words, "20000", "--resume"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as continued:
        wait_for_runs(folder / FILE, len(before) + 1)
        continued.send_signal(signal.SIGINT)
        _, errors = continued.communicate(timeout=120)
    after = kept(folder)
    assert continued.returncode == 130, errors
    told = re.search(r"stopped after (\d+) of 40000 runs; continue with the same command and --resume", errors)
    assert told and len(after) - 1 <= int(told[1]) <= len(after), "one may be written while the signal comes"
    assert after[: len(before)] == before and len({(run["arm"], run["seed"]) for run in after}) == len(after)


def wait_for_runs(path: Path, count: int) -> None:
    """Returns when so many runs are kept."""
    deadline_s = time.monotonic() + 300
    while not path.exists() or path.read_bytes().count(b"\n") <= count:
        assert time.monotonic() < deadline_s, "no run ended"
        time.sleep(0.02)


def kept(folder: Path) -> list[dict[str, object]]:
    lines = (folder / FILE).read_bytes().splitlines(keepends=True)
    return [json.loads(line) for line in lines[1:] if line.endswith(b"\n")]


def test_an_unknown_name_gets_advice() -> None:
    with pytest.raises(
        ExperimentError, match=r"tick-sizes: expected a YAML file or one of .*; did you mean tick-size\?"
    ):
        experiment.main(["tick-sizes"], standalone_mode=False)


def test_the_shell_completes_names_of_experiments() -> None:
    assert completions("experiment", "") == builtin_names(EXPERIMENTS) != []
    assert completions("experiment", "t") == ["tick-size", "transaction-tax"]
