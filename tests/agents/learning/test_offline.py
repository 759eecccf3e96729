"""Episodes as Minari datasets, and policies cloned from them."""

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path

import minari
import numpy as np
import pytest
import yaml
from click.testing import CliRunner, Result
from minari.data_collector.episode_buffer import EpisodeBuffer

from serl.agents.execution.environment.interface import Interface
from serl.agents.execution.environment.observation import Scales
from serl.agents.execution.environment.records import EPISODE
from serl.agents.execution.policies.schedules import Twap
from serl.agents.learning import minari_files
from serl.agents.learning.cli_episodes import clone as clone_command
from serl.agents.learning.cli_episodes import export
from serl.agents.learning.cloning import CloneConfig, best_episodes, clone
from serl.agents.learning.environments import Scenario
from serl.agents.learning.episodes import Recording
from serl.agents.learning.errors import DatasetError
from serl.agents.learning.evaluation import execute_orders
from serl.agents.learning.market_config import MarketConfig, with_overrides
from serl.agents.learning.minari_files import Episodes, dataset_place, read_episodes
from serl.agents.learning.network_config import NetworkConfig
from serl.agents.learning.networks import ActorCritic
from serl.agents.learning.policy import Policy, load_policy
from serl.exchange.config import time_of_day_ns
from serl.exchange.errors import ConfigError
from serl.history.day import write_day
from serl.history.generate import generate_day

ORDERS, STEPS = 40, 6
SETTINGS = {"hours": "09:35-10:25", "duration_s": 60, "interval_s": 10}
LEARNT = {"data": "other.day", "fingerprint": "0"}
"""What the recorded policy was trained on."""


def invoke(command: object, *arguments: object) -> Result:
    return CliRunner().invoke(command, [str(argument) for argument in arguments])  # pyrefly: ignore[bad-argument-type]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A day, settings, and a policy in another action mode and other units."""
    made = tmp_path_factory.mktemp("offline")
    write_day(generate_day(3, start_ns=time_of_day_ns("09:30"), end_ns=time_of_day_ns("10:30")), made / "a.day")
    (made / "settings.yaml").write_text(yaml.safe_dump({"market": SETTINGS | {"data": [str(made / "a.day")]}}))
    env = Scenario(config(made, environments=1, actions="paced", offset_ticks=3)).env(Scales(depth_lots=77.0))
    interface = Interface.from_env(env)
    network = ActorCritic(NetworkConfig(), len(interface.names), interface.low, interface.high, 5)
    Policy(network, interface, {"seed": 5, "steps": 0, "data": [LEARNT]}).save(made / "paced.safetensors")
    return made


def config(folder: Path, **changes: object) -> MarketConfig:
    return with_overrides(MarketConfig(), SETTINGS | {"data": [str(folder / "a.day")]} | changes)


@pytest.fixture(scope="module")
def dataset(folder: Path) -> minari.MinariDataset:
    """Episodes of a TWAP and of the policy, as `serl episodes export` writes them."""
    done = invoke(
        export, "--config", folder / "settings.yaml", "--policy", "twap", "--policy", folder / "paced.safetensors",
        "--episodes", ORDERS, "--seed", 4, "--output", folder / "episodes",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    return minari.MinariDataset(folder / "episodes")


def test_recorded_actions_give_the_same_episodes_in_the_environment_of_the_dataset(
    dataset: minari.MinariDataset,
) -> None:
    assert (dataset.total_episodes, dataset.total_steps) == (2 * ORDERS, 2 * ORDERS * STEPS)
    env = dataset.recover_environment()
    assert (env.observation_space, env.action_space) == (dataset.observation_space, dataset.action_space)
    for n in (0, ORDERS - 1, ORDERS, 2 * ORDERS - 1):
        episode, about = dataset[n], next(iter(dataset.storage.get_episode_metadata([n])))
        order = np.zeros(1, EPISODE)
        for name, value in about["order"].items():
            order[name] = value
        observation, _ = env.reset(options={"episodes": order})
        results = {}
        for k, action in enumerate(episode.actions):
            np.testing.assert_array_equal(observation, episode.observations[k])
            observation, reward, terminated, truncated, info = env.step(action)
            assert (reward, terminated, truncated) == (episode.rewards[k], episode.terminations[k], False)
            results |= info.get("results", {})
        np.testing.assert_array_equal(observation, episode.observations[-1])
        assert results["pa_bps"] == about["pa_bps"]
        assert about["side"] == ("sell" if order["sign"][0] > 0 else "buy")
        assert episode.infos["remaining_lots"][0] == order["qty_lots"][0]
        assert episode.infos["mid_ticks"][0] == about["arrival_mid_ticks"]
    env.close()


def test_the_environment_of_a_dataset_is_made_in_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All its files have absolute paths; a shipped population keeps its name."""
    monkeypatch.chdir(tmp_path)
    for name in ("own.yaml", "a.day", "f.json"):
        (tmp_path / name).touch()
    own, shipped = (MarketConfig(kind="dynamic", population=name) for name in ("own.yaml", "small"))
    assert minari_files.environment_spec(own).kwargs["population"] == str(tmp_path / "own.yaml")
    assert minari_files.environment_spec(shipped).kwargs["population"] == "small"
    recorded = MarketConfig(kind="replay", data=[Path("a.day")], forecaster=Path("f.json"))
    settings = minari_files.environment_spec(recorded).kwargs
    assert (settings["data"], settings["forecaster"]) == ([str(tmp_path / "a.day")], str(tmp_path / "f.json"))


def test_policies_trade_as_they_do_in_an_evaluation(folder: Path, dataset: minari.MinariDataset) -> None:
    scenario = Scenario(config(folder))
    orders = scenario.sampler.sample(np.random.Generator(np.random.PCG64(4)), ORDERS)
    about = list(dataset.storage.get_episode_metadata(range(2 * ORDERS)))
    assert {one["policy"] for one in about} == {"twap", "paced"}
    for first, policy in ((0, Twap()), (ORDERS, load_policy(folder / "paced.safetensors"))):
        outcome = execute_orders(scenario.env_for(policy, policy.modes[0]), policy, orders)
        recorded = np.array([one["price_ticks"] for one in about[first : first + ORDERS]])
        np.testing.assert_allclose(recorded, outcome.results["price_ticks"], rtol=1e-6)  # shares are single floats
    assert len({one["price_ticks"] for one in about}) > ORDERS, "the policies differ"


def test_a_dataset_is_replaced_only_on_demand_and_as_a_whole(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tmp_path / "made"
    command = (export, "--config", folder / "settings.yaml", "--policy", "twap", "--episodes", 2, "--output", made)
    assert invoke(*command).exit_code == 0
    assert "--overwrite" in str(invoke(*command).exception)
    with monkeypatch.context() as changed:
        changed.setattr(minari_files, "_of_orders", interrupted)
        assert isinstance(invoke(*command, "--overwrite").exception, SystemExit)
    assert [path.name for path in tmp_path.iterdir()] == ["made"]
    assert len(minari.MinariDataset(made)) == 2
    assert invoke(*command, "--overwrite", "--policy", "passive").exit_code == 0
    assert len(minari.MinariDataset(made)) == 4
    (tmp_path / "other").mkdir()
    with pytest.raises(ConfigError, match="something else"):
        minari_files.require_free(dataset_place(str(tmp_path / "other")), True)


def interrupted(recording: object) -> None:
    raise KeyboardInterrupt


def test_minari_finds_a_dataset_by_its_name(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    named = (export, "--config", folder / "settings.yaml", "--policy", "twap", "--episodes", 2, "-o", "serl/two-v3")
    assert invoke(*named).exit_code == 0
    assert minari.load_dataset("serl/two-v3").sample_episodes(1)[0].actions.shape == (STEPS, 3)
    assert list(minari.list_local_datasets()) == ["serl/two-v3"]


def test_a_clone_is_a_policy(folder: Path, dataset: minari.MinariDataset) -> None:
    done = invoke(clone_command, folder / "episodes", "--epochs", 2, "--best", 1, "--output", folder / "clone")
    assert done.exit_code == 0, done.output
    policy = load_policy(folder / "clone" / "policy.safetensors")
    assert policy.metadata["cloned"]["episodes"] == 2 * ORDERS
    scenario = Scenario(config(folder))
    assert policy.metadata["data"][0]["data"] == "a.day"
    assert LEARNT in policy.metadata["data"], "the clone has learnt from what the policies had learnt from"
    outcome = execute_orders(
        scenario.env_for(policy, "hybrid"), policy, scenario.sampler.sample(np.random.default_rng(1), 8)
    )
    assert np.isfinite(outcome.results["pa_bps"]).all()
    again = invoke(clone_command, folder / "episodes", "--output", folder / "clone")
    assert again.exit_code == 2
    assert "already contains a policy" in again.output


def invented(folder: Path) -> Episodes:
    """Two policies work 40 orders: the good one takes the share that it observes, the bad one 1 minus it."""
    interface = read_episodes(dataset_place(str(folder / "episodes"))).interface
    random = np.random.default_rng(6)
    observations = np.zeros((2 * ORDERS * STEPS, len(interface.names)), np.float32)
    shares = random.random(len(observations)).astype(np.float32)
    observations[:, 0] = shares
    episode, good = np.repeat(np.arange(2 * ORDERS), STEPS), np.arange(2 * ORDERS) % 2 == 0
    actions = np.full((len(observations), 3), -1, np.float32)
    actions[:, 0] = 2 * np.where(good[episode], shares, 1 - shares) - 1
    returns = np.where(good, 1.0, -1.0)
    about = {"part": "train", "policies": ["good", "bad"], "data": [], "interface": dataclasses.asdict(interface)}
    return Episodes(observations, actions, episode, returns, np.arange(2 * ORDERS) // 2, json.loads(json.dumps(about)))


@pytest.mark.long
def test_a_clone_of_the_best_episodes_does_not_imitate_the_others(folder: Path, dataset: minari.MinariDataset) -> None:
    episodes = invented(folder)
    observed = np.zeros((2, episodes.observations.shape[1]), np.float32)
    observed[:, 0] = 0.1, 0.9
    best = clone(episodes, CloneConfig(best=0.5, learning_rate=0.01, minibatch=32, epochs=60)).predict(observed)[:, 0]
    everyone = clone(episodes, CloneConfig(best=1.0, learning_rate=0.01, minibatch=32, epochs=60)).predict(observed)[
        :, 0
    ]
    assert best[1] - best[0] > 0.5
    assert abs(everyone[1] - everyone[0]) < 0.25, "the mean of both is 0.5 whatever is observed"


def test_best_episodes_are_those_with_the_highest_returns() -> None:
    assert best_episodes(np.array([3.0, 1.0, 5.0, 4.0, 2.0]), 0.4).tolist() == [2, 3]
    assert best_episodes(np.array([3.0, 1.0]), 0.01).tolist() == [0]


def test_data_of_another_part_are_not_learnt_from(folder: Path, dataset: minari.MinariDataset, tmp_path: Path) -> None:
    episodes = invented(folder)
    with pytest.raises(DatasetError, match="training part, got test"):
        clone(dataclasses.replace(episodes, about=episodes.about | {"part": "test"}), CloneConfig())
    one = dataclasses.replace(episodes, order=np.zeros_like(episodes.order))
    with pytest.raises(DatasetError, match="at least 2 orders"):
        clone(one, CloneConfig())
    with pytest.raises(DatasetError, match="got none"):
        read_episodes(dataset_place(str(tmp_path / "nothing")))


@pytest.mark.parametrize("name", ["observations", "actions", "rewards"])
def test_numbers_that_are_not_finite_are_refused(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The clone learnt nothing from them, or left the episode out, and was written as if it had."""
    write = minari_files._buffers

    def damaged(recording: Recording) -> Iterator[EpisodeBuffer]:
        getattr(recording, name)[1, 0] = np.nan
        return write(recording)

    monkeypatch.setattr(minari_files, "_buffers", damaged)
    made = tmp_path / "made"
    invoke(export, "--config", folder / "settings.yaml", "--policy", "twap", "--episodes", 2, "--output", made)
    with pytest.raises(DatasetError, match=rf"made: episode 1: {name}: expected finite numbers"):
        read_episodes(dataset_place(str(made)))
