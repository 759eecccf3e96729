"""The traders' random numbers."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from serl.agents.traders import random
from serl.agents.traders.build import Crowd
from serl.agents.traders.records import AGENT
from serl.exchange.compiling import compiled
from tests.agents.traders.trader_bench import ZERO, population

COUNT = 200_000


@compiled
def _uniforms(agents: Any, out: Any) -> None:
    for index in range(out.size):
        out[index] = random.uniform(agents[0])


@compiled
def _normals(agents: Any, out: Any) -> None:
    for index in range(out.size):
        out[index] = random.normal(agents[0])


@compiled
def _exponentials(agents: Any, out: Any) -> None:
    for index in range(out.size):
        out[index] = random.exponential(agents[0], 3.0)


@compiled
def _geometrics(agents: Any, out: Any) -> None:
    for index in range(out.size):
        out[index] = random.geometric(agents[0], 0.25)


@compiled
def _belows(agents: Any, out: Any) -> None:
    for index in range(out.size):
        out[index] = random.below(agents[0], 7)


def draws(function: Callable[..., None], seed: int = 5, count: int = COUNT) -> Any:
    agents, out = np.zeros(1, AGENT), np.zeros(count)
    agents["seed"] = seed
    function(agents, out)
    return out


@pytest.mark.parametrize(
    ("function", "mean", "variance"),
    [
        (_uniforms, 0.5, 1 / 12),
        (_normals, 0.0, 1.0),
        (_exponentials, 3.0, 9.0),
        (_geometrics, 3.0, 12.0),
        (_belows, 3.0, 4.0),
    ],
)
def test_moments(function: Callable[..., None], mean: float, variance: float) -> None:
    out = draws(function)
    assert abs(out.mean() - mean) < 4.5 * math.sqrt(variance / COUNT)
    kurtosis = np.mean((out - out.mean()) ** 4) / out.var() ** 2
    assert abs(out.var() - variance) < 4.5 * variance * math.sqrt((kurtosis - 1) / COUNT)


def test_uniform_is_uniform_and_without_memory() -> None:
    out = draws(_uniforms)
    assert out.min() > 0 and out.max() < 1
    counts = np.histogram(out, 100, (0, 1))[0]
    chi_squared = float(((counts - COUNT / 100) ** 2 / (COUNT / 100)).sum())
    assert 50 < chi_squared < 160  # 99 degrees of freedom: 1e-4 either way
    for lag in (1, 2, 7, 100):
        assert abs(np.corrcoef(out[:-lag], out[lag:])[0, 1]) < 4.5 / math.sqrt(COUNT)
    cells = np.histogram2d(out[::2], out[1::2], 20, ((0, 1), (0, 1)))[0]
    assert 270 < float(((cells - COUNT / 800) ** 2 / (COUNT / 800)).sum()) < 530  # 399 degrees of freedom


def test_below_draws_integers_below_its_bound() -> None:
    assert np.unique(draws(_belows)).tolist() == [0, 1, 2, 3, 4, 5, 6]


def test_neighbouring_traders_and_seeds_are_independent() -> None:
    seeds = [int(random.trader_seed(seed, number)) for seed in (1, 2) for number in range(50)]
    assert len(set(seeds)) == 100
    table = np.stack([draws(_uniforms, seed, 4000) for seed in seeds])
    correlations = np.corrcoef(table)[np.triu_indices(100, 1)]
    assert np.abs(correlations).max() < 5.5 / math.sqrt(4000)
    assert abs(correlations.std() * math.sqrt(4000) - 1) < 0.1


def test_a_trader_does_not_depend_on_its_host() -> None:
    config = population(ZERO, {"trader": "noise", "count": 9, "latency_spread_us": 500, "start_spread_s": 60})
    all_agents = Crowd(config, 3).traders.agents
    for host in range(3):
        share = Crowd(config, 3, host, 3).traders.agents
        assert share["number"].tolist() == list(range(host, 10, 3))
        for field in ("seed", "latency_ns", "wake_ns", "kind"):
            assert np.array_equal(share[field], all_agents[field][host::3])


def test_no_two_first_wake_ups_are_at_the_same_time() -> None:
    config = population(ZERO, {"trader": "noise", "count": 5000, "start_spread_s": 0.0})
    wakes = Crowd(config, 1).traders.agents["wake_ns"]
    assert len(np.unique(wakes % config.spacing_ns)) == 5001
