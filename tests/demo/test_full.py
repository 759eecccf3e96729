"""The demo with traders in processes of their own, and a replayed day; what the researcher adds is in test_research.py."""

import json
import subprocess
from pathlib import Path

import pytest

from serl.clients.processes import SERL
from serl.exchange.history.day import write_day
from serl.exchange.history.generate import generate_day

QUIETLY = ("--no-researcher", "--no-dashboard")


def demo(*options: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*SERL, "demo", *options, "--output", str(folder)], capture_output=True, text=True, timeout=500
    )


def test_simulated_traders_and_an_execution(tmp_path: Path) -> None:
    done = demo(*QUIETLY, "--speed", "60", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    numbers = json.loads((tmp_path / "demo.json").read_text())
    assert list(numbers["executions"]) == ["twap"]
    assert numbers["executions"]["twap"]["filled_lots"] == 5000
    page = (tmp_path / "demo.html").read_text()
    assert "data:image/png;base64," in page
    assert "no interval can be given" in page
    assert "report: " in done.stdout
    assert len(list((tmp_path / "flow").glob("*.jsonl"))) == 2, "each host has counted what it sent"


def test_a_day_is_replayed(tmp_path: Path) -> None:
    write_day(generate_day(2), tmp_path / "own.day")
    done = demo(*QUIETLY, "--speed", "200", "--day", str(tmp_path / "own.day"), folder=tmp_path / "output")
    assert done.returncode == 0, done.stderr
    numbers = json.loads((tmp_path / "output" / "demo.json").read_text())
    assert numbers["executions"]["twap"]["PA_bps"] is not None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--speed", "max"), "a number, like 30"),
        (("--speed", "-1"), "positive number"),
        (("--day", "nowhere.zip"), "nowhere.zip"),
    ],
)
def test_what_cannot_be_is_one_line(options: tuple[str, ...], words: str, tmp_path: Path) -> None:
    done = demo(*QUIETLY, *options, folder=tmp_path)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
