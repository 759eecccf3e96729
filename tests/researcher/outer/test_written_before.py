"""Runs whose database was written before settings were renamed go on; in users' files the old names are refused."""

import json
from pathlib import Path

import pytest

from serl.agents.execution.data import TRAIN
from serl.agents.learning.folds import FOLD, fold_seeds
from serl.agents.learning.settings import SAVED
from serl.exchange.errors import ConfigError
from serl.researcher.outer import run
from serl.researcher.outer.config import parse_config

CONFIG = Path(__file__).parent / "config_written_before.json"


def test_a_run_of_the_old_code_is_opened_and_resumed(tmp_path: Path) -> None:
    saved = json.loads(CONFIG.read_text())
    assert {"discount", "trace"} < set(saved["inner"]["ppo"])
    config = parse_config(saved, "saved", SAVED)
    assert config.inner.market.fills == "touch", "bars had no other model"
    tuned = parse_config(saved | {"low_level": {"tuning": {"rank": 8}}}, "saved", SAVED).low_level
    assert tuned and tuned.tuning.layers is None, "all layers were trained"
    assert (config.inner.ppo.gamma, config.inner.ppo.gae_lambda) == (1.0, 0.9)
    database = run.begin(tmp_path, config, "test", resume=False)
    database.set_fact("config", saved)
    database.close()
    database, opened = run.open_run(tmp_path)
    database.close()
    assert opened == config
    run.begin(tmp_path, config, "test", resume=True).close()


def test_the_old_name_of_a_setting_is_refused_with_the_new_one() -> None:
    with pytest.raises(ConfigError, match=r"mine\.yaml: inner\.ppo: .*expected gamma, got discount; use the new name"):
        parse_config({"inner": {"ppo": {"discount": 1.0}}}, "mine.yaml")


def test_a_setting_that_has_no_effect_now_is_refused_but_in_a_run_from_before() -> None:
    """It was taken, and limited nothing."""
    assert parse_config({"population": 2}, "saved", SAVED) == parse_config({}, "test")
    with pytest.raises(ConfigError, match=r"population: expected one of .*, got an unknown name"):
        parse_config({"population": 2}, "mine.yaml")


def test_a_run_of_code_keeps_the_secret_number_of_its_scored_days(tmp_path: Path) -> None:
    code, spec = (parse_config({"form": form}, "test") for form in ("code", "spec"))
    assert run.with_secret_days(spec, tmp_path, resume=False) == spec
    drawn = [run.with_secret_days(code, tmp_path, resume=False) for _ in range(4)]
    numbers = {each.inner.first_scored_day for each in drawn}
    assert len(numbers) > 1
    assert all(number is not None and 10_000 <= number < 860_000 for number in numbers)
    run.begin(tmp_path, drawn[0], "test", resume=False).close()
    assert run.with_secret_days(code, tmp_path, resume=True) == drawn[0]
    assert run.with_secret_days(drawn[1], tmp_path, resume=False) == drawn[1], "a number that is given stays"


def test_scored_days_are_not_trained_on_but_in_a_run_from_before() -> None:
    parse_config({"inner": {"first_scored_day": 0}}, "test")
    config = parse_config({"inner": {"first_scored_day": 35}}, "test")
    for seed in range(3):
        inner = config.inner.of_seed(seed)
        scored = {35 + day for day in fold_seeds(FOLD, inner.dynamic)}
        assert not scored & set(fold_seeds(TRAIN, inner.dynamic))
    assert parse_config({"inner": {"first_scored_day": 1}}, "test", SAVED).inner.first_scored_day == 1


def test_a_run_of_code_from_before_goes_on_with_the_days_it_began_with(tmp_path: Path) -> None:
    before = parse_config({"form": "code"}, "test")
    run.begin(tmp_path, before, "test", resume=False).close()
    resumed = run.with_secret_days(before, tmp_path, resume=True)
    assert resumed == before
    run.begin(tmp_path, resumed, "test", resume=True).close()
