"""Files of the first format, written before settings and tensors were renamed, still load; the old names of settings are refused elsewhere."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.toy import ToyExecution
from serl.agents.execution.environment.vector import ExecutionVectorEnv
from serl.agents.learning.baseline import BaselinePolicy
from serl.agents.learning.cli_evaluate import trained_with
from serl.agents.learning.evaluation import execute_orders
from serl.agents.learning.policy import Policy, load_policy
from serl.agents.learning.training import POLICY, Training, load_config, load_saved_config
from serl.exchange.errors import ConfigError
from tests.agents.learning.tiny import announced_jumps, load_trained, wide_ranges

FOLDER = Path(__file__).parent / "written_before"
RUN = FOLDER / "run"


@pytest.mark.long
def test_a_run_is_resumed_and_ends_like_the_old_code(tmp_path: Path) -> None:
    """finished.safetensors is the policy of an uninterrupted run of the old code."""
    folder = tmp_path / "run"
    shutil.copytree(RUN, folder)
    config = load_saved_config(folder)
    assert (config.ppo.gamma, config.ppo.gae_lambda) == (0.9, 0.8)
    assert (config.halop.gamma, config.halop.tau, config.opd.distillation_weight) == (0.99, 0.01, 0.01)
    training = Training(config, [ToyExecution(8)], folder)
    training.resume()
    assert training.updates == 2
    training.run()
    resumed, finished = load_trained(folder / POLICY), load_trained(RUN / "finished.safetensors")
    assert resumed.metadata["steps"] == finished.metadata["steps"] == 256
    expected = finished.network.state_dict()
    assert expected["log_std"].numel() == 1
    for name, tensor in resumed.network.state_dict().items():
        torch.testing.assert_close(tensor, expected[name], rtol=1e-4, atol=1e-6)


def test_bars_of_an_old_run_keep_their_model_of_fills(tmp_path: Path) -> None:
    assert "fills" not in (RUN / "config.yaml").read_text()
    assert load_saved_config(RUN).market.fills == "touch"
    new = tmp_path / "new.yaml"
    new.write_text("market: {kind: static}")
    assert load_config(new).market.fills == "strict"


def test_a_table_says_with_which_fills_a_policy_was_trained() -> None:
    old = {"data": [{"data": "bars.parquet", "market": {"kind": "static"}}]}
    new = {"data": [{"data": "bars.parquet", "market": {"kind": "static", "fills": "strict"}}]}
    book = {"data": [{"data": "a.day", "market": {"kind": "replay", "fills": "strict"}}]}
    found = [trained_with(one) for one in (old, new, book, {})]
    assert found == [", trained with fills touch", ", trained with fills strict", "", ""]


@pytest.mark.parametrize(
    ("kind", "env", "settings"),
    [
        ("opd", announced_jumps(4), {"distillation_weight": 0.02}),
        ("halop", wide_ranges(4), {"gamma": 0.9, "tau": 0.02}),
        ("macmic", wide_ranges(4, 12, 20.0, "hybrid"), {"units": 2}),
    ],
)
def test_policies_of_baselines_act_as_before(kind: str, env: ExecutionVectorEnv, settings: dict[str, float]) -> None:
    policy = load_policy(FOLDER / f"{kind}.safetensors")
    assert isinstance(policy, BaselinePolicy)
    episodes = env.sampler.sample(np.random.Generator(np.random.PCG64(1)), 4)
    expected = np.load(FOLDER / "actions.npz")[kind]
    np.testing.assert_allclose(execute_orders(env, policy, episodes).actions, expected, rtol=1e-4, atol=1e-6)
    assert policy.config.model_dump(include=set(settings)) == settings


def test_a_custom_network_with_messages_acts_as_before() -> None:
    policy = load_policy(FOLDER / "custom.safetensors")
    expected: Any = np.load(FOLDER / "actions.npz")
    assert isinstance(policy, Policy) and policy.team is not None
    observations = np.random.Generator(np.random.PCG64(1)).standard_normal((4, 10)).astype(np.float32)
    policy.reset(4)
    np.testing.assert_allclose(policy.predict(observations), expected["custom"], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(
        policy.team[1](observations[:2, :8].astype(np.float64)), expected["custom_messages"], rtol=1e-4, atol=1e-6
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ppo: {discount: 0.9}", "ppo: expected gamma, got discount; use the new name"),
        ("ppo: {trace: 0.9}", "ppo: expected gae_lambda, got trace"),
        ("halop: {discount: 0.9}", "halop: expected gamma, got discount"),
        ("halop: {averaging: 0.1}", "halop: expected tau, got averaging"),
        ("opd: {teaching: 0.1}", "opd: expected distillation_weight, got teaching"),
    ],
)
def test_the_old_name_of_a_setting_is_refused_with_the_new_one(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert f"{path}: {message}" in str(caught.value)
