"""Tasks: the shipped ones are complete, a configuration is filled in from its task, and the parts have other days."""

import json
from pathlib import Path

import pytest
import yaml

from serl.agents.learning.environments import Scenario
from serl.agents.learning.settings import SAVED
from serl.exchange.errors import ConfigError
from serl.researcher.modules.contracts import Kind
from serl.researcher.modules.example import example
from serl.researcher.outer.config import load_config, parse_config
from serl.researcher.tasks import load_task, task_names
from tests.agents.execution.test_data import rows, write

RULE = f"budget: {{static_steps: 0, dynamic_steps: 0}}\nincumbent: {{policy: {example(Kind.POLICY, 'spec')}}}\n"
"""Settings of a run without training."""
SIMULATED = [name for name in task_names() if not load_task(name).expects]


def test_there_are_eight_tasks_with_simulated_days() -> None:
    assert len(SIMULATED) >= 8


@pytest.mark.parametrize("name", SIMULATED)
def test_no_day_is_in_two_parts(name: str) -> None:
    market = load_task(name).settings().market
    parts = [
        {
            hours.day
            for hours in Scenario(market.model_copy(update={"part": part, "environments": 1})).source.hours(part)
        }
        for part in ("train", "validation", "test")
    ]
    assert len(set.union(*parts)) == sum(map(len, parts)) == 3 * market.simulated_days


@pytest.mark.parametrize("name", SIMULATED)
def test_a_task_fills_in_a_configuration(name: str) -> None:
    task, config = load_task(name), parse_config({"task": name}, "here")
    assert (config.inner, config.budget, config.kinds) == (task.settings(), task.budget, task.kinds)
    assert parse_config(config.model_dump(mode="json"), "saved") == config


def test_what_a_configuration_gives_stays() -> None:
    values = {
        "task": "thin",
        "kinds": ["policy"],
        "budget": {"static_steps": 7},
        "inner": {"market": {"duration_s": 60}},
    }
    config = parse_config(values, "here")
    assert (config.kinds, config.budget.static_steps, config.budget.dynamic_steps) == ((Kind.POLICY,), 7, 0)
    assert (config.inner.market.duration_s, config.inner.market.population) == (60, "thin")


def test_a_task_fills_in_a_configuration_that_gives_some_of_each_setting() -> None:
    incumbent = {"policy": json.loads(example(Kind.POLICY, "spec"))}
    values = {"task": "thin", "kinds": ["policy"], "budget": {}, "incumbent": incumbent, "inner": {"orders": 7}}
    config = parse_config(values, "here")
    assert (config.inner.orders, config.inner.market) == (7, load_task("thin").settings().market)


def test_a_saved_configuration_does_not_change_with_the_file_of_its_task(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(load_task("thin").model_dump(mode="json", exclude={"name"})))
    config = parse_config({"task": str(path)}, "here")
    path.unlink()
    assert parse_config(config.model_dump(mode="json"), "saved", SAVED) == config


def test_a_task_without_its_data_names_what_it_expects(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"expected a file of one-minute bars of US stocks.*got no data"):
        load_task("bars-us").settings()
    with pytest.raises(ConfigError, match="got no data"):
        parse_config({"task": "bars-us"}, "here")
    with pytest.raises(ConfigError, match=r"no file .*absent.parquet"):
        load_task("bars-us").settings([tmp_path / "absent.parquet"])
    with pytest.raises(ConfigError, match="expected no data"):
        load_task("thin").settings([tmp_path / "absent.parquet"])


def test_data_is_given_like_that_of_any_configuration(tmp_path: Path) -> None:
    write(bars := tmp_path / "bars.parquet", rows())
    (config := tmp_path / "mine.yaml").write_text("task: bars-us\n")
    found = load_config(config, [bars])
    assert (found.inner.market.data, found.inner.market.impact_bps) == ([bars], 2.5)


def test_an_incumbent_is_a_candidate_of_specifications() -> None:
    spec = {"trunk": [], "policy": [64], "value": [64], "activation": "tanh", "normalise": "none", "residual": "no"}
    task = load_task("thin").model_copy(update={"incumbent": {Kind.AGENT: spec}})
    assert not load_task("thin").first_candidate.modules
    assert set(task.first_candidate.modules) == {Kind.AGENT}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[", "expected YAML"),
        ("about: 2020-99-99", "expected YAML"),
        ("version: 0\nabout: x\nkinds: []\ninner: {}", "version"),
        ("surprise: 1", "surprise"),
    ],
)
def test_a_file_that_is_no_task(tmp_path: Path, text: str, said: str) -> None:
    (path := tmp_path / "bad.yaml").write_text(text)
    with pytest.raises(ConfigError, match=said):
        load_task(str(path))
    with pytest.raises(ConfigError, match="expected a YAML file or one of"):
        load_task("absent")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[1]", "expected a valid dictionary"),
        ("inner: 5", "inner: expected a valid dictionary"),
        ("inner: {market: 5}", r"inner\.market: expected a valid dictionary"),
        ("task: liquid\ninner: 5", "inner: expected a valid dictionary"),
        ("task: liquid\ninner: {market: 5}", r"inner\.market: expected a valid dictionary"),
        ("task: liquid\ninner: {market: {data: 5}}", r"inner\.market\.data: expected a valid list"),
        ("budget: {wall_s: .nan}", r"budget\.wall_s"),
        ("budget: {wall_s: -1}", r"budget\.wall_s"),
        ("budget: {static_steps: -1}", r"budget\.static_steps"),
        ("budget: {seed: -1}", r"budget\.seed"),
        ("budget: {static_steps: 0, dynamic_steps: 0}", "expected steps of training, got none"),
        ("inner: {market: {kind: dynamic}, dynamic: {first_day: 1}}", "expected the same first_day .* got 0 and 1"),
        (f"{RULE}kinds: [policy, reward]", "expected steps of training for candidates of policy, reward, got none"),
    ],
)
@pytest.mark.parametrize("market", [[], [Path("own.day")]], ids=["", "market"])
def test_settings_that_are_none_are_named(tmp_path: Path, text: str, said: str, market: list[Path]) -> None:
    (path := tmp_path / "bad.yaml").write_text(text)
    if market and text.startswith("task: liquid") and "data" in text:
        said = "expected no data"
    with pytest.raises(ConfigError, match=said):
        load_config(path, market)
