"""Rollouts in parts: joined in order, the same every time, and refused where they cannot be."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.toy import ToyExecution
from serl.agents.learning.baseline_training import build_training
from serl.agents.learning.network_config import NetworkConfig
from serl.agents.learning.networks import ActorCritic
from serl.agents.learning.parallel_rollouts import ParallelCollector, RolloutRequest, Worker, make_parts
from serl.agents.learning.ppo import PPO
from serl.agents.learning.ppo_config import PPOConfig
from serl.agents.learning.training import Training, TrainingConfig, environments
from serl.cluster import LOCAL
from serl.exchange.errors import ConfigError
from tests.agents.half_hour import SMALL

NETWORK = NetworkConfig(hidden=(8,))


def make(count: int, network: NetworkConfig = NETWORK) -> Worker:
    return Worker(partial(ToyExecution, count), partial(ActorCritic, network, 8, [0.0], [1.0], 3), 1.0, 1)


@pytest.mark.parametrize("memory", [0, 4])
def test_the_parts_lie_side_by_side_and_each_has_random_numbers_of_its_own(memory: int) -> None:
    network = NetworkConfig(hidden=(8,), memory=memory)
    learnt = ActorCritic(network, 8, [0.0], [1.0], 7)
    collector = ParallelCollector(make_parts([partial(make, 3, network)] * 2, LOCAL), learnt, 6)
    collector.reset(5)
    unused = np.random.default_rng(1)
    found = collector.collect(16, unused, 0.9, 0.9).batch
    returns = collector.episode_returns
    assert unused.random() == np.random.default_rng(1).random()
    expected = []
    for number in range(2):
        worker = make(3, network)
        worker.reset(int(np.random.SeedSequence([5, number]).generate_state(1)[0]))
        expected.append(worker.collect(RolloutRequest(learnt.vector.detach().numpy().copy(), 16, 0.9, 0.9)))
    assert (returns == np.concatenate([one[1] for one in expected])).all() and len(returns)
    for name, values in vars(found).items():
        parts = torch.cat([vars(one[0])[name] for one in expected], dim=1)
        assert torch.equal(values, parts if memory else parts.flatten(0, 1)), name
    first, second = (one[0].latents for one in expected)
    assert not torch.equal(first, second)


def learner(parts: int) -> PPO:
    config = PPOConfig(rollout_steps=16, minibatch=64, epochs=2)

    def make_collector(number: int, learnt: ActorCritic) -> ParallelCollector:
        return ParallelCollector(make_parts([partial(make, 12 // parts)] * parts, LOCAL), learnt, 12)

    return PPO([ToyExecution(12)], config, NETWORK, None if parts == 1 else make_collector)


def test_the_number_of_parts_decides_what_is_learnt_and_nothing_else() -> None:
    vectors = []
    for parts in (1, 2, 2, 3):
        made = learner(parts)
        made.reset()
        for _ in range(3):
            made.update()
        assert made.steps == 3 * 16 * 12
        vectors.append(made.network.vector.clone())
    assert torch.equal(vectors[1], vectors[2])
    assert not torch.equal(vectors[0], vectors[1]) and not torch.equal(vectors[1], vectors[3])


def settings(**changes: Any) -> TrainingConfig:
    market = {"kind": "dynamic", "population": SMALL, "simulated_days": 2, "environments": 4, "duration_s": 60}
    ppo = {"steps": 400, "rollout_steps": 8, "minibatch": 32, "epochs": 1, "rollout_parts": 2}
    return TrainingConfig.model_validate({"market": market, "ppo": ppo, "network": {"hidden": [8]}, **changes})


@pytest.mark.long
def test_a_stopped_run_in_parts_continues_as_if_it_had_not_stopped(tmp_path: Path) -> None:
    vectors = []
    for name, stops in (("whole", (400,)), ("stopped", (192, 400))):
        config, folder = settings(checkpoint_updates=3), tmp_path / name
        folder.mkdir()
        for number, stop in enumerate(stops):
            envs, metadata = environments(config)
            run = build_training(config, envs, folder, metadata)
            assert isinstance(run, Training)
            if number:
                run.resume()
            list(run.train_until(stop))
        vectors.append(run.learner.network.vector.clone())
    assert torch.equal(*vectors)


@pytest.mark.parametrize(
    ("changes", "on", "message"),
    [
        ({"ppo": {"rollout_parts": 3}}, LOCAL, r"market.environments: expected a multiple of the 3 parts, got 4"),
        ({"ppo": {}}, "ray", r"--on ray: expected ppo in two or more parts, got 1 part; set --parts"),
        ({"algorithm": "halop"}, "ray", r"--on ray: expected ppo in two or more parts, got algorithm halop"),
        ({"algorithm": "halop"}, LOCAL, r"ppo.rollout_parts: expected 1 for algorithm halop, got 2"),
    ],
)
def test_what_has_no_parts_is_refused(changes: dict[str, Any], on: str, message: str, tmp_path: Path) -> None:
    config = settings(**changes)
    envs, metadata = environments(config)
    with pytest.raises(ConfigError, match=message):
        build_training(config, envs, tmp_path, metadata, on)
    if on == LOCAL and config.algorithm == "ppo":
        with pytest.raises(ConfigError, match="expected 1 except for `serl train`, got 3"):
            Training(config, envs, tmp_path)
