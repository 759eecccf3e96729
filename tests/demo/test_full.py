"""The demo with traders in processes of their own, a replayed day, and the execution by the policy that a researcher found."""

import contextlib
import json
import subprocess
from pathlib import Path

import pytest

from serl.clients.processes import SERL
from serl.demo.full import Plan, Scene
from serl.demo.order import DemoOrder
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


def found_policy(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a demo says whose researcher has found that TWAP is best."""
    order = DemoOrder("SIM", "sell", 300, "09:31-09:33", 10, "16:00")
    plan = Plan(order, None, 60.0, folder, None, researcher=False)
    monkeypatch.setattr("serl.researcher.outer.report.winner", lambda run: Path("twap"))
    with contextlib.ExitStack() as stack:
        scene = Scene(plan, stack)
        said = [line for steps in (scene.run(), scene._winner()) for line in steps if line is not None]
        assert "learnt" in scene.executed or "learnt" not in scene.children
    return said


def test_the_market_waits_for_the_policy_that_was_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that is busy takes longer to start a policy than the market takes to its window."""
    monkeypatch.setattr("serl.demo.full.LEAD_S", 0)
    said = found_policy(tmp_path, monkeypatch)
    assert any(line.startswith("the clock is held until the policy") for line in said)
    (report,) = (tmp_path / "learnt").glob("*.json")
    assert json.loads(report.read_text())["summary"]["filled_lots"] == 300


def test_a_policy_that_is_found_after_the_market_is_only_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("serl.demo.full.CLOSE", "09:34")
    assert found_policy(tmp_path, monkeypatch)[-1].endswith(
        "too late in the market's day to execute what it found; the policy is twap"
    )


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
