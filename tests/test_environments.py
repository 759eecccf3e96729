"""`serl.environments`: gymnasium and PettingZoo make them by name, over each kind of market; bad settings."""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from serl.agents.execution.environment.bars import StaticBars
from serl.agents.execution.environment.dynamic import DynamicMarket
from serl.agents.execution.environment.replay import ReplayMarket
from serl.agents.execution.environment.vector import ExecutionVectorEnv
from serl.agents.execution.errors import DataError
from serl.environments import EXECUTION_ID, execution_vector_env, parallel_env
from serl.exchange.errors import ConfigError
from serl.history.day import write_day
from serl.history.generate import generate_day
from tests.agents.execution.test_data import rows as bar_rows
from tests.agents.execution.test_data import write as write_bars

SMALL: dict[str, Any] = {"population": "small", "duration_s": 120}


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("days") / "demo.day"
    write_day(generate_day(3), path)
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
    one, four = (made(count, data=day).observer.scales for count in (1, 4))
    assert one == four


def test_agents_of_one_book(day: Path) -> None:
    from pettingzoo.test import parallel_api_test

    env = parallel_env(agents=3, data=day, duration_s=60, share_min=0.05, share_max=0.2)
    parallel_api_test(env, num_cycles=20)
    with pytest.raises(ConfigError, match="expected data, a day with a book that agents share, got a dynamic market"):
        parallel_env(**SMALL)


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({}, "expected either data, a day with a book or a file of bars, or population"),
        ({"data": "a.day", "population": "small"}, "give one of them"),
        ({"population": "smal"}, "smal"),
        ({**SMALL, "actions": "all"}, "actions"),
        ({**SMALL, "nonsense": 1}, "nonsense"),
        ({**SMALL, "part": "unseen"}, "part"),
    ],
)
def test_bad_settings(settings: dict[str, Any], error: str) -> None:
    with pytest.raises((ConfigError, DataError), match=error):
        execution_vector_env(2, **settings)
