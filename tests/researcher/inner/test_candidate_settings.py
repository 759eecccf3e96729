"""Candidates that design the learner, what a policy does and sees, and what is learnt beside a rule."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from serl.agents.execution.environment.interface import Interface
from serl.agents.execution.errors import LayoutMismatchError
from serl.agents.learning import cli_evaluate
from serl.agents.learning.environments import Scenario
from serl.agents.learning.policy import Policy, load_policy
from serl.agents.learning.residual import ResidualPolicy
from serl.exchange.errors import ConfigError
from serl.researcher.candidates import Budget, Candidate, Module
from serl.researcher.inner import evaluate as inner
from serl.researcher.inner import job, rules, training
from serl.researcher.inner.candidate_settings import designed
from serl.researcher.inner.score import score
from serl.researcher.inner.settings import DYNAMIC, LEARNING, STATIC, Settings
from serl.researcher.modules.contracts import Form, Kind
from serl.researcher.modules.errors import SpecError
from serl.researcher.modules.example import example
from serl.researcher.sandbox.job_result import JobResult, Outcome

BUDGET = Budget(static_steps=960, dynamic_steps=0, seed=5, wall_s=400)


def candidate(*kinds: Kind, **changes: Any) -> Candidate:
    """The examples of these kinds as specifications; `changes` are those of the last one."""
    texts = [example(kind, "spec") for kind in kinds]
    if changes:
        texts[-1] = json.dumps(json.loads(texts[-1]) | changes)
    return Candidate({kind: Module("spec", text) for kind, text in zip(kinds, texts, strict=True)})


def joined(one: Candidate, other: Candidate) -> Candidate:
    return Candidate({**one.modules, **other.modules})


def trained(one: Candidate, settings: Settings, folder: Path, share: float = 1.0) -> Policy:
    """The policy of a candidate, trained in this process."""
    folder.mkdir()
    modules = {kind.value: vars(module) for kind, module in one.modules.items()}
    value = job.train({"modules": modules}, settings.training.model_dump(mode="json"), vars(BUDGET), share, str(folder))
    value = json.loads(json.dumps(value))
    return training.policy_of(JobResult(Outcome.OK, "", value), one, settings, BUDGET, folder)


@pytest.fixture(scope="module")
def default_settings(settings: Settings) -> Settings:
    """With the default learner and interface."""
    market = settings.market.model_copy(update={"offset_bps": 0.0})
    return settings.model_copy(update={"market": market, "dynamic": settings.dynamic.model_copy(update={"offset_bps": 0.0}), "ppo": LEARNING})  # fmt: skip


@pytest.fixture(scope="module")
def default_policy(default_settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Policy:
    return trained(Candidate({}), default_settings, tmp_path_factory.mktemp("default") / "job")


@pytest.mark.parametrize(
    "kinds",
    [
        *(pytest.param([kind], marks=pytest.mark.long) for kind in (Kind.LEARNER, Kind.INTERFACE, Kind.AGENT, Kind.REWARD)),
        [Kind.LEARNER, Kind.INTERFACE, Kind.AGENT, Kind.REWARD],
    ],
    ids=lambda kinds: "+".join(kinds),
)  # fmt: skip
def test_the_default_as_modules_trains_bit_for_bit_as_no_modules(
    kinds: list[Kind], default_settings: Settings, default_policy: Policy, tmp_path: Path
) -> None:
    policy = trained(candidate(*kinds), default_settings, tmp_path / "job")
    assert policy.interface == default_policy.interface
    observations = np.random.default_rng(0).standard_normal((50, len(policy.interface.names))).astype(np.float32)
    np.testing.assert_array_equal(policy.predict(observations), default_policy.predict(observations))


def test_the_examples_are_the_default_settings(default_settings: Settings) -> None:
    assert designed(candidate(Kind.LEARNER, Kind.INTERFACE), default_settings) == default_settings
    once = designed(candidate(Kind.LEARNER, gamma="0.9"), default_settings)
    assert once != default_settings
    assert designed(candidate(Kind.LEARNER, gamma="0.9"), once) == once


def test_learning_stops_where_the_learner_says(default_settings: Settings, tmp_path: Path) -> None:
    policy = trained(candidate(Kind.LEARNER, stop_percent=50), default_settings, tmp_path / "job")
    assert policy.metadata["steps"] == BUDGET.static_steps / 2


@pytest.mark.parametrize(
    "actions", [pytest.param(actions, marks=pytest.mark.long) for actions in ("limit", "market", "hybrid")]
)
def test_policies_of_another_interface_are_scored_and_kept(actions: str, settings: Settings, tmp_path: Path) -> None:
    own = candidate(Kind.INTERFACE, actions=actions, offset_bps=10, levels=2, history_steps=1, flow="no", queue="no")
    result = inner.evaluate(own, settings, BUDGET, tmp_path)
    assert result.stage == "done", result.reason
    policy = load_policy(Path(str(result.policy)))
    assert isinstance(policy, Policy)
    names = set(policy.interface.names)
    assert {"bid_lots_2", "return_0", "inventory", "drift"} <= names
    assert not {"bid_lots_3", "return_1", "volume_0", "resting"} & names
    assert (policy.interface.actions, policy.interface.offset_bps) == (actions, 10.0)
    assert score(policy, settings.of_seed(0)) == result.score, "the file holds all of it"
    other = Scenario(settings.market).env(policy.interface.settings()["scales"])
    other.reset(seed=0)
    with pytest.raises(LayoutMismatchError, match="names"):
        policy.actions(other)


@pytest.mark.long
def test_nothing_of_the_book_need_be_observed(settings: Settings) -> None:
    market = designed(candidate(Kind.INTERFACE, book="no", history_steps=0), settings).market
    names = Interface.from_env(Scenario(market).env(Scenario(market).fit_scales())).names
    assert names == ("spread", "imbalance", "time_left", "inventory", "behind_schedule", "resting", "ahead", "sign", "drift")  # fmt: skip


def test_messages_about_what_is_not_observed_are_refused(settings: Settings, tmp_path: Path) -> None:
    channels = [{"observation": "return_0", "gain": 1, "squash": "tanh"}]
    silent = joined(candidate(Kind.COMMUNICATE, channels=channels), candidate(Kind.INTERFACE, history_steps=0))
    result = inner.evaluate(silent, settings, BUDGET, tmp_path)
    assert (result.stage, result.score) == ("training", None)
    assert "expected channels of what is observed, got return_0" in result.reason


def test_messages_in_code_keep_their_observations(settings: Settings) -> None:
    coded = Candidate({Kind.COMMUNICATE: Module("code", example(Kind.COMMUNICATE, "code"))})
    same = joined(coded, candidate(Kind.INTERFACE, actions="limit"))
    assert designed(same, settings).market.actions == "limit"
    with pytest.raises(ConfigError, match="messages in code"):
        designed(joined(coded, candidate(Kind.INTERFACE, levels=1)), settings)


def test_settings_are_no_code(settings: Settings) -> None:
    coded = Candidate({Kind.LEARNER: Module("code", "def learner():\n    return {}")})
    with pytest.raises(ConfigError, match="expected a specification"):
        designed(coded, settings)
    with pytest.raises(SpecError, match="gamma"):
        designed(candidate(Kind.LEARNER, gamma="0.5"), settings)


@pytest.mark.long
@pytest.mark.parametrize("beside", [Kind.LEARNER, Kind.AGENT], ids=lambda kind: kind.value)
def test_an_untrained_residual_scores_as_its_rule(beside: Kind, settings: Settings, tmp_path: Path) -> None:
    both = candidate(Kind.POLICY, beside)
    assert not both.is_rule
    untrained = trained(both, settings, tmp_path / "job", share=0.0)
    assert isinstance(untrained, ResidualPolicy)
    alone = candidate(Kind.POLICY)
    assert alone.is_rule and candidate(Kind.POLICY, Kind.INTERFACE).is_rule
    rule = rules.rule_policy(alone, settings, tmp_path / "rule")
    assert untrained.interface.actions == "hybrid"
    assert score(untrained, settings) == score(rule, settings)


@pytest.mark.usefixtures("sandboxed")
@pytest.mark.parametrize("form", ["spec", pytest.param("code", marks=pytest.mark.long)])
def test_a_residual_is_trained_scored_and_kept(form: Form, settings: Settings, tmp_path: Path) -> None:
    both = Candidate(
        {Kind.POLICY: Module(form, example(Kind.POLICY, form)), Kind.REWARD: Module("spec", example(Kind.REWARD, "spec"))}
    )  # fmt: skip
    result = inner.evaluate(both, settings, BUDGET, tmp_path)
    assert result.stage == "done", result.reason
    policy = load_policy(Path(str(result.policy)))
    assert isinstance(policy, ResidualPolicy)
    assert policy.metadata["steps"] >= BUDGET.static_steps
    assert score(policy, settings.of_seed(0)) == result.score


def test_rules_see_what_networks_do_not(settings: Settings, tmp_path: Path) -> None:
    blind = joined(candidate(Kind.POLICY, Kind.LEARNER), candidate(Kind.INTERFACE, levels=1, book="no"))
    policy = trained(blind, settings, tmp_path / "job")
    assert isinstance(policy, ResidualPolicy)
    assert "bid_lots_1" not in policy.interface.names
    policy.save(tmp_path / "policy.safetensors")
    kept = load_policy(tmp_path / "policy.safetensors")
    assert isinstance(kept, ResidualPolicy) and kept.rule == policy.rule


@pytest.mark.long
def test_serl_evaluate_reads_rules_and_what_is_learnt_beside_them(settings: Settings, tmp_path: Path) -> None:
    rule = rules.rule_policy(candidate(Kind.POLICY), settings, tmp_path / "rule")
    rule.metadata.pop("seed")  # as files of before
    rule.save(tmp_path / "rule.safetensors")
    trained(candidate(Kind.POLICY, Kind.LEARNER), settings, tmp_path / "job").save(tmp_path / "both.safetensors")
    files = [str(tmp_path / name) for name in ("rule.safetensors", "both.safetensors")]
    options = [
        "--market",
        str(settings.day),
        "--kind",
        "static",
        "--episodes",
        "4",
        "--output",
        str(tmp_path / "reports"),
    ]
    result = CliRunner().invoke(cli_evaluate.evaluate, [*files, *options], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    rows = json.loads((tmp_path / "reports" / "evaluation.json").read_text())
    assert "rule" in str(rows) and "both" in str(rows)
    assert "rule: 0 steps, seed 0" in " ".join(result.output.split())


def test_single_settings_leave_the_others_at_their_defaults() -> None:
    given = {"market": {"data": ["bars.parquet"]}, "dynamic": {"simulated_days": 3}, "ppo": {"entropy": 0.01}}
    found = Settings.model_validate(given)
    assert found.market == STATIC.model_copy(update={"data": [Path("bars.parquet")]})
    assert found.dynamic == DYNAMIC.model_copy(update={"simulated_days": 3})
    assert found.ppo == LEARNING.model_copy(update={"entropy": 0.01})
    assert Settings.model_validate({"dynamic": {"kind": "dynamic"}}).dynamic.population == "rmsc04", "a whole market"
