"""What a job makes of modules: environments, populations, numbers of steps."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from serl.agents.execution.environment.bars import VOLUME
from serl.agents.execution.environment.static import recorded_trades
from serl.agents.learning.concat_env import ConcatVectorEnv
from serl.agents.learning.team import TeamVectorEnv
from serl.history.day import read_day
from serl.researcher.candidates import Budget, Candidate, Module
from serl.researcher.inner import job, markets
from serl.researcher.inner.settings import Settings
from serl.researcher.modules.contracts import Kind
from serl.researcher.modules.example import example

MINUTE_NS = 60_000_000_000
START_NS = 600 * MINUTE_NS


def modules(settings: Settings, *kinds: Kind) -> dict[Kind, Any]:
    """Specifications of the examples."""
    return job.module_functions(Candidate({kind: Module("spec", example(kind, "spec")) for kind in kinds}), settings)


def test_half_of_every_batch_is_imagined_and_the_reward_is_the_modules(settings: Settings, tmp_path: Path) -> None:
    made = modules(settings, Kind.IMAGINE)
    steps: list[Any] = []

    def reward(step: Any) -> Any:
        steps.append(step)
        return np.full(len(step.sign), 7.0)

    (env,) = job.environments(made | {Kind.REWARD: reward}, settings, Budget(100, 0), tmp_path)
    assert isinstance(env, ConcatVectorEnv)
    real, imagined = env.envs
    assert real.num_envs == imagined.num_envs == settings.market.environments // 2
    observations, _ = env.reset(seed=1)
    assert observations.shape == (settings.market.environments, env.single_observation_space.shape[0])
    _, rewards, *_ = env.step(np.full((env.num_envs, 3), 0.5))
    assert (rewards == 7.0).all()
    assert len(steps) == 2
    assert not np.array_equal(observations[:4], observations[4:])


@pytest.mark.long
def test_profiles_make_the_dynamic_market_and_teams_hear_each_other(settings: Settings, tmp_path: Path) -> None:
    made = modules(settings, Kind.PROFILES, Kind.COMMUNICATE)
    envs = job.environments(made, settings, Budget(100, 100), tmp_path)
    assert yaml.safe_load((tmp_path / job.POPULATION).read_text())["name"] == "imagined"
    assert len(envs) == 2
    for env in envs:
        assert isinstance(env, TeamVectorEnv)
        first, _ = env.reset(seed=3)
        lots = env.unwrapped.accounts.episodes["qty_lots"].reshape(-1, 2)
        assert (abs(lots[:, 0] - lots[:, 1]) <= 1).all()
        assert (first[:, -2:] == 0).all()
        seen, rewards, *_ = env.step(np.linspace(0, 1, env.num_envs)[:, None] * [1.0, 0.5, 0.0])
        said = made[Kind.COMMUNICATE](first[:, :-2]).astype(np.float32)
        np.testing.assert_array_equal(seen[::2, -2:], said[1::2])
        np.testing.assert_array_equal(seen[1::2, -2:], said[::2])
        np.testing.assert_array_equal(rewards[::2], rewards[1::2])


@pytest.mark.parametrize(("static", "dynamic"), [(200_000, 20_000), (1000, 1000), (500, 0)])
def test_each_market_gets_its_steps(settings: Settings, static: int, dynamic: int) -> None:
    config = job.training_config(settings, Budget(static, dynamic), [64, 32])
    assert config.ppo.steps == static + dynamic
    share = config.hybrid.static_share
    both = (1 - share) * config.ppo.steps
    if dynamic:
        assert both / 3 == pytest.approx(min(dynamic, (static + dynamic) / 3), rel=1e-3)
    else:
        assert config.hybrid.rule == "static"


def test_bars_of_trades(settings: Settings) -> None:
    assert settings.day is not None
    trades = recorded_trades(read_day(settings.day))[:-1]
    bars = markets.trades_to_bars(trades, START_NS, START_NS + 10 * MINUTE_NS, MINUTE_NS)
    inside = trades[(trades["time_ns"] >= START_NS) & (trades["time_ns"] < START_NS + 10 * MINUTE_NS)]
    assert bars.values[..., VOLUME].sum() == inside["lots"].sum()
    assert bars.values[0, -1, 3] == inside["price_ticks"][-1]
    opens, highs, lows, closes = bars.values[0, :, :4].T
    assert (highs >= np.maximum(opens, closes)).all()
    assert (lows <= np.minimum(opens, closes)).all()
