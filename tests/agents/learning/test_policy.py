"""Policies as files."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from benchmarks.toy import ToyExecution
from serl.agents.execution.environment.interface import Interface
from serl.agents.execution.errors import LayoutMismatchError
from serl.agents.learning.network_config import NetworkConfig
from serl.agents.learning.networks import ActorCritic
from serl.agents.learning.policy import Policy, _display_name, load_policy

SEEN = np.random.Generator(np.random.PCG64(1)).standard_normal((32, 8)).astype(np.float32)


def policy(memory: int = 0) -> Policy:
    env = ToyExecution(32)
    network = ActorCritic(NetworkConfig(memory=memory), 8, [0.0], [1.0], 3)
    made = Policy(network, Interface.from_env(env), {"steps": 7, "seed": 3})
    made.reset(32)
    return made


@pytest.mark.parametrize("memory", [0, 8])
def test_a_loaded_policy_acts_like_the_saved_one(tmp_path: Path, memory: int) -> None:
    saved = policy(memory)
    saved.save(tmp_path / "p.safetensors")
    loaded = load_policy(tmp_path / "p.safetensors")
    assert isinstance(loaded, Policy)
    loaded.reset(32)
    for _ in range(3):
        np.testing.assert_array_equal(loaded.predict(SEEN), saved.predict(SEEN))
    assert loaded.interface == saved.interface
    assert loaded.metadata["steps"] == 7
    assert set(loaded.metadata["versions"]) == {"serl", "torch", "numpy"}


def test_a_memory_changes_the_actions() -> None:
    made = policy(memory=8)
    assert not np.array_equal(made.predict(SEEN), made.predict(SEEN))


def test_stochastic_actions_spread_around_the_mode_and_follow_the_seed() -> None:
    made = policy()
    mode = made.predict(SEEN)
    made.deterministic = False
    made.reset(32)
    drawn = np.stack([made.predict(SEEN) for _ in range(400)])
    made.reset(32)
    np.testing.assert_array_equal(made.predict(SEEN), drawn[0])
    np.testing.assert_allclose(drawn.mean(0), mode, atol=0.06)
    assert drawn.std(0).min() > 0.1


def test_another_layout_is_refused_with_both_named() -> None:
    made = policy()
    with pytest.raises(LayoutMismatchError) as caught:
        made.interface.require(Interface.from_env(ToyExecution(4, size=9)))
    assert "names: expected ('observation_0'" in str(caught.value)
    assert "got ('observation_0'" in str(caught.value)
    assert "'observation_8'" in str(caught.value)


def test_other_units_are_refused() -> None:
    one = policy().interface
    other = dataclasses.replace(one, scales={"depth_lots": 2.0})
    with pytest.raises(LayoutMismatchError, match=r"scales: .*\{\}.*depth_lots.*, scales=Scales\(\*\*policy"):
        one.require(other)


@pytest.mark.parametrize(("path", "name"), [
    ("runs/bars-1/policy.safetensors", "bars-1"), ("mine.safetensors", "mine"), ("policy.safetensors", "policy"),
    ("candidates/8cc24c/seed-0/policy.safetensors", "8cc24c-seed-0"),
])  # fmt: skip
def test_a_policy_is_named_after_its_folder_or_file(path: str, name: str) -> None:
    assert _display_name(Path(path)) == name
