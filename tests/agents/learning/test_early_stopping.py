"""The stopping time is chosen on validation orders."""

from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.toy import ToyExecution
from serl.agents.learning.early_stopping import EarlyStopping, StoppingConfig, validation_scorer
from serl.agents.learning.environments import Scenario
from serl.agents.learning.market_config import MarketConfig
from serl.agents.learning.policy import Policy
from serl.agents.learning.ppo_config import PPOConfig
from serl.agents.learning.training import POLICY, Training, TrainingConfig
from serl.exchange.errors import ConfigError
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
