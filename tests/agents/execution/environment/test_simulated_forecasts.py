"""Forecasts in simulated environments: an observation has what the forecaster among the traders said before the decision."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import serl.environments
from serl.agents.execution.environment.observation import Scales
from serl.agents.execution.policies.schedules import Twap
from serl.agents.learning.environments import Scenario
from serl.agents.learning.evaluation import Contender, evaluate
from serl.agents.learning.market_config import MarketConfig, with_overrides
from serl.agents.learning.policy import load_policy
from serl.agents.learning.training import Training, TrainingConfig
from serl.agents.signals.grid import STEP_NS
from serl.agents.traders.forecasters import with_forecaster
from serl.agents.traders.population import load_population
from serl.agents.traders.records import BOARD_COUNT, BOARD_START, BOARD_TIME, FORECAST_NUMBERS
from serl.agents.traders.simulate import Simulation
from serl.agents.traders.trader_api import DOWN, FILL_BUY, FILL_SELL, SECOND_NS, UP, VOLUME
from tests.agents.traders.random_forecaster import HORIZONS_S, random_forecaster

OPEN_NS = load_population("small").open_ns
NAMES = tuple(f"{name}_{horizon_s:g}s" for horizon_s in HORIZONS_S for name in ("trend", "move", "fill", "volume"))

QUIET, LOUD = np.zeros((4, 3)), np.tile([1.0, 0.0, 0.0], (4, 1))
"""Actions: nothing, and two even slices at once."""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("forecaster") / "random.signals"
    random_forecaster().write(path)
    return path


def scenario(file: Path | None, **changes: Any) -> Scenario:
    """Orders of 30 s between 09:31 and 09:35, in steps of 5 s."""
    settings = {
        "kind": "dynamic", "population": "small", "hours": "09:31-09:35", "duration_s": 30, "interval_s": 5, "environments": 4,
        "simulated_days": 4,
    }  # fmt: skip
    return Scenario(with_overrides(MarketConfig(), settings | {"forecaster": file} | changes))


def episodes_of(env: Any, start_s: float = 90.0) -> Any:
    """Orders of all environments, each in a market of its own, of both sides."""
    episodes = env.sampler.sample(np.random.default_rng(1), env.num_envs)
    episodes["day"], episodes["sign"] = np.arange(env.num_envs), [1, -1] * (env.num_envs // 2)
    episodes["start_ns"] = OPEN_NS + round(start_s * SECOND_NS)
    return episodes


def expected(board: Any, sign: int) -> list[float]:
    """Of a board."""
    rows = board[BOARD_START:].reshape(-1, FORECAST_NUMBERS)[: int(board[BOARD_COUNT]), 1:]
    fill, means = FILL_SELL if sign > 0 else FILL_BUY, random_forecaster().volume.means
    return [
        value
        for row, mean in zip(rows, means, strict=False)
        for value in (sign * (row[UP] - row[DOWN]), row[UP] + row[DOWN], row[fill], np.log(row[VOLUME] / mean))
    ]


def test_an_observation_has_what_the_board_said_before_the_decision(file: Path) -> None:
    """Of a simulation of the same seed, as long as we do not trade; the board is a tenth of a second old at most."""
    env = scenario(file).env(Scales())
    plain = scenario(None).env(Scales())
    assert env.layout.names == (*plain.layout.names, *NAMES)
    episodes = episodes_of(env)
    population = with_forecaster(load_population("small"), random_forecaster(), every_steps=1)
    simulations = [Simulation(population, seed) for seed in range(4)]
    seen, others = (each.reset(seed=1, options={"episodes": episodes})[0] for each in (env, plain))
    for step in range(5):
        time_ns = OPEN_NS + (90 + 5 * step) * SECOND_NS
        for number, simulation in enumerate(simulations):
            simulation.advance(time_ns)
            board = simulation.crowd.traders.forecast_board[0]
            assert 0 < time_ns - board[BOARD_TIME] <= STEP_NS
            np.testing.assert_allclose(seen[number, -12:], expected(board, episodes["sign"][number]), atol=1e-6)
        np.testing.assert_array_equal(seen[:, :-12], others)
        seen, others = (each.step(QUIET)[0] for each in (env, plain))
    assert seen.std(0)[-12:].all(), "they differ"


def test_nothing_from_a_decision_on_is_seen(file: Path) -> None:
    """Our orders arrive at the very time of the next decision: it sees them in the book, and not yet in the forecast."""
    env, seen = scenario(file, latency_us=5e6).env(Scales()), []
    options = {"episodes": episodes_of(env)}
    for action in (QUIET, LOUD):
        env.reset(seed=1, options=options)
        seen.append([env.step(action)[0] for _ in range(2)])
    (quiet, later), (loud, changed) = seen
    assert (quiet[:, :-12] != loud[:, :-12]).any(axis=1).all()
    np.testing.assert_array_equal(quiet[:, -12:], loud[:, -12:])
    assert (later[:, -12:] != changed[:, -12:]).any(axis=1).all(), "later it is part of the market that is forecast"


def test_without_a_forecast_the_numbers_are_zero(file: Path) -> None:
    env = scenario(file).env(Scales())
    seen, _ = env.reset(seed=1, options={"episodes": episodes_of(env, start_s=40.0)})
    assert (seen[:, -12:] == 0).all(), "in the first minute"
    while (seen[:, -12:] == 0).all():
        seen = env.step(QUIET)[0]
    assert env.market.frames["time_ns"].tolist() == [OPEN_NS + 65 * SECOND_NS] * 4


def test_policies_with_and_without_forecasts_trade_in_the_same_market(file: Path, tmp_path: Path) -> None:
    policies = {}
    for name, forecaster in (("with", file), ("without", None)):
        made = scenario(forecaster)
        settings = TrainingConfig.model_validate({
            "market": made.config.model_dump(mode="json"), "network": {"hidden": [8]},
            "ppo": {"steps": 200, "rollout_steps": 12, "minibatch": 24, "epochs": 1},
        })  # fmt: skip
        (tmp_path / name).mkdir()
        Training(settings, [made.env(Scales())], tmp_path / name).run()
        policies[name] = load_policy(tmp_path / name / "policy.safetensors")
    assert policies["with"].interface.horizons_s == HORIZONS_S
    assert policies["with"].interface.forecaster.startswith("random.signals sha256")
    contenders = [
        Contender("twap", Twap(), "market"),
        *(Contender(*each, each[1].modes[0]) for each in policies.items()),
    ]
    table = evaluate(scenario(file, part="test"), contenders, 8, 1)
    assert [row.name for row in table.rows][-2:] == ["with", "without"]
    assert (table.rows[-2].columns["pa"] != table.rows[-1].columns["pa"]).any()


def test_by_name(file: Path) -> None:
    env = serl.environments.execution_vector_env(
        2, population="small", hours="09:32-09:35", duration_s=30, interval_s=5, simulated_days=2, forecaster=file
    )
    assert env.layout.names[-12:] == NAMES
    assert env.reset(seed=1)[0][:, -12:].all()
