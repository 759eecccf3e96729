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


def test_a_researcher_that_fails_leaves_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine without a network."""
    monkeypatch.setenv("SERL_MODELS", str(tmp_path / "models"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    output = tmp_path / "output"
    done = demo("--no-dashboard", "--speed", "100", folder=output)
    assert done.returncode == 2, "one part of what was asked for is missing"
    assert "no researcher from here on, as with --no-researcher: model ended with exit status 2" in done.stdout
    numbers = json.loads((output / "demo.json").read_text())
    assert numbers["executions"]["twap"]["filled_lots"] == 5000
    assert numbers["research"]["failed"].startswith("model ended with exit status 2; it said: ")
    assert "There was no researcher: model ended" in (output / "demo.html").read_text()
    assert "report: " in done.stdout and "Traceback" not in done.stderr


def test_a_day_is_replayed(tmp_path: Path) -> None:
    write_day(generate_day(2), tmp_path / "own.day")
    done = demo(*QUIETLY, "--speed", "200", "--day", str(tmp_path / "own.day"), folder=tmp_path / "output")
    assert done.returncode == 0, done.stderr
    numbers = json.loads((tmp_path / "output" / "demo.json").read_text())
    assert numbers["executions"]["twap"]["PA_bps"] is not None


def test_the_market_waits_for_the_research_and_for_what_it_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that is busy takes longer to research than a market's day, and longer to start a policy than the way to its window."""
    monkeypatch.setattr("serl.demo.full.LATE", "09:34")
    monkeypatch.setattr("serl.demo.full.LEAD_S", 60)
    monkeypatch.setattr("serl.researcher.outer.report.winner", lambda run: Path("twap"))
    order = DemoOrder("SIM", "sell", 300, "09:31-09:33", 10, "16:00")
    with contextlib.ExitStack() as stack:
        scene = Scene(Plan(order, None, 60.0, tmp_path, None, researcher=False), stack)
        list(scene.run())
        scene.start("researcher", "doctor")
        assert next(filter(None, scene._researched())) == "the clock is held until the researcher has ended"
        assert scene.watcher is not None
        scene.watcher.look(1.0)
        held_ns = scene.watcher.time_ns
        scene.watcher.look(1.0)
        assert scene.watcher.time_ns == held_ns
        said = [line for line in scene._winner() if line is not None]
        assert said[0].startswith("the clock is held until the policy that was found is there")
        (report,) = (tmp_path / "learnt").glob("*.json")
        assert json.loads(report.read_text())["summary"]["filled_lots"] == 300
        monkeypatch.setattr("serl.demo.full.CLOSE", "09:34")
        too_late = "researcher: it is too late in the market's day to execute what it found; the policy is twap"
        assert [line for line in scene._winner() if line is not None] == [too_late]


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
