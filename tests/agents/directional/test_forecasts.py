"""Forecasts that agents with positions observe: those of a simulation of the same seed, in all three environments."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import serl.environments
from serl.agents.directional.config import directional_settings
from serl.agents.directional.environment import DirectionalVectorEnv
from serl.agents.execution.environment.forecasts import COLUMNS
from serl.agents.positions.config import position_market, windows
from serl.agents.traders.forecasters import with_forecaster
from serl.agents.traders.population import load_population
from serl.agents.traders.records import BOARD_COUNT, BOARD_START, FORECAST_NUMBERS
from serl.agents.traders.simulate import Simulation
from serl.agents.traders.trader_api import DOWN, FILL_BUY, FILL_SELL, SECOND_NS, UP, VOLUME
from serl.exchange.errors import ConfigError
from tests.agents.traders.random_forecaster import HORIZONS_S, random_forecaster

SETTINGS: dict[str, Any] = {"population": "small", "duration_s": 60, "interval_s": 5, "simulated_days": 2}
SIZE = COLUMNS * len(HORIZONS_S)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("forecaster") / "random.signals"
    random_forecaster().write(path)
    return path


def expected(seed: int, time_ns: int) -> list[float]:
    """What a forecaster that forecasts at each look says before a time; 0 without a forecast."""
    made = random_forecaster()
    simulation = Simulation(with_forecaster(load_population("small"), made, every_steps=1), seed)
    simulation.advance(time_ns)
    board = simulation.crowd.traders.forecast_board[0]
    if not board[BOARD_COUNT]:
        return [0.0] * SIZE
    rows = board[BOARD_START:].reshape(-1, FORECAST_NUMBERS)[: len(HORIZONS_S), 1:]
    return [
        value
        for row, mean in zip(rows, made.volume.means, strict=True)
        for value in (
            row[UP] - row[DOWN],
            row[UP] + row[DOWN],
            row[FILL_BUY],
            row[FILL_SELL],
            np.log(row[VOLUME] / mean),
        )
    ]


@pytest.mark.long
@pytest.mark.parametrize("kind", ["directional", "making"])
def test_they_are_those_of_a_simulation_of_the_same_seed(kind: str, file: Path) -> None:
    """As long as the agent does not trade; the rest of the observation is as without them."""
    make = getattr(serl.environments, f"{kind}_vector_env")
    env, plain = make(2, **SETTINGS, forecaster=str(file)), make(2, **SETTINGS)
    episodes = plain.sampler.sample(np.random.default_rng(1), 2)
    episodes["start_ns"] = load_population("small").open_ns + 95 * SECOND_NS
    seen, others = (each.reset(seed=1, options={"episodes": episodes.copy()})[0] for each in (env, plain))
    assert env.single_observation_space.shape[0] == plain.single_observation_space.shape[0] + SIZE == seen.shape[1]
    nothing = np.full((2, 2), 1.0) if kind == "making" else np.full(2, 2)
    for step in range(3):
        np.testing.assert_array_equal(seen[:, :-SIZE], others)
        wanted = [expected(int(one["day"]), int(one["start_ns"]) + 5 * step * SECOND_NS) for one in episodes]
        if kind == "directional":  # a maker's quotes are part of its market
            np.testing.assert_allclose(seen[:, -SIZE:], wanted, atol=1e-5)
        assert (seen[:, -SIZE:] != 0).all()
        seen, others = (each.step(nothing)[0] for each in (env, plain))
    env.close()
    plain.close()


@pytest.mark.long
def test_a_pair_observes_those_of_one_symbol(tmp_path: Path) -> None:
    symbol = load_population("pair").symbol_names[1]
    random_forecaster(symbol=symbol).write(tmp_path / "f")
    settings = SETTINGS | {"population": "pair"}
    env = serl.environments.pairs_vector_env(2, **settings, forecaster=str(tmp_path / "f"))
    seen, _ = env.reset(seed=1)
    seen = env.step(np.full(2, 2))[0]
    assert (seen[:, -SIZE:] != 0).any() and seen.shape[1] == env.single_observation_space.shape[0]
    env.close()


def test_a_market_without_the_forecaster_is_refused(file: Path) -> None:
    with_one, without = directional_settings(**SETTINGS, forecaster=file), directional_settings(**SETTINGS)
    market = position_market(without, 1)
    with pytest.raises(
        ConfigError, match="forecaster: expected a market of `position_market` with these settings, got another"
    ):
        DirectionalVectorEnv(market, windows(with_one), with_one)
    market.close()
