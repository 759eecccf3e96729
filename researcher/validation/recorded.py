"""Recorded inputs for dry runs. `python -m serl.researcher.validation.recorded FILE` records new ones."""

import dataclasses
import sys
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import numpy as np

from serl.researcher.modules.contracts import MEMORY_SIZE, Floats, MarketStatistics, RewardInputs

ENVIRONMENTS, STEPS, HISTORY_BARS = 16, 12, 60
DURATION_S, INTERVAL_S, ACTION_DIM = 600.0, 60.0, 4
NAME = "recorded.npz"
RECORDED_FIELDS = [field.name for field in dataclasses.fields(RewardInputs) if field.name != "memory"]
"""Fields of RewardInputs that are recorded; the module itself defines `memory`."""


@dataclasses.dataclass(frozen=True)
class Recorded:
    """Inputs for every contract, from an hour of generated history."""

    steps: tuple[RewardInputs, ...]
    """Consecutive steps of ENVIRONMENTS orders, including the last step of an episode."""
    observations: Floats
    """(ENVIRONMENTS, d)."""
    history: Floats
    """(HISTORY_BARS, 3)."""
    statistics: MarketStatistics


@cache
def load() -> Recorded:
    """The inputs shipped with serl; their arrays are read-only."""
    with (
        as_file(files("serl.researcher.validation").joinpath(NAME)) as path,
        np.load(path, allow_pickle=False) as arrays,
    ):
        loaded = {name: arrays[name] for name in arrays.files}
    for values in loaded.values():
        values.flags.writeable = False
    steps = tuple(
        RewardInputs(**dict(zip(RECORDED_FIELDS, step, strict=True)), memory=np.zeros((ENVIRONMENTS, MEMORY_SIZE)))
        for step in loaded["steps"]
    )
    return Recorded(
        steps, loaded["observations"], loaded["history"], MarketStatistics(*map(float, loaded["statistics"]))
    )


def record() -> dict[str, Any]:
    """Record the arrays of the file: random actions on orders in an hour of a generated day."""
    from serl.agents.execution.environment.episodes import RandomOrders
    from serl.agents.execution.environment.hours import trading_hours
    from serl.agents.execution.environment.static import StaticBook
    from serl.agents.execution.environment.vector import ExecutionVectorEnv
    from serl.exchange.config import time_of_day_ns
    from serl.history.generate import generate_day
    from serl.researcher.modules.adapters import reward_inputs

    day = generate_day(7, start_ns=time_of_day_ns("09:30"), end_ns=time_of_day_ns("10:35"))
    market = StaticBook([day], ENVIRONMENTS)
    steps: list[Any] = []

    def record_step(env: ExecutionVectorEnv, fills: Any, last: Any) -> Any:
        inputs = reward_inputs(env, fills, last, np.zeros((env.num_envs, MEMORY_SIZE)))
        steps.append([getattr(inputs, name) for name in RECORDED_FIELDS])
        return np.zeros(env.num_envs)

    env = ExecutionVectorEnv(
        market, RandomOrders([trading_hours(day)], DURATION_S, INTERVAL_S), actions="hybrid", reward=record_step
    )
    random = np.random.default_rng(7)
    observations, _ = env.reset(seed=7)
    for _ in range(STEPS):
        observations, *_ = env.step(random.random((ENVIRONMENTS, 3)) * [0.15, 0.5, 1.0])
    return {
        "steps": np.array(steps), "observations": np.asarray(observations, np.float64),
        "history": _history(day), "statistics": _statistics(day),
    }  # fmt: skip


def _trades(day: Any) -> Any:
    from serl.agents.execution.environment.static import recorded_trades

    return recorded_trades(day)[:-1]


def _history(day: Any) -> Floats:
    """(HISTORY_BARS, 3) one-minute bars of the trades."""
    trades = _trades(day)
    minutes = (trades["time_ns"] - day.reference.first_time_ns) // 60_000_000_000
    rows, close = [], float(trades["price_ticks"][0])
    for minute in range(HISTORY_BARS):
        here = trades[minutes == minute]
        prices = here["price_ticks"].astype(float) if len(here) else np.array([close])
        rows.append([(prices[-1] / close - 1) * 1e4, np.ptp(prices) / prices[-1] * 1e4, float(here["lots"].sum())])
        close = prices[-1]
    return np.array(rows)


def _statistics(day: Any) -> Floats:
    """MarketStatistics in the order of its fields."""
    from serl.agents.execution.environment.static import recorded_books

    trades, books = _trades(day), recorded_books(day, 1)[1:]
    seconds = (day.reference.last_time_ns - day.reference.first_time_ns) * 1e-9
    both = books[(books["ticks"][:, :, 0] > 0).all(axis=1)]
    mid = both["ticks"][:, :, 0].mean(axis=1)
    at = (
        np.searchsorted(both["time_ns"], np.arange(both["time_ns"][0], both["time_ns"][-1], 1_000_000_000), "right") - 1
    )
    return np.array([
        mid.mean(), np.ptp(both["ticks"][:, :, 0], axis=1).mean(), both["lots"][:, :, 0].mean(), trades["lots"].sum() / seconds,
        len(trades) / seconds, trades["lots"].mean(), np.diff(mid[at]).std(),
    ])  # fmt: skip


if __name__ == "__main__":
    np.savez_compressed(Path(sys.argv[1]), **record())
