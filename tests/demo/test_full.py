"""The full demo: simulated traders, a replayed day, and an execution by the researcher's policy."""

import contextlib
import dataclasses
import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from serl.agents.realism.days import day_origin
from serl.agents.traders import simulate
from serl.agents.traders.errors import PopulationError
from serl.agents.traders.population import load_population
from serl.cli import serl
from serl.clients.blocking import connect
from serl.clients.dashboard.flow import Flow
from serl.clients.processes import SERL
from serl.demo import research
from serl.demo.cli import SPEED
from serl.demo.full import RESEARCHER_NICENESS, Plan, Scene
from serl.demo.market import Watcher
from serl.demo.order import OPEN, DemoOrder
from serl.demo.report import write_report
from serl.demo.source import replayed, simulated
from serl.exchange.config import time_of_day_ns
from serl.history.day import write_day
from serl.history.generate import generate_day
from serl.researcher.outer.config import load_config
from tests.server_fixture import start_exchange

QUIETLY = ("--no-researcher", "--no-dashboard")


def demo(*options: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*SERL, "demo", *options, "--output", str(folder)], capture_output=True, text=True, timeout=500
    )


def quiet_traders(folder: Path) -> str:
    """A file with few traders of the kinds of `small`, who make a twentieth of its events: what one event costs is not tested here."""
    limit_per_s, cancel_per_s = [0.05] + [0.0] * 29, [0.0] * 30
    flow = {"limit_per_s": limit_per_s, "cancel_per_s": cancel_per_s, "market_per_s": 0.02, "opening_levels": 60}
    values = load_population("small").model_dump(mode="json")
    for group, count, profile in zip(values["groups"], (1, 2, 2), (flow, {}, {}), strict=True):
        group["count"], group["profile"] = count, group["profile"] | profile
    (path := folder / "quiet.yaml").write_text(yaml.safe_dump(values | {"name": "quiet"}))
    return str(path)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """The output folder of a demo with simulated traders, what it printed, and the traders. It runs in this process, so that its children are forks."""
    folder = tmp_path_factory.mktemp("done")
    traders = quiet_traders(tmp_path_factory.mktemp("traders"))
    options = ("--speed", "400", "--population", traders, "--seed", "3", "--output", str(folder))
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("COLUMNS", "200")  # the demo sets it for its children
        ended = CliRunner().invoke(serl, ["demo", *QUIETLY, *options], catch_exceptions=False)
    assert ended.exit_code == 0, ended.stderr
    return folder, ended.stdout, traders


def test_simulated_traders_and_an_execution(done: tuple[Path, str, str]) -> None:
    tmp_path, printed, traders = done
    numbers = json.loads((tmp_path / "demo.json").read_text())
    assert list(numbers["executions"]) == ["twap"]
    assert numbers["executions"]["twap"]["filled_lots"] == 1500
    page = (tmp_path / "demo.html").read_text()
    assert "data:image/png;base64," in page
    assert "one parent order" in page
    assert "report: " in printed
    assert "Ctrl-C stops them" not in printed, "without a dashboard there is nothing to stay for"
    fingerprint = simulate.fingerprint(load_population(traders))
    assert (numbers["made"]["data"], numbers["made"]["seed"]) == (f"population quiet sha256 {fingerprint}", 3)
    assert f"sha256 {fingerprint}" in page
    assert "seed 3" in printed
    assert len(list((tmp_path / "flow").glob("traders-quiet-*.jsonl"))) == 1, "the host has counted what it sent"
    flow = Flow(tmp_path / "flow")
    flow.read()
    kinds = flow.as_json("DEMO")["kinds"]
    assert set(kinds) == {"zero_intelligence", "value", "noise", "twap"}
    _, market_orders, _, lots = map(sum, kinds["twap"])
    assert market_orders >= 36
    assert lots >= 1500


def test_the_report_so_far_is_written_while_the_researcher_works(done: tuple[Path, str, str], tmp_path: Path) -> None:
    shutil.copytree(done[0] / "twap", tmp_path / "twap")
    with contextlib.ExitStack() as stack:
        scene = Scene(Plan(simulated("small", 3), 200.0, tmp_path, None, researcher=True), stack, executed=["twap"])
        page = write_report(scene)
        assert json.loads((tmp_path / "demo.json").read_text())["research"] == {"ended": False}
        assert "The researcher is still running" in page.read_text()


def test_parts_of_the_demo_run_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The researcher's lines appear while the order is worked."""
    events = []
    monkeypatch.setattr(Scene, "_poll", lambda scene: events.append("poll"))
    worked = iter([None, None, None, "order done"])
    research = iter(["proposing", "training", None, "scored"])
    with contextlib.ExitStack() as stack:
        scene = Scene(Plan(simulated("small", 1), 30.0, tmp_path, None, researcher=True), stack)
        for line in scene.beside(worked, research):
            if line is not None:
                events.append(line)
    assert events == ["proposing", "training", "poll", "order done", "scored"]


@pytest.mark.long
def test_a_researcher_that_fails_leaves_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine without a network."""
    monkeypatch.setenv("SERL_MODELS", str(tmp_path / "models"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    output = tmp_path / "output"
    done = demo("--no-dashboard", "--speed", "100", folder=output)
    assert done.returncode == 2, "one part of what was asked for is missing"
    assert "continuing without the researcher, which failed: model exited with status 2" in done.stdout
    numbers = json.loads((output / "demo.json").read_text())
    assert numbers["executions"]["twap"]["filled_lots"] == 1500
    assert numbers["research"]["failed"].startswith("model exited with status 2; its output: ")
    assert "The researcher failed: model exited" in (output / "demo.html").read_text()
    assert "report: " in done.stdout and "Traceback" not in done.stderr


@pytest.mark.long
def test_a_day_is_replayed(tmp_path: Path) -> None:
    write_day(generate_day(2, commands_per_s=2.0), tmp_path / "own.day")
    done = demo(*QUIETLY, "--speed", "200", "--day", str(tmp_path / "own.day"), folder=tmp_path / "output")
    assert done.returncode == 0, done.stderr
    numbers = json.loads((tmp_path / "output" / "demo.json").read_text())
    twap = numbers["executions"]["twap"]
    assert twap["PA_bps"] is not None
    assert twap["PA_twap_bps"] is not None, "the executor knows the day"
    origin = day_origin(generate_day(2, commands_per_s=2.0))
    assert (numbers["made"]["data"], numbers["made"]["seed"], twap["day"]) == (origin, None, origin)


def _time_after(watcher: Watcher, seconds: float) -> int:
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        watcher.receive(0.1)
    return watcher.time_ns


@pytest.mark.long
def test_the_market_waits_for_the_research_and_for_what_it_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that is busy takes longer to research than a market's day, and longer to start a policy than the way to its window."""
    monkeypatch.setattr("serl.demo.full.HOLD_FROM", "09:34")
    monkeypatch.setattr("serl.demo.full.LEAD_S", 60)
    monkeypatch.setattr("serl.researcher.outer.report.winner", lambda run: Path("twap"))
    order = DemoOrder("DEMO", "sell", 300, "09:31-09:33", 10, "16:00")
    source = dataclasses.replace(simulated("liquid", 1), order=order)
    with contextlib.ExitStack() as stack:
        scene = Scene(Plan(source, 60.0, tmp_path, None, researcher=False), stack)
        list(scene.run())
        scene.start("researcher", "doctor")
        waiting = scene.beside(scene._wait_for_researcher())
        assert next(filter(None, waiting)) == "the clock is held until the researcher has ended"
        assert scene.watcher is not None
        held_ns = _time_after(scene.watcher, 2.5)  # the exchange tells the time once a second
        assert _time_after(scene.watcher, 1.0) == held_ns
        lines = [line for line in scene.beside(scene._execute_best()) if line is not None]
        assert lines[0].startswith("the clock is held until the best policy has logged in")
        (report,) = (tmp_path / "learnt").glob("*.json")
        assert json.loads(report.read_text())["summary"]["filled_lots"] == 300
        monkeypatch.setattr("serl.demo.full.CLOSE", "09:34")
        too_late = "researcher: it is too late in the market's day to execute the best policy, twap"
        assert [line for line in scene.beside(scene._execute_best()) if line is not None] == [too_late]


def test_the_first_report_takes_less_than_a_minute(tmp_path: Path) -> None:
    """The market's time up to the report, at the default speed, leaves more than half of it for the start."""
    write_day(generate_day(2, commands_per_s=2.0), tmp_path / "own.day")
    for source in (simulated("amzn", 1), replayed(tmp_path / "own.day", tmp_path / "copy.day")):
        start, _, _ = source.order.window.partition("-")
        until_ns = time_of_day_ns(start) + source.order.duration_ns - time_of_day_ns(OPEN)
        assert until_ns * 1e-9 / float(SPEED) < 25


def test_the_researcher_learns_in_the_market_that_its_policy_trades_in(tmp_path: Path) -> None:
    config, path = research.options(simulated("amzn", 1), tmp_path)
    assert config == "--config"
    settings, shipped = load_config(Path(path)), load_config(Path("demo"))
    assert settings.inner.dynamic == shipped.inner.dynamic.model_copy(update={"population": "amzn"})
    assert settings.model_copy(update={"inner": shipped.inner}) == shipped
    write_day(generate_day(2, commands_per_s=2.0), tmp_path / "own.day")
    source = replayed(tmp_path / "own.day", tmp_path / "copy.day")
    assert list(research.options(source, tmp_path)) == ["--config", "demo", "--market", str(tmp_path / "copy.day")]


def test_the_market_goes_before_the_researcher(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        scene = Scene(Plan(simulated("amzn", 1), 30.0, tmp_path, None, researcher=False), stack)
        one = scene.start("researcher", "doctor")
        scene._lower_priority(one)
        own = os.getpriority(os.PRIO_PROCESS, 0)
        assert os.getpriority(os.PRIO_PROCESS, one.process.pid) == min(19, own + RESEARCHER_NICENESS)


def test_a_population_of_another_day_is_refused(tmp_path: Path) -> None:
    late = tmp_path / "late.yaml"
    late.write_text('name: late\nopen: "10:00"\ngroups: [{ trader: zero_intelligence }]\n')
    with pytest.raises(PopulationError, match="expected trading hours from 09:30 to 16:00, got 10:00 to 16:00"):
        simulated(str(late), 1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--speed", "max"), "use one like 30"),
        (("--speed", "-1"), "positive number"),
        (("--day", "nowhere.zip"), "nowhere.zip"),
        (("--day", "nowhere.zip", "--seed", "3"), "expected none with --day"),
        (("--day", "nowhere.zip", "--population", "small"), "--population: expected simulated traders"),
        (("--quick", "--population", "small"), "--population: expected simulated traders"),
        (("--population", "nobody"), "expected a YAML file or one of amzn"),
    ],
)
def test_bad_options_are_one_line(options: tuple[str, ...], words: str, tmp_path: Path) -> None:
    done = demo(*QUIETLY, *options, folder=tmp_path)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_the_ladder_shows_prices_with_the_decimals_of_a_tick() -> None:
    with start_exchange(symbols="DEMO=0.0001") as served, connect(served.endpoint, "me") as client:
        client.buy("DEMO", 5, 12_345)
        watcher = Watcher(served.endpoint, "DEMO")
        try:
            (price,) = watcher.table().columns[1].cells
        finally:
            watcher.close()
    assert price == "1.2345"
