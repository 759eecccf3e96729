"""Resumed runs end with the weights of uninterrupted runs."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from benchmarks.toy import ToyExecution
from serl.agents.execution.errors import LayoutMismatchError
from serl.agents.learning.errors import DivergedError, PolicyFileError
from serl.agents.learning.hybrid import WEIGHT_MIN, HybridConfig, MarketWeights
from serl.agents.learning.network_config import NetworkConfig
from serl.agents.learning.policy import load_policy
from serl.agents.learning.ppo_config import PPOConfig
from serl.agents.learning.progress import run_with_progress
from serl.agents.learning.training import CHECKPOINT, POLICY, Training, TrainingConfig
from tests.agents.learning.test_ppo import Broken
from tests.agents.learning.tiny import load_trained

CONFIG = TrainingConfig(
    ppo=PPOConfig(steps=16 * 16 * 10, rollout_steps=16, minibatch=128, epochs=2), checkpoint_updates=3
)


def run(folder: Path, *, memory: int = 0, markets: int = 1, seed: int = 0, data: str = "") -> Training:
    config = CONFIG.model_copy(
        update={"network": NetworkConfig(memory=memory), "ppo": CONFIG.ppo.model_copy(update={"seed": seed})}
    )
    metadata = {"data": [{"fingerprint": data}]} if data else None
    return Training(config, [ToyExecution(16, cost=4.0 + place) for place in range(markets)], folder, metadata)


def weights(training: Training) -> list[torch.Tensor]:
    return list(training.learner.network.state_dict().values())


def stop_at(updates: int) -> Any:
    seen = []

    def report(statistics: dict[str, Any]) -> None:
        seen.append(statistics)
        if len(seen) == updates:
            raise KeyboardInterrupt

    return report


@pytest.mark.parametrize(("memory", "markets"), [(0, 1), (8, 1), (0, 2)])
def test_a_resumed_run_ends_with_the_same_bits(tmp_path: Path, memory: int, markets: int) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir()
    parts.mkdir()
    through = run(whole, memory=memory, markets=markets)
    through.run()
    with pytest.raises(KeyboardInterrupt):
        run(parts, memory=memory, markets=markets).run(stop_at(5))
    resumed = run(parts, memory=memory, markets=markets)
    resumed.resume()
    assert resumed.updates == 3
    resumed.run()
    assert all(map(torch.equal, weights(through), weights(resumed)))
    other = tmp_path / "other"
    other.mkdir()
    different = run(other, memory=memory, markets=markets, seed=1)
    different.run()
    assert not all(map(torch.equal, weights(through), weights(different)))


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.agents.learning.test_training import run
training = run(Path(sys.argv[1]))
training.run(lambda statistics: os.kill(os.getpid(), signal.SIGKILL) if training.updates == 8 else None)
"""


@pytest.mark.long
def test_a_killed_run_is_resumed_with_the_same_bits(tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir()
    parts.mkdir()
    through = run(whole)
    through.run()
    path = os.pathsep.join(entry for entry in sys.path if entry)
    done = subprocess.run([sys.executable, "-c", KILLED, str(parts)], env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == -signal.SIGKILL
    resumed = run(parts)
    resumed.resume()
    assert resumed.updates == 6
    resumed.run()
    assert all(map(torch.equal, weights(through), weights(resumed)))


def test_a_checkpoint_of_another_network_is_refused(tmp_path: Path) -> None:
    run(tmp_path).run()
    with pytest.raises(PolicyFileError, match="another network"):
        run(tmp_path, memory=8).resume()


def test_a_run_is_not_resumed_on_other_data(tmp_path: Path) -> None:
    """A file that changed in the meantime would train another policy, whose file named the new data alone."""
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, data="a").run(stop_at(5))
    with pytest.raises(
        PolicyFileError, match=r"expected the data that the run began with, \['a', ''\], got \['b', ''\]"
    ):
        run(tmp_path, data="b").resume()
    run(tmp_path, data="a").resume()


def test_a_resumed_run_keeps_what_was_logged_at_its_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped, seen = run(tmp_path), list[None]()
    update = stopped.learner.update

    def interrupted(weights: Any) -> dict[str, Any]:
        seen.append(None)
        if len(seen) == 6:
            raise KeyboardInterrupt
        return update(weights)

    monkeypatch.setattr(stopped.learner, "update", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_with_progress(stopped)
    resumed = run(tmp_path)
    resumed.resume()
    assert resumed.updates == 3
    run_with_progress(resumed)
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    assert [event.step for event in events.Scalars("training/kl")] == [256 * update for update in range(1, 11)]


def test_a_checkpoint_is_not_a_policy(tmp_path: Path) -> None:
    run(tmp_path).run()
    with pytest.raises(PolicyFileError, match="expected a policy of version 1 to 2, got a checkpoint of version 2"):
        load_policy(tmp_path / CHECKPOINT)
    (tmp_path / POLICY).write_bytes(b"nothing of ours")
    with pytest.raises(PolicyFileError, match="cannot be read"):
        load_policy(tmp_path / POLICY)


def test_divergence_keeps_the_last_finite_weights(tmp_path: Path) -> None:
    training = Training(CONFIG, [Broken(16)], tmp_path)
    with pytest.raises(DivergedError, match=r"step 512: .*diverged\.safetensors"):
        training.run()
    assert (tmp_path / "diverged.safetensors").exists()
    kept = load_trained(tmp_path / POLICY).network.state_dict().values()
    assert all(bool(tensor.isfinite().all()) for tensor in kept)


def test_two_markets_need_the_same_interface(tmp_path: Path) -> None:
    with pytest.raises(LayoutMismatchError, match="observation_8"):
        Training(CONFIG, [ToyExecution(16), ToyExecution(16, size=9)], tmp_path)


def test_adaptive_weights_follow_the_rule() -> None:
    found = MarketWeights(HybridConfig(static_weight=0.4, static_share=0))
    found.update({"losses": np.array([3.0, 1.0])})
    raw = np.array([0.4 * 3 / 4, 0.6 * 1 / 4])
    np.testing.assert_allclose(found.at(0.5), raw / raw.sum())
    for _ in range(50):
        found.update({"losses": np.array([3.0, 1.0])})
    np.testing.assert_allclose(found.at(0.5), [1 - WEIGHT_MIN, WEIGHT_MIN])


@pytest.mark.parametrize(
    ("rule", "early", "late"),
    [
        ("static", [1, 0], [1, 0]),
        ("dynamic", [0, 1], [0, 1]),
        ("sequence", [1, 0], [0, 1]),
        ("fixed", [1, 0], [0.3, 0.7]),
    ],
)
def test_other_rules(rule: Any, early: list[float], late: list[float]) -> None:
    found = MarketWeights(HybridConfig(rule=rule, static_weight=0.3))
    found.update({"losses": np.array([3.0, 1.0])})
    assert found.at(0.2) == pytest.approx(early)
    assert found.at(0.8) == pytest.approx(late)
