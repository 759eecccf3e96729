"""`serl train` of the baselines in the replay of a day, and `serl evaluate` with all of them."""

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from serl.agents.learning.cli import train
from serl.agents.learning.cli_evaluate import evaluate
from serl.agents.learning.files import read
from serl.agents.learning.training import load_config
from serl.exchange.config import time_of_day_ns
from serl.history.day import write_day
from serl.history.generate import generate_day

MARKET = {"hours": "09:35-10:25", "environments": 4, "duration_s": 60, "interval_s": 10}
MODES = {"opd": "market", "halop": "limit", "macmic": "hybrid"}
SETTINGS = {"opd": {}, "halop": {"warm_up": 50, "batch": 16}, "macmic": {"interval_steps": 3}}
CONFIGS = Path(__file__).parents[3] / "configs" / "training"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("baselines")
    write_day(generate_day(3, start_ns=time_of_day_ns("09:30"), end_ns=time_of_day_ns("10:30")), made / "a.day")
    for name, mode in MODES.items():
        settings = {"name": name, "algorithm": name, "market": MARKET | {"actions": mode}, name: SETTINGS[name]}
        (made / f"{name}.yaml").write_text(yaml.safe_dump(settings))
    return made


def trained(folder: Path, name: str) -> Result:
    arguments = (folder / f"{name}.yaml", "--market", folder / "a.day", "--steps", 240, "--seed", 3, "--output")
    return CliRunner().invoke(train, [str(argument) for argument in (*arguments, folder / name)])


@pytest.mark.long
def test_train_and_evaluate(folder: Path) -> None:
    for name in MODES:
        done = trained(folder, name)
        assert done.exit_code == 0, done.output
        _, metadata = read(folder / name / "policy.safetensors", name)
        assert (metadata["steps"], metadata["seed"]) == (240, 3)
        assert metadata["data"][0]["data"] == "a.day"
    again = trained(folder, "opd")
    assert again.exit_code == 2
    assert "already contains a run" in again.output
    resumed = CliRunner().invoke(train, ["--resume", str(folder / "opd")])
    assert resumed.exit_code == 0 and "after 240 steps" in resumed.output, (resumed.output, resumed.exception)
    # the hours of the settings are those of one part, and an hour has no other on which the rule could be fitted
    options = ("--market", folder / "a.day", "--config", folder / "opd.yaml", "--part", "train")
    policies = [folder / name / "policy.safetensors" for name in MODES]
    arguments = (*policies, *options, "--episodes", 8, "--output", folder / "reports")
    done = CliRunner().invoke(evaluate, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.output
    table = (folder / "reports" / "evaluation.md").read_text()
    assert all(f"| {name} |" in table for name in ("TWAP", *MODES))


@pytest.mark.parametrize("name", MODES)
def test_settings_that_come_with_serl(name: str) -> None:
    config = load_config(CONFIGS / f"{name}.yaml")
    assert (config.algorithm, config.market.actions) == (name, MODES[name])
