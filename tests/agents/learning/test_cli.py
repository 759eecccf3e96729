"""`serl train` and `serl evaluate`."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from serl import cli
from serl.agents.learning.files import read
from serl.exchange.config import time_of_day_ns
from serl.history.day import write_day
from serl.history.generate import generate_day
from tests.agents.execution.test_data import rows, write

SETTINGS: dict[str, Any] = {
    "name": "short",
    "market": {"hours": "09:35-10:25", "environments": 4, "duration_s": 60, "interval_s": 10},
    "ppo": {"steps": 4 * 6 * 20, "rollout_steps": 6, "minibatch": 24, "epochs": 1},
    "checkpoint_updates": 4,
}


def serl(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "serl", *arguments], capture_output=True, text=True)


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs a command that fails, in this process because importing torch takes seconds; returns its message."""

    def message_of(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["serl", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli._run()
        assert ended.value.code == 2
        return capsys.readouterr().err

    return message_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("learning")
    write_day(generate_day(3, start_ns=time_of_day_ns("09:30"), end_ns=time_of_day_ns("10:30")), made / "a.day")
    (made / "short.yaml").write_text(yaml.safe_dump(SETTINGS))
    (made / "wide.yaml").write_text(yaml.safe_dump({"market": SETTINGS["market"] | {"environments": 32}}))
    return made


@pytest.mark.long
def test_train_and_evaluate(folder: Path) -> None:
    run, reports = folder / "run", folder / "reports"
    done = serl("train", str(folder / "short.yaml"), "--market", str(folder / "a.day"), "--output", str(run))
    assert done.returncode == 0, done.stderr
    _, metadata = read(run / "policy.safetensors", "policy")
    assert metadata["steps"] == 480
    assert metadata["data"][0]["data"] == "a.day"
    assert len(metadata["data"][0]["fingerprint"]) == 16
    again = serl("train", str(folder / "short.yaml"), "--market", str(folder / "a.day"), "--output", str(run))
    assert again.returncode == 2
    assert f"--resume {run}" in again.stderr
    # the hours of the settings are those of one part, and an hour has no other on which the rule could be fitted
    market = (
        "--market",
        str(folder / "a.day"),
        "--config",
        str(folder / "wide.yaml"),
        "--part",
        "train",
        "--episodes",
        "8",
    )
    done = serl(
        "evaluate",
        str(run),
        "twap:limit",
        "passive",
        *market,
        "--kind",
        "static",
        "--kind",
        "replay",
        "--output",
        str(reports),
    )
    assert done.returncode == 0, done.stderr
    assert "patience: Patience(" in done.stdout
    lines = [line for line in (reports / "evaluation.md").read_text().splitlines() if line.startswith("| ")]
    assert [line.split("|")[1].strip() for line in lines] == [
        "policy",
        "TWAP",
        "patience",
        "run",
        "twap:limit",
        "passive",
    ] * 2
    assert "a.day (fingerprint " in done.stdout
    assert {path.name for path in reports.iterdir()} == {
        f"evaluation.{suffix}" for suffix in ("md", "csv", "html", "json")
    }


@pytest.mark.long
def test_interrupted_and_resumed(folder: Path) -> None:
    run = folder / "long"
    started = subprocess.Popen(
        [sys.executable, "-m", "serl", "train", str(folder / "short.yaml"), "--market", str(folder / "a.day"),
         "--steps", "100000000", "--output", str(run)],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while not (run / "checkpoint.safetensors").exists():
        assert started.poll() is None, started.communicate()[1]
        time.sleep(0.02)
    os.kill(started.pid, signal.SIGINT)
    _, errors = started.communicate()
    assert started.returncode == 128 + signal.SIGINT
    assert f"serl train --resume {run}" in errors
    config = yaml.safe_load((run / "config.yaml").read_text())
    config["ppo"]["steps"] = 480
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    done = serl("train", "--resume", str(run))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ppo: {clip: -1}", "ppo.clip"),
        ("agents: 3", "agents"),
        ("market: {hours: noon}", "market.hours"),
        ("market: {latency_us: 10000001}", "expected latency_us of at most the 10 s between two decisions"),
        ("ppo: {seed: 9223372036854775808}", "ppo.seed"),
        ("{algorithm: opd, opd: {seed: 9223372036854775808}}", "opd.seed"),
    ],
)
def test_invalid_settings_are_one_line(tmp_path: Path, refused: Callable[..., str], text: str, message: str) -> None:
    (tmp_path / "bad.yaml").write_text(text)
    assert message in refused("train", str(tmp_path / "bad.yaml"))


def test_the_shipped_settings_are_valid_and_need_a_day(refused: Callable[..., str]) -> None:
    assert "expected at least one file" in refused("train", "replay")


@pytest.mark.long
def test_the_tables_of_bars_say_which_fills_they_assume(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "a.parquet", rows())
    (tmp_path / "bars.yaml").write_text(
        "market: {kind: static, interval_s: 60, duration_s: 180, environments: 8, spreads: stock, impact_bps: 2.5}"
    )
    for fills in ("strict", "touch"):
        arguments = [
            "evaluate",
            "ac",
            "--market",
            str(path),
            "--config",
            str(tmp_path / "bars.yaml"),
            "--episodes",
            "8",
        ]
        cli.serl.main([*arguments, "--fills", fills, "--output", str(tmp_path)], standalone_mode=False)
        shown = capsys.readouterr().out
        assert f"static market of bars, fills {fills} (half spread by stock, impact 2.5 bps times" in shown
        assert "ac: AlmgrenChriss(" in shown
        for suffix in ("md", "html", "csv", "json"):
            assert f"fills {fills}" in (tmp_path / f"evaluation.{suffix}").read_text()


@pytest.mark.parametrize("command", [["train", "dynamic"], ["episodes", "clone", "some"]])
def test_seeds_beyond_the_generators_are_refused(refused: Callable[..., str], command: list[str]) -> None:
    assert "is not in the range" in refused(*command, "--seed", str(2**63))


@pytest.mark.parametrize("command", [["train", "dynamic"], ["evaluate", "twap"], ["episodes", "clone", "some"]])
def test_an_output_that_is_a_file_is_refused_at_once(
    refused: Callable[..., str], command: list[str], tmp_path: Path
) -> None:
    """`serl evaluate` said so after it had worked all orders."""
    (tmp_path / "notes").write_text("")
    assert "is a file" in refused(*command, "--output", str(tmp_path / "notes"))


def test_data_that_simulated_traders_would_ignore_are_refused(refused: Callable[..., str], tmp_path: Path) -> None:
    command = ("train", "dynamic", "--market", "a.day", "--steps", "1", "--output", str(tmp_path / "run"))
    assert "--market: expected a static or a replay market, got dynamic; " in refused(*command)


def test_decisions_between_bars_are_refused(tmp_path: Path, refused: Callable[..., str]) -> None:
    path = write(tmp_path / "a.parquet", rows())
    (tmp_path / "odd.yaml").write_text("market: {kind: static, interval_s: 90, duration_s: 180}")
    assert "expected a multiple of the bars' 60 s, got 90" in refused(
        "train", str(tmp_path / "odd.yaml"), "--market", str(path), "--output", str(tmp_path / "run")
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing", "--market", "a.day"], "a.day"),
        (["--kind", "replay"], "expected at least one file"),
        (["passive", "pov", "passive"], "POLICIES: expected different ones, got passive twice; leave one out"),
        (["--kind", "replay", "--kind", "replay"], "--kind: expected different ones, got replay twice"),
        (
            ["nothing", "--kind", "dynamic", "--population", "small", "--hours", "09:40-10:20"],
            "nothing: does not exist; give one of twap",
        ),
        (
            ["passive:market", "--kind", "dynamic", "--population", "small", "--hours", "09:40-10:20"],
            "passive: expected action mode hybrid, got 'market'",
        ),
        (["--kind", "dynamic", "--population", "small", "--part", "unseen"], "train, validation, test"),
        (["--kind", "dynamic", "--population", "nobody"], "nobody"),
        (  # before the first market is opened, whose table would be lost
            ["--kind", "replay", "--kind", "static", "--answers", "fitted", "--market", "a.day"],
            "expected none in a static market",
        ),
        (["--kind", "dynamic", "--market", "a.day"], "--market: expected a static or a replay market, got dynamic; "),
        (["--population", "small", "--market", "a.day"], "--population: expected a dynamic market, got replay; "),
    ],
)
def test_invalid_evaluations_are_one_line(refused: Callable[..., str], arguments: list[str], message: str) -> None:
    assert message in refused("evaluate", *arguments)
