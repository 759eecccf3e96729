"""Training that starts from the weights of a policy."""

from pathlib import Path

import pytest
import torch

from benchmarks.toy import ToyExecution
from serl.agents.execution.environment.interface import Interface
from serl.agents.execution.errors import LayoutMismatchError
from serl.agents.learning import residual as residuals
from serl.agents.learning.baseline_training import BaselineTraining
from serl.agents.learning.cli import train
from serl.agents.learning.errors import LearningError, PolicyFileError
from serl.agents.learning.network_config import NetworkConfig
from serl.agents.learning.networks import ActorCritic
from serl.agents.learning.policy import Policy, load_policy
from serl.agents.learning.ppo_config import PPOConfig
from serl.agents.learning.team import Channels
from serl.agents.learning.training import POLICY, Training, TrainingConfig
from tests.agents.learning.test_residual import RULE, environment
from tests.agents.learning.tiny import wide_ranges

UPDATE_STEPS = 16 * 16
CRITIC_FIRST = 2 * UPDATE_STEPS


def training(
    folder: Path, *, critic_first_steps: int = 0, memory: int = 0, updates: int = 2, size: int = 8
) -> Training:
    ppo = PPOConfig(
        steps=updates * UPDATE_STEPS, rollout_steps=16, minibatch=128, epochs=2, critic_first_steps=critic_first_steps
    )
    config = TrainingConfig(ppo=ppo, network=NetworkConfig(memory=memory), start_from=folder / POLICY)
    return Training(config, [ToyExecution(16, size=size)], folder)


@pytest.fixture
def saved(tmp_path: Path) -> ActorCritic:
    """The network of a policy in the folder, unlike that of a new run."""
    interface = Interface.from_env(ToyExecution(16))
    network = ActorCritic(NetworkConfig(), len(interface.names), interface.low, interface.high, 9)
    Policy(network, interface, {"seed": 9, "steps": 0, "data": []}).save(tmp_path / POLICY)
    return network


def actor(network: ActorCritic) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in network.actor.parameters()]).clone()


@pytest.mark.parametrize("file", [POLICY, ""])
def test_the_first_weights_are_those_of_the_policy(tmp_path: Path, saved: ActorCritic, file: str) -> None:
    run = training(tmp_path)
    assert not torch.equal(actor(run.learner.network), actor(saved))
    run.start_from(tmp_path / file)
    assert torch.equal(run.learner.network.vector, saved.vector)
    run.learner.reset()
    run.learner.update()
    assert not torch.equal(actor(run.learner.network), actor(saved))
    assert run.policy().metadata["started_from"] == str(tmp_path / POLICY)


def test_the_critic_can_learn_first(tmp_path: Path, saved: ActorCritic) -> None:
    run = training(tmp_path, critic_first_steps=CRITIC_FIRST, updates=3)
    run.start_from(tmp_path / POLICY)
    critics = []
    for statistics in run.train_until(CRITIC_FIRST):
        assert torch.equal(actor(run.learner.network), actor(saved)), statistics["steps"]
        critics.append(next(run.learner.network.critic.parameters()).detach().clone())
    assert not torch.equal(*critics)
    list(run.train_until(CRITIC_FIRST + UPDATE_STEPS))
    assert not torch.equal(actor(run.learner.network), actor(saved))


def test_a_policy_that_does_not_fit_is_refused(tmp_path: Path, saved: ActorCritic) -> None:
    with pytest.raises(PolicyFileError, match=r"expected the network of the settings, .*'memory': 8.*change `network`"):
        training(tmp_path, memory=8).start_from(tmp_path)
    with pytest.raises(LayoutMismatchError, match="observation_8"):
        training(tmp_path, size=9).start_from(tmp_path)
    with pytest.raises(PolicyFileError, match="cannot be read"):
        training(tmp_path).start_from(tmp_path / "none")


def test_networks_that_do_not_decide_alone_are_refused(tmp_path: Path) -> None:
    """Corrections of a rule were taken for actions; a network with messages was an error of PyTorch."""
    env = environment(4)
    interface, facts = Interface.from_env(env), {"seed": 0, "steps": 0}
    size, run = len(interface.names), Training(TrainingConfig(), [env], tmp_path)
    residual = ActorCritic(NetworkConfig(), size, residuals.LOW, residuals.HIGH, 9)
    residuals.ResidualPolicy(residual, interface, facts, rule=RULE).save(tmp_path / "residual.safetensors")
    with pytest.raises(PolicyFileError, match="decides alone to start from, got residual, which corrects a rule"):
        run.start_from(tmp_path / "residual.safetensors")
    member = ActorCritic(NetworkConfig(), size + 1, interface.low, interface.high, 9)
    team = 2, Channels((0,), (1.0,), ("tanh",))
    Policy(member, interface, facts, team=team).save(tmp_path / "member.safetensors")
    with pytest.raises(PolicyFileError, match="got member, which observes the messages of a team; give another policy"):
        run.start_from(tmp_path / "member.safetensors")


def test_only_ppo_starts_from_a_policy(tmp_path: Path) -> None:
    run = BaselineTraining(TrainingConfig(algorithm="halop"), [wide_ranges(4)], tmp_path)
    with pytest.raises(LearningError, match="expected algorithm ppo, got halop"):
        run.start_from(tmp_path)


def test_the_policy_of_a_run_is_one_to_start_from(tmp_path: Path, saved: ActorCritic) -> None:
    run = training(tmp_path)
    run.start_from(tmp_path)
    run.run()
    after = training(tmp_path)
    after.start_from(tmp_path)
    assert torch.equal(after.learner.network.vector, run.learner.network.vector)
    assert isinstance(load_policy(tmp_path / POLICY), Policy)


def test_a_wrong_policy_leaves_no_folder(tmp_path: Path) -> None:
    settings, output = tmp_path / "small.yaml", tmp_path / "run"
    settings.write_text("market: {kind: dynamic, population: small, simulated_days: 1, environments: 2}")
    words = [str(settings), "--start-from", str(tmp_path / "none"), "--output", str(output)]
    with pytest.raises(PolicyFileError, match="none: cannot be read"):
        train.main(words, standalone_mode=False)
    assert not output.exists()


def test_what_the_first_policy_learnt_from_is_in_the_file(tmp_path: Path, saved: ActorCritic) -> None:
    """Its weights know these days: `serl evaluate` must refuse them, also after an interruption."""
    before = {"market": {"part": "test"}, "fingerprint": "a"}
    Policy(saved, Interface.from_env(ToyExecution(16)), {"data": [before]}).save(tmp_path / POLICY)
    run = training(tmp_path)
    run.start_from(tmp_path)
    next(run.train_until(UPDATE_STEPS))
    resumed = training(tmp_path)
    resumed.resume()
    assert run.policy().metadata["data"] == resumed.policy().metadata["data"] == [before]
