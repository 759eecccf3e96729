"""The stopping time is chosen on validation orders."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import serl.agents.learning.fitted_rules as rules
from benchmarks.toy import ToyExecution
from serl.agents.execution.policies.reactive import Aggressive
from serl.agents.learning.early_stopping import (
    EarlyStopping,
    StoppingConfig,
    _validation_scenario,
    validation_scorer,
)
from serl.agents.learning.environments import Scenario
from serl.agents.learning.evaluation import Hold, execute_orders
from serl.agents.learning.market_config import MarketConfig
from serl.agents.learning.policy import Policy
from serl.agents.learning.ppo_config import PPOConfig
from serl.agents.learning.training import POLICY, Training, TrainingConfig, load_config, load_saved_config
from serl.exchange.config import time_of_day_ns, time_of_day_text
from serl.exchange.errors import ConfigError
from serl.history.day import write_day
from serl.history.generate import generate_day
from tests.agents.execution.test_data import rows, write
from tests.agents.learning.test_training import stop_at
from tests.agents.learning.tiny import load_trained

UPDATE = 16 * 16
CONFIG = TrainingConfig(
    ppo=PPOConfig(steps=UPDATE * 20, rollout_steps=16, minibatch=128, epochs=2),
    checkpoint_updates=2,
    early_stopping=StoppingConfig(orders=8, patience=2),
)
SCORES = {0: 0.0, 2: 1.0, 4: 3.0, 6: 2.0, 8: 2.5}
"""By updates."""


def run(folder: Path) -> Training:
    folder.mkdir(exist_ok=True)
    return Training(CONFIG, [ToyExecution(16)], folder, score=lambda policy: SCORES[policy.metadata["steps"] // UPDATE])


def test_training_ends_when_it_gets_worse_and_keeps_the_best(tmp_path: Path) -> None:
    training = run(tmp_path / "a")
    kept = {}
    for statistics in training.train_until(CONFIG.ppo.steps):
        kept[training.updates] = [tensor.clone() for tensor in training.learner.network.state_dict().values()]
        assert statistics["validation_bps"] in SCORES.values()
    assert training.updates == 8 and training.stopping is not None and training.stopping.best_steps == 4 * UPDATE
    policy = run(tmp_path / "b").run()
    assert policy.metadata["steps"] == 4 * UPDATE
    for mine, theirs in zip(policy.network.state_dict().values(), kept[4], strict=True):
        assert torch.equal(mine, theirs)


def test_a_policy_that_does_not_learn_yet_uses_up_no_patience(tmp_path: Path) -> None:
    """Training ended before the policy had learnt anything, if the critic learnt alone for longer than the patience."""
    ppo = CONFIG.ppo.model_copy(update={"critic_first_steps": 8 * UPDATE})
    scores, scored = {0: 0.0, 10: 1.0, 12: 0.5, 14: 0.5}, []

    def score(policy: Policy) -> float:
        scored.append(policy.metadata["steps"] // UPDATE)
        return scores[scored[-1]]

    config = CONFIG.model_copy(update={"ppo": ppo})
    assert Training(config, [ToyExecution(16)], tmp_path, score=score).run().metadata["steps"] == 10 * UPDATE
    assert scored == list(scores)


def test_a_resumed_run_stops_with_the_same_policy(tmp_path: Path) -> None:
    whole = run(tmp_path / "whole").run()
    parts = tmp_path / "parts"
    with pytest.raises(KeyboardInterrupt):
        run(parts).run(stop_at(5))
    again = run(parts)
    again.resume()
    again.run()
    resumed = load_trained(parts / POLICY)
    assert resumed.metadata["steps"] == whole.metadata["steps"]
    for name, tensor in resumed.network.state_dict().items():
        assert torch.equal(tensor, whole.network.state_dict()[name])


@pytest.mark.parametrize("updates", [0, 4])
def test_an_interruption_while_a_policy_is_scored_loses_nothing(tmp_path: Path, updates: int) -> None:
    """Before the first score there was a policy, but no checkpoint: the run could be neither resumed nor started again."""

    def interrupted(policy: Policy) -> float:
        if policy.metadata["steps"] == updates * UPDATE:
            raise KeyboardInterrupt
        return SCORES[policy.metadata["steps"] // UPDATE]

    whole, folder = run(tmp_path / "whole").run(), tmp_path / "part"
    folder.mkdir()
    with pytest.raises(KeyboardInterrupt):
        Training(CONFIG, [ToyExecution(16)], folder, score=interrupted).run()
    resumed = run(folder)
    resumed.resume()
    assert resumed.updates == updates
    policy = resumed.run()
    assert policy.metadata == whole.metadata
    for mine, theirs in zip(policy.network.state_dict().values(), whole.network.state_dict().values(), strict=True):
        assert torch.equal(mine, theirs)


def test_a_checkpoint_is_scored_once() -> None:
    scores = iter([1.0, 0.5])
    stopping = EarlyStopping(StoppingConfig(patience=1), lambda: next(scores))
    for _ in range(3):
        stopping.at_checkpoint(10, {})
    assert stopping.last_bps == 1.0 and not stopping.finished
    stopping.at_checkpoint(20, {})
    assert stopping.last_bps == 0.5 and stopping.finished


def test_a_run_that_cannot_score_policies_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="leave early_stopping out"):
        Training(CONFIG, [ToyExecution(16)], tmp_path)


def test_settings_of_a_baseline_that_would_ignore_it_are_refused(tmp_path: Path) -> None:
    """Unless serl wrote them itself, before they were refused."""
    path = tmp_path / "config.yaml"
    path.write_text("{algorithm: opd, early_stopping: {orders: 8}}")
    with pytest.raises(ConfigError, match="early_stopping: expected algorithm ppo, got opd; leave it out"):
        load_config(path)
    assert load_saved_config(tmp_path).early_stopping


def test_validation_orders_are_those_of_the_validation_part(tmp_path: Path) -> None:
    data = write(tmp_path / "bars.parquet", rows())
    market = MarketConfig(
        kind="static", data=[data], environments=4, duration_s=120, interval_s=60, offset_bps=5, levels=1
    )
    scenario = Scenario(market)
    training = Training(TrainingConfig(market=market), [scenario.env(scenario.fit_scales())], tmp_path)
    policy: Policy = training.policy()
    score = validation_scorer(market, StoppingConfig(orders=8))
    assert score(policy) == score(policy)
    assert np.isfinite(score(policy))


def day_file(folder: Path) -> Path:
    path = folder / "a.day"
    write_day(
        generate_day(3, start_ns=time_of_day_ns("09:30"), end_ns=time_of_day_ns("14:00"), commands_per_s=0.5), path
    )
    return path


def test_hours_of_training_are_not_those_of_validation(tmp_path: Path) -> None:
    market = MarketConfig(
        kind="static", data=[day_file(tmp_path)], hours="10:00-11:00", environments=4, duration_s=60, interval_s=20
    )
    validation = _validation_scenario(market, 8)
    (own,) = Scenario(market.model_copy(update={"hours": None})).source.hours("validation")
    orders = validation.sampler.sample(np.random.default_rng(0), 64)
    assert (own.start_ns <= orders["start_ns"]).all()
    assert (orders["start_ns"] + orders["steps"] * orders["interval_ns"] <= own.end_ns).all()
    overlapping = market.model_copy(update={"hours": f"10:00-{time_of_day_text(own.end_ns)}"})
    with pytest.raises(ConfigError, match="without those of the part validation"):
        validation_scorer(overlapping, StoppingConfig(orders=8))


def test_policies_are_scored_against_the_vwap_without_us(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `serl evaluate` does; our orders move the other one. The run without us is made once."""
    market = MarketConfig(
        data=[day_file(tmp_path)], answers="square_root", environments=8, duration_s=60, interval_s=20,
        share_min=0.1, share_max=0.2,
    )  # fmt: skip
    runs: list[str] = []

    def counted(env: Any, policy: Any, episodes: Any) -> Any:
        runs.append(policy.name)
        return execute_orders(env, policy, episodes)

    monkeypatch.setattr(rules, "execute_orders", counted)
    score: Any = validation_scorer(market, StoppingConfig(orders=8))
    policy = Aggressive()
    found = score(policy)
    assert score(policy) == found and runs == ["hold", policy.name, policy.name]
    scenario = _validation_scenario(market, 8)
    orders = scenario.sampler.sample(np.random.Generator(np.random.PCG64(StoppingConfig().seed)), 8)
    ours, without = (execute_orders(scenario.env_for(one, "market"), one, orders).results for one in (policy, Hold()))
    assert found == np.nanmean(orders["sign"] * (ours["price_ticks"] / without["vwap_ticks"] - 1) * 1e4)
    assert found != pytest.approx(np.nanmean(ours["pa_bps"]), abs=1e-3)
