"""`serl.environments`: gymnasium and PettingZoo make them by name, over each kind of market; bad settings."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import wrappers
from gymnasium.error import ResetNeeded

import serl.environments
from serl.agents.execution.environment.bars import StaticBars
from serl.agents.execution.environment.dynamic import DynamicMarket
from serl.agents.execution.environment.observation import Scales
from serl.agents.execution.environment.replay import ReplayMarket
from serl.agents.execution.environment.vector import ExecutionVectorEnv
from serl.agents.execution.errors import DataError
from serl.agents.learning import sources
from serl.environments import (
    EXECUTION_ID,
    directional_vector_env,
    execution_vector_env,
    making_vector_env,
    market_settings,
    parallel_env,
)
from serl.exchange.errors import ConfigError
from serl.history.day import write_day
from serl.history.generate import generate_day
from tests.agents.execution.test_data import rows as bar_rows
from tests.agents.execution.test_data import write as write_bars

SMALL: dict[str, Any] = {"population": "small", "duration_s": 120}


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("days") / "demo.day"
    write_day(generate_day(3, commands_per_s=2.0), path)
    return path


def made(count: int, **settings: Any) -> ExecutionVectorEnv:
    env = gymnasium.make_vec(EXECUTION_ID, num_envs=count, **settings)
    assert isinstance(env.unwrapped, ExecutionVectorEnv) and env.num_envs == count
    return env.unwrapped


@pytest.mark.long
def test_the_market_follows_from_what_is_given(day: Path, tmp_path: Path) -> None:
    write_bars(tmp_path / "bars.parquet", bar_rows())
    assert isinstance(made(3, data=day).market, ReplayMarket)
    assert isinstance(made(3, **SMALL).market, DynamicMarket)
    assert isinstance(made(3, data=str(tmp_path / "bars.parquet"), duration_s=120, interval_s=60).market, StaticBars)


@pytest.mark.long
def test_a_seed_determines_orders_and_simulated_days() -> None:
    first, again, other = (made(2, **SMALL).reset(seed=seed)[0] for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.long
def test_a_day_may_answer_and_other_markets_may_not(day: Path) -> None:
    plain, answering = (made(2, data=day, answers=answers, actions="market") for answers in ("none", "square_root"))
    costs = []
    for env in (plain, answering):
        env.reset(seed=1)
        frames = env.market.frames
        moved = frames["bid_ticks"][:, 0].copy()
        env.step(np.ones((2, 1)))
        costs.append(frames["bid_ticks"][:, 0] - moved)
    assert isinstance(plain.market, ReplayMarket) and (costs[0] != costs[1]).all()
    with pytest.raises(
        ConfigError, match="answers: expected none in a dynamic market, got fitted; only a replay can answer"
    ):
        made(2, **SMALL, answers="fitted")


def test_observations_have_the_same_units_for_any_number(day: Path) -> None:
    found = []
    for count in (1, 4):
        serl.environments._scales_of.cache_clear()
        found.append(made(count, data=day).observer.scales)
    assert found[0] == found[1]


def test_scales_are_fitted_once_for_each_content_of_a_file(day: Path, tmp_path: Path) -> None:
    path = tmp_path / "changing.day"
    shutil.copy(day, path)
    fitted = serl.environments._scales_of
    fitted.cache_clear()
    first, again = (made(1, data=path).observer.scales for _ in range(2))
    write_day(generate_day(4, commands_per_s=2.0), path)
    other = made(1, data=path).observer.scales
    assert first == again != other and fitted.cache_info().misses == 2


def test_the_wrappers_of_cleanrl() -> None:
    """Those of its ppo_continuous_action.py; the market is the default."""

    def wrapped() -> gymnasium.Env[Any, Any]:
        env = gymnasium.make("serl.environments:serl/Execution-v0", **SMALL)
        env = wrappers.RecordEpisodeStatistics(wrappers.FlattenObservation(env))
        env = wrappers.NormalizeObservation(wrappers.ClipAction(env))
        env = wrappers.TransformObservation(env, lambda values: np.clip(values, -10, 10), env.observation_space)
        return wrappers.NormalizeReward(env, gamma=0.99)

    envs = gymnasium.vector.SyncVectorEnv([wrapped] * 2, autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP)
    assert isinstance(envs.single_action_space, gymnasium.spaces.Box)
    envs.reset(seed=1)
    lengths = []
    for _ in range(13):
        *_, infos = envs.step(envs.action_space.sample())
        if "final_info" in infos:
            lengths += infos["final_info"]["episode"]["l"][infos["final_info"]["_episode"]].tolist()
    assert lengths and set(lengths) <= set(range(1, 13))
    envs.close()


@pytest.mark.long
def test_the_example_of_rllib_learns_without_an_error() -> None:
    pytest.importorskip(
        "ray.rllib", reason="RLlib pins a version of gymnasium; install it in an environment of its own"
    )
    program = [sys.executable, "examples/rllib_ppo.py", "small", "1", "256"]
    done = subprocess.run(program, cwd=Path(__file__).parents[1], capture_output=True, text=True)
    assert done.returncode == 0 and "reward of" in done.stdout, done.stderr


def test_agents_of_one_book(day: Path) -> None:
    from pettingzoo.test import parallel_api_test

    env = parallel_env(agents=3, data=day, duration_s=60, share_min=0.05, share_max=0.2)
    parallel_api_test(env, num_cycles=20)
    with pytest.raises(
        ConfigError, match="expected a day with a book as data, which the agents share, got a dynamic market"
    ):
        parallel_env(**SMALL)


def test_actions_of_another_shape_are_refused(day: Path) -> None:
    settings: dict[str, Any] = {"data": day, "duration_s": 60, "actions": "hybrid", "scales": Scales()}
    one, several = gymnasium.make(EXECUTION_ID, disable_env_checker=True, **settings), made(2, **settings)
    together = parallel_env(agents=1, **settings)
    for env in (one, several, together):
        env.reset(seed=1)
    with pytest.raises(ConfigError, match=r"actions: expected numbers of shape \(3,\), got \(7,\); see .*action_space"):
        one.step(np.zeros(7))
    with pytest.raises(ConfigError, match=r"actions: expected numbers of shape \(2, 3\), got \(3,\)"):
        several.step(np.zeros(3))
    with pytest.raises(ConfigError, match=r"actions: expected numbers of shape \(\d+,\), got \(99,\)"):
        together.step({"agent_0": np.zeros(99)})


def test_a_step_before_reset_is_refused(day: Path) -> None:
    """In simulated markets it ended the process."""
    settings: dict[str, Any] = {"data": day, "duration_s": 60, "scales": Scales()}
    together = parallel_env(agents=1, **settings)
    simulated = [
        (execution_vector_env(2, scales=Scales(), **SMALL), np.zeros((2, 3))),
        (making_vector_env(2, **SMALL), np.zeros((2, 2))),
        (directional_vector_env(2, **SMALL), np.zeros(2)),
    ]
    for env, actions in [(execution_vector_env(2, **settings), np.zeros((2, 3))), *simulated, (together, {})]:
        with pytest.raises(ResetNeeded, match=r"expected a reset before the first step of an episode.*; call reset"):
            env.step(actions)
    together.reset(seed=1)
    while together.agents:
        together.step({"agent_0": together.action_space("agent_0").sample()})
    with pytest.raises(ResetNeeded):
        together.step({})


def test_the_volume_of_a_simulated_market_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    measured, measure = list[Any](), sources._mean_volume

    def counted(*market: Any) -> float:
        measured.append(market)
        return measure(*market)

    monkeypatch.setattr(sources, "_volumes", {})
    monkeypatch.setattr(sources, "_mean_volume", counted)
    hours = {"hours": "09:40-09:50"}
    settings = [hours, {**hours, "part": "validation"}, {"hours": "09:40-09:45"}]
    found = [
        sources.Simulated(market_settings(**SMALL, **changes)).hours("train")[0].volume_lots_per_s
        for changes in (*settings, {**hours, "population_changes": {"groups.2.count": 5}})
    ]
    assert len(measured) == 3 and found[0] == found[1] and len(set(found)) == 3


@pytest.fixture(scope="module")
def in_simulated_markets() -> list[Any]:
    return [execution_vector_env(2, scales=Scales(), **SMALL), making_vector_env(2, **SMALL)]


@pytest.fixture(scope="module")
def of_each_kind(in_simulated_markets: list[Any], day: Path) -> list[Any]:
    """A simulated market, a replay, and agents of one book."""
    settings: dict[str, Any] = {"data": day, "duration_s": 60, "scales": Scales()}
    return [in_simulated_markets[1], made(2, **settings), parallel_env(agents=2, **settings)]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda rows: rows[:1], r"got shape \(1,\)"),  # in simulated markets it ended the process
        (lambda rows: np.concatenate([rows, rows]), r"got shape \(4,\)"),
        (lambda rows: rows.tolist(), "got list"),
        (lambda rows: rows["day"], r"got shape \(2,\), int32"),
    ],
)
def test_episodes_that_are_none_for_each_environment_are_refused(
    make: Callable[[Any], Any], text: str, in_simulated_markets: list[Any]
) -> None:
    for env in in_simulated_markets:
        rows = env.sampler.sample(np.random.default_rng(1), 2)
        with pytest.raises(ConfigError, match=r"episodes: expected EPISODE rows of shape \(2,\), " + text):
            env.reset(options={"episodes": make(rows)})
        env.reset(options={"episodes": rows})


@pytest.mark.parametrize("seed", [-1, 1.5, [3, -2]])
def test_a_seed_that_is_none_is_refused(seed: Any, of_each_kind: list[Any]) -> None:
    for env in of_each_kind:
        with pytest.raises(ConfigError, match=r"seed: expected an integer from 0 on, got .*\d\]?; give another"):
            env.reset(seed=seed)


def test_an_order_that_neither_sells_nor_buys_is_refused() -> None:
    """It would trade, and its advantage be none or doubled."""
    env = execution_vector_env(2, scales=Scales(), **SMALL)
    rows = env.sampler.sample(np.random.default_rng(1), 2)
    for sign in (0, 2):
        rows["sign"][1] = sign
        with pytest.raises(ConfigError, match=rf"sign: expected 1 \(sell\) or -1 \(buy\), got {sign}"):
            env.reset(options={"episodes": rows})


def test_agents_of_one_book_get_the_reward_of_the_settings(day: Path) -> None:
    """Of one agent that takes nothing, those of the vector environment."""
    settings: dict[str, Any] = {
        "data": day,
        "duration_s": 60,
        "interval_s": 20,
        "actions": "market",
        "scales": Scales(),
    }
    settings |= {"reward": "schedule", "unfilled_bps": 1000.0, "deviation_bps": 500.0}
    together = parallel_env(agents=1, shared=False, **settings)
    alone = execution_vector_env(1, **settings)
    together.reset(seed=1)
    alone.reset(seed=1)
    for _ in range(3):
        _, rewards, *_ = together.step({"agent_0": np.zeros(1 + together.message_size)})
        assert rewards["agent_0"] == pytest.approx(alone.step(np.zeros((1, 1)))[1][0])
    assert rewards["agent_0"] < -900


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"data": "a.day", "population": "small"}, "expected either data .* got both; give one of them"),
        ({"data": "a.day", "kind": "dynamic"}, "data: expected none for kind dynamic, got data; leave out kind"),
        ({"kind": "replay"}, "data: expected a day with a book, or a file of bars for kind replay, got none"),
        ({"data": None}, "data: expected the path of a file, or a list of paths, got None"),
        ({"data": ["a.day", 3]}, r"data: expected the path of a file, or a list of paths, got \['a.day', 3\]"),
        ({**SMALL, "scales": 3}, "scales: expected serl's Scales or none, got 3"),
        ({"population": "smal"}, "smal"),
        ({**SMALL, "actions": "all"}, "actions"),
        ({**SMALL, "nonsense": 1}, "nonsense"),
        ({**SMALL, "scales": Scales(), "part": "unseen"}, "part"),
        ({**SMALL, "hours": "11:00-10:00"}, "hours: expected an end after the start, got '11:00-10:00'"),
        ({**SMALL, "hours": "11:00-11:99"}, "hours: expected a time of day like 10:30"),
        ({**SMALL, "hours": "15:00-17:00"}, "the day, 09:30:00 to 16:00:00, got a window from 15:00:00 to 17:00:00"),
    ],
)
def test_bad_settings(settings: dict[str, Any], error: str) -> None:
    with pytest.raises((ConfigError, DataError), match=error):
        execution_vector_env(2, **settings)
