"""Execution environments: decisions on parent orders per second, including observations, rewards and new episodes.

- static: bars, half-hour orders in steps of a minute, 4096 at once. For comparison, the same fills in a loop of bare numpy without observations.
- static_book, replay and the replay that answers: the AMZN day of LOBSTER (or else a generated one), ten-minute orders in steps of 10 s.
- dynamic: RMSC04 with 1,116 traders in each of 64 markets, half-hour orders in steps of 60 s, 16 seeds.
"""

import os
import time
from typing import Any

import numpy as np

from benchmarks.replay import FOLDER, SAMPLES
from serl.agents.execution.answering.model import FITTED, answering_days
from serl.agents.execution.environment.bars import HIGH, LOW, VOLUME, BarDays, StaticBars
from serl.agents.execution.environment.dynamic import DynamicMarket
from serl.agents.execution.environment.episodes import SECOND_NS, Hours, RandomOrders
from serl.agents.execution.environment.market import ExecutionMarket
from serl.agents.execution.environment.replay import ReplayMarket
from serl.agents.execution.environment.static import StaticBook
from serl.agents.execution.environment.vector import ExecutionVectorEnv
from serl.agents.traders.population import load_population
from serl.history.day import Day
from serl.history.generate import generate_day
from serl.history.importing import import_day

DAYS, BARS, STATIC, BOOKS, MARKETS, SEEDS = 1000, 390, 4096, 64, 64, 16
OPEN_NS, MINUTE_NS = 34_200 * SECOND_NS, 60 * SECOND_NS
SHARE = 0.05
ROUNDS = 3


def random_bars(seed: int = 0) -> BarDays:
    """Days of a random walk."""
    random = np.random.default_rng(seed)
    close = 10_000 * np.exp(np.cumsum(random.normal(0, 5e-4, (DAYS, BARS)), axis=1))
    opened = np.concatenate([np.full((DAYS, 1), 10_000.0), close[:, :-1]], axis=1)
    high, low = np.maximum(opened, close) + 3, np.minimum(opened, close) - 3
    volume = np.rint(random.lognormal(9, 1, (DAYS, BARS)))
    values = np.stack([opened, high, low, close, (high + low + close) / 3, volume], axis=-1)
    return BarDays(OPEN_NS + MINUTE_NS * np.arange(BARS), MINUTE_NS, values)


def steps_per_s(market: ExecutionMarket, sampler: RandomOrders, steps: int) -> float:
    """Median over rounds of `steps` steps, after a warm-up round that compiles and ends every order once."""
    env = ExecutionVectorEnv(market, sampler, actions="hybrid")
    env.reset(seed=1)
    actions = np.random.default_rng(1).random((market.count, 3)) * [0.1, 0.2, 1.0]
    speeds = []
    for _ in range(ROUNDS + 1):
        began = time.perf_counter()
        for _ in range(steps):
            env.step(actions)
        speeds.append(market.count * steps / (time.perf_counter() - began))
    return float(np.median(speeds[1:]))


def bare_numpy_steps_per_s(bars: BarDays, steps: int) -> float:
    """Child market orders filled at the middle of each bar's range, without observations or rewards."""
    random = np.random.default_rng(2)
    remaining, notional = np.full(STATIC, 1e6), np.zeros(STATIC)
    day, bar = random.integers(DAYS, size=STATIC), random.integers(BARS, size=STATIC)
    began = time.perf_counter()
    for _ in range(steps):
        rows = bars.values[day, bar]
        lots = np.minimum(np.rint(SHARE * remaining), 0.2 * rows[:, VOLUME])
        notional += 0.5 * (rows[:, HIGH] + rows[:, LOW]) * lots
        remaining -= lots
        bar = (bar + 1) % BARS
    return STATIC * steps / (time.perf_counter() - began)


def recorded_day() -> tuple[str, Day]:
    """The AMZN day of LOBSTER if it is there, else a generated one: (name, day)."""
    path = FOLDER / SAMPLES["amzn"]
    return (SAMPLES["amzn"], import_day(path)) if path.exists() else ("generated", generate_day(1))


def run() -> dict[str, Any]:
    """All figures."""
    bars, (name, history), population = random_bars(), recorded_day(), load_population("rmsc04")
    minutes = RandomOrders([Hours(day, OPEN_NS, OPEN_NS + BARS * MINUTE_NS, 300.0) for day in range(DAYS)], 1800, 60)
    seconds = RandomOrders([Hours(0, 36_000 * SECOND_NS, 57_000 * SECOND_NS, 50.0)], 600, 10)
    first_ns = population.open_ns + 30 * MINUTE_NS
    seeds = RandomOrders([Hours(seed, first_ns, population.close_ns, 50.0) for seed in range(SEEDS)], 1800, 60)
    dynamic = DynamicMarket(population, MARKETS)
    try:
        return {
            "static_steps_per_s": steps_per_s(StaticBars(bars, STATIC), minutes, 60),
            "static_64_steps_per_s": steps_per_s(StaticBars(bars, 64), minutes, 600),
            "bare_numpy_steps_per_s": bare_numpy_steps_per_s(bars, 60),
            "static_book_steps_per_s": steps_per_s(StaticBook([history], BOOKS), seconds, 120),
            "replay_steps_per_s": steps_per_s(ReplayMarket([history], BOOKS), seconds, 120),
            "replay_answering_steps_per_s": steps_per_s(
                ReplayMarket([history], BOOKS, answers=answering_days([history], FITTED)), seconds, 120
            ),
            "replay_day": name,
            "dynamic_steps_per_s": steps_per_s(dynamic, seeds, 90),
            "cores": os.cpu_count(),
        }
    finally:
        dynamic.close()
