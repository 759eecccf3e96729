"""What candidates are scored on: the part and the fee that the settings say."""

from pathlib import Path
from typing import Any

import pytest

from serl.agents.execution.data import TEST, TRAIN, VALIDATION
from serl.agents.learning.folds import FOLD, fold_seeds
from serl.agents.learning.sources import FIRST_SEEDS
from serl.exchange.errors import ConfigError, SerlError
from serl.history.day import write_day
from serl.history.generate import generate_day
from serl.researcher.candidates import Candidate, Module
from serl.researcher.inner import score as scoring
from serl.researcher.inner.race_config import Race, Stage
from serl.researcher.inner.rules import rule_policy
from serl.researcher.inner.settings import DYNAMIC, STATIC, Settings
from serl.researcher.modules.contracts import Kind
from serl.researcher.modules.example import example
from serl.researcher.outer import run
from serl.researcher.outer.config import parse_config
from serl.researcher.outer.final import score_test

HOUR_NS = 3_600_000_000_000
ORDER = {"duration_s": 300, "interval_s": 30, "environments": 8, "offset_bps": 2}
RULE = Candidate({Kind.POLICY: Module("spec", example(Kind.POLICY, "spec"))})


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A generated day with a book."""
    path = tmp_path_factory.mktemp("days") / "demo.day"
    write_day(generate_day(3, commands_per_s=2.0), path)
    return path


def settings_of(day: Path, orders: int = 8, **market: Any) -> Settings:
    """Settings that score one batch on the day, in process."""
    return Settings(
        market=STATIC.model_copy(update={"data": [day], **ORDER, **market}), dynamic=DYNAMIC.model_copy(update=ORDER), day=day,
        orders=orders, folds=0, scored_in="market", race=Race(stages=(Stage(share=1.0, seeds=1),)),
    )  # fmt: skip


@pytest.mark.parametrize("scored_in", ["market", "exchange"])
@pytest.mark.parametrize(("part", "first", "last"), [(VALIDATION, 12.5, 13.0), (TEST, 13.0, 16.0)])
def test_training_hours_of_the_settings_are_not_scored_as_validation_or_test(
    day: Path, scored_in: str, part: str, first: float, last: float
) -> None:
    """The settings say that candidates train from 10:00 to 11:00 of a recorded day. The validation and the final score must then have the orders of the validation
    and the test part, and not those of the hours of the training."""
    settings = settings_of(day, hours="10:00-11:00").model_copy(update={"scored_in": scored_in})
    if scored_in == "exchange":
        starts_ns = scoring._exchange_orders(settings, part)[1]["start_ns"]
    else:
        starts_ns = scoring._market_scoring_set(settings, part).episodes["start_ns"]
    assert starts_ns.min() >= first * HOUR_NS and starts_ns.max() < last * HOUR_NS


@pytest.mark.parametrize("scored_in", ["market", "exchange"])
def test_the_score_of_a_candidate_is_after_the_fee_of_the_settings(day: Path, tmp_path: Path, scored_in: str) -> None:
    """A fee of 5 bps makes the price advantage of a candidate and of the TWAP beside it 5 bps lower, as in `serl evaluate`."""
    free, paid = (settings_of(day, fee_bps=fee).model_copy(update={"scored_in": scored_in}) for fee in (0.0, 5.0))
    policy = rule_policy(RULE, free, tmp_path)
    before, after = scoring.score(policy, free), scoring.score(policy, paid)
    assert before.pa_bps - after.pa_bps == pytest.approx(5.0, abs=0.01)
    assert before.twap_bps is not None and after.twap_bps is not None
    assert before.twap_bps - after.twap_bps == pytest.approx(5.0, abs=0.01)


def test_the_final_score_is_refused_if_the_data_of_the_run_have_changed(tmp_path: Path) -> None:
    """A run is not continued on other data under the same name. Its final score, which is measured once, must not be taken on them either."""
    day = tmp_path / "demo.day"
    write_day(generate_day(3, commands_per_s=2.0), day)
    config = parse_config(
        {
            "name": "x", "proposer": "random", "kinds": ["policy"], "iterations": 1, "candidates": 2, "workers": 1,
            "budget": {"static_steps": 0, "dynamic_steps": 0},
            "inner": {
                "scored_in": "market", "orders": 8, "day": str(day), "market": {"kind": "static", "data": [str(day)], **ORDER},
                "race": {"stages": [{"share": 1.0, "seeds": 1}], "final_seeds": 2},
            },
        },
        "a test",
    )  # fmt: skip
    database = run.begin(tmp_path / "run", config, "a test", resume=False)
    run.research(config, tmp_path / "run", database)
    database.close()
    write_day(generate_day(99, commands_per_s=2.0), day)
    database, config = run.open_run(tmp_path / "run")
    with pytest.raises(SerlError, match="data"):
        score_test(database, config)
    assert database.fact("test_opened") is None
    database.close()


@pytest.mark.parametrize("market", ["market", "dynamic"])
def test_a_run_of_the_researcher_cannot_train_on_the_sealed_part(market: str) -> None:
    """`part: test` in the settings of a simulated market makes candidates train on the very days of the final score. It must be an error."""
    inner = {"scored_in": "market", market: {"kind": "dynamic", "population": "liquid", "part": "test"}}
    with pytest.raises(ConfigError, match="part"):
        parse_config({"inner": inner}, "a test")


def test_no_number_of_folds_reaches_the_days_of_the_final_score() -> None:
    """A fold has every so many-th simulated day: with a million folds, the third one was a test day."""
    with pytest.raises(ConfigError, match=r"folds: expected a number less than or equal to 1000, got 1000000"):
        parse_config({"inner": {"folds": 1_000_000}}, "a test")
    last = {"first_day": 900_000, "simulated_days": 1000}
    settings = Settings(dynamic=DYNAMIC.model_copy(update=last), folds=1000).of_seed(999)
    assert FIRST_SEEDS[TRAIN] + 900_000 + max(fold_seeds(FOLD, settings.dynamic)) < FIRST_SEEDS[TEST]


def test_a_score_on_an_exchange_refuses_a_day_that_answers(day: Path) -> None:
    """It replays the day as it was; the setting was ignored."""
    market = {"kind": "replay", "data": [str(day)], "answers": "fitted"}
    with pytest.raises(ConfigError, match="answers"):
        parse_config({"inner": {"scored_in": "exchange", "day": str(day), "market": market}}, "a test")
