"""Candidates that need no training: from a module to a score."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from serl.agents.learning.market_config import MarketConfig
from serl.agents.learning.policy import load_policy
from serl.agents.learning.rule_policy import RulePolicy
from serl.researcher.candidates import Budget, Candidate, Module
from serl.researcher.inner import contender, job, rules
from serl.researcher.inner import score as scoring
from serl.researcher.inner.evaluate import evaluate, ignore_stage
from serl.researcher.inner.settings import Settings
from serl.researcher.modules.contracts import Form, Kind
from serl.researcher.modules.example import example
from serl.researcher.outer import run
from serl.researcher.outer.config import parse_config
from serl.researcher.validation.findings import Report, Stage

LIVING = MarketConfig(
    kind="dynamic", population="small", hours="09:35-09:50", simulated_days=4, environments=4, duration_s=60
)
SETTINGS = Settings(market=LIVING, scored_in="market", orders=6, folds=0)
BUDGET = Budget(static_steps=0, dynamic_steps=0)


def policy(form: Form, text: str | None = None) -> Candidate:
    return Candidate({Kind.POLICY: Module(form, text or example(Kind.POLICY, form))})


@pytest.mark.parametrize("form", ["spec", pytest.param("code", marks=pytest.mark.long)])
def test_a_policy_is_scored_without_training(form: Form, tmp_path: Path) -> None:
    found = evaluate(policy(form), SETTINGS, BUDGET, tmp_path)
    assert found.stage == "done", found.reason
    assert found.score is not None and found.policy is not None
    assert len(found.score.advantages_bps) == 6
    kept = load_policy(Path(found.policy))
    assert isinstance(kept, RulePolicy)
    assert scoring.score(kept, SETTINGS) == found.score, "the file holds all of it"


def test_a_market_in_process_keeps_orders_and_days_apart_from_training() -> None:
    validation, test = (
        scoring.scoring_set(SETTINGS, part, permit).episodes
        for part, permit in (("validation", None), ("test", scoring.Permit()))
    )
    assert set(validation["day"]) <= set(range(1_000_000, 1_000_004))
    assert set(test["day"]) <= set(range(2_000_000, 2_000_004))


def test_an_even_rule_costs_what_a_twap_costs(tmp_path: Path) -> None:
    even = '{"take_percent": 100, "rest_percent": 0, "offset_percent": 0, "late_percent": 100, "finish_percent": 0, "terms": []}'
    found = evaluate(policy("spec", even), SETTINGS, BUDGET, tmp_path).score
    assert found is not None
    assert abs(found.pa_twap_bps) < 0.2


def test_a_forged_rule_is_a_verdict_and_ends_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job may claim the terms of a specification too, with anything for numbers."""
    forged = job.spec_function(Kind.POLICY, example(Kind.POLICY, "spec"), SETTINGS).to_json() | {"take": "all"}
    monkeypatch.setattr(rules, "_traced", lambda *_: json.loads(json.dumps(forged)))
    one = contender.Contender(policy("code"), SETTINGS, BUDGET, tmp_path / "one", ignore_stage, lambda *_: None)  # pyrefly: ignore
    one.run(1.0, 0)
    assert one.failure is not None
    assert (one.failure.facts["verdict"], "finite numbers" in one.failure.reason) == ("no policy", True)


@pytest.mark.parametrize(
    ("text", "stage", "words"),
    [
        pytest.param("def decide(now):\n    return now.spread", "dry run", "expected shape (16, 3)", marks=pytest.mark.long),
        pytest.param("import torch\n\n\ndef decide(now):\n    return 0 * torch.stack((now.spread,) * 3, 1)", "dry run", "the policy never trades", marks=pytest.mark.long),
        pytest.param("import torch\n\n\ndef decide(now):\n    if now.spread.sum() > 0:\n        return torch.stack((now.spread,) * 3, 1)\n    return torch.stack((now.drift,) * 3, 1)", "dry run", "cannot be traced", marks=pytest.mark.long),
        pytest.param("def decide(now):\n    return now.profit", "dry run", "profit", marks=pytest.mark.long),
    ],
)  # fmt: skip
def test_a_policy_that_breaks_its_contract_is_named(text: str, stage: str, words: str, tmp_path: Path) -> None:
    """Each imports torch in the sandbox; test_validation.py runs the same dry runs outside."""
    found: Any = evaluate(policy("code", text), SETTINGS, BUDGET, tmp_path)
    assert found.stage == stage
    assert words in found.reason


@pytest.mark.parametrize("form", ["spec", pytest.param("code", marks=pytest.mark.long)])
def test_a_rule_uses_the_levels_of_its_market(form: Form, tmp_path: Path) -> None:
    few = SETTINGS.model_copy(update={"market": LIVING.model_copy(update={"levels": 1})})
    found = evaluate(policy(form), few, BUDGET, tmp_path)
    assert found.stage == "done", found.reason


def test_an_interface_places_the_orders_of_a_rule(tmp_path: Path) -> None:
    text = example(Kind.INTERFACE, "spec").replace('"offset_bps": 0', '"offset_bps": 20')
    far = Candidate({**policy("spec").modules, Kind.INTERFACE: Module("spec", text)})
    found = evaluate(far, SETTINGS, BUDGET, tmp_path)
    assert found.stage == "done" and found.facts["steps"] == 0
    kept = load_policy(Path(str(found.policy)))
    assert kept.interface is not None and kept.interface.offset_bps == 20


@pytest.mark.long
def test_a_run_designs_policies(tmp_path: Path) -> None:
    """Specifications drawn at random, scored among traders who react."""
    values = {
        "proposer": "random", "kinds": ["policy"], "iterations": 2, "candidates": 2,
        "budget": {"static_steps": 0, "dynamic_steps": 0}, "inner": SETTINGS.model_dump(mode="json"),
    }  # fmt: skip
    config = parse_config(values, "test")
    database = run.begin(tmp_path, config, "test", resume=False)
    run.research(config, tmp_path, database)
    rows = database.rows("SELECT stage, pa_bps FROM candidates")
    database.close()
    assert [row["stage"] for row in rows] == ["done"] * 5, "with the incumbent"
    assert len({row["pa_bps"] for row in rows}) > 1


@pytest.mark.long
def test_scores_of_the_same_orders_can_be_compared_in_pairs(tmp_path: Path) -> None:
    scores = [evaluate(policy(form), SETTINGS, BUDGET, tmp_path / form).score for form in ("spec", "code")]
    assert scores[0] is not None and scores[1] is not None
    assert np.shape(scores[0].advantages_bps) == np.shape(scores[1].advantages_bps)


NEVER = """
import torch


def decide(now):
    take = torch.relu(now.time_left - 1.5)
    return torch.stack((take, take, take), dim=1)
"""


@pytest.mark.long
def test_a_policy_that_never_trades_has_its_own_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Named in the dry run; where that is passed, because the inputs there are others, by the share left to forced completion."""
    found = evaluate(policy("code", NEVER), SETTINGS, BUDGET, tmp_path / "dry")
    assert (found.stage, found.facts["verdict"]) == ("dry run", "never trades")
    monkeypatch.setattr(contender, "validate", lambda kind, text, form: Report(kind, form, Stage.DRY_RUN))
    found = evaluate(policy("code", NEVER), SETTINGS, BUDGET, tmp_path / "scored")
    assert (found.stage, found.facts["verdict"], found.score) == ("scoring", "never trades", None)
    assert "100% of its orders are left to forced completion" in found.reason


LATE = '{"take_percent": 10, "rest_percent": 0, "offset_percent": 0, "late_percent": 100, "finish_percent": 0, "terms": []}'


def test_a_policy_that_leaves_what_nobody_would_take_has_its_own_verdict(tmp_path: Path) -> None:
    """PA is the price of what was filled: leaving the rest of a large order to the end costs nothing."""
    large = SETTINGS.model_copy(
        update={"market": LIVING.model_copy(update={"duration_s": 300, "share_min": 1, "share_max": 1})}
    )
    found = evaluate(policy("spec", LATE), large, BUDGET, tmp_path / "large")
    assert (found.stage, found.facts["verdict"], found.score) == ("scoring", "leaves shares", None), found
    assert evaluate(policy("spec", LATE), SETTINGS, BUDGET, tmp_path / "small").stage == "done"
