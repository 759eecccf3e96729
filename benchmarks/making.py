"""Market making: decisions per second, and what closed-form market makers earn in `liquid` and `amzn`.

- steps_per_s: 64 market makers in `liquid`, a decision each second, including observations, rewards and new windows.
- All other figures: 200 windows of ten minutes on 16 simulated test days, the same for all market makers. Profit is in ticks a quote of 100 lots, with
  its 95 % interval over days (Student's t); inventory is the mean in quotes, and the Sharpe ratio that of a window.
- Volatility and rates of trades are measured on three training days.
"""

import time
from typing import Any

import numpy as np

from serl.agents.making.config import MakingConfig, making_settings
from serl.agents.making.environment import MakingVectorEnv
from serl.agents.making.evaluate import evaluate
from serl.agents.making.makers import AvellanedaStoikov, Glft, Maker, MarketParameters, Symmetric
from serl.agents.positions.config import position_market, windows
from serl.agents.positions.environment import PositionVectorEnv

MARKETS, STEPS, ROUNDS, WINDOWS = 64, 300, 3, 200
POPULATIONS = {"liquid": 5.0, "amzn": 30.0}
"""Largest distances from the mid, in ticks."""


def steps_per_s() -> float:
    """Median over rounds."""
    config = making_settings()
    env = MakingVectorEnv(position_market(config, MARKETS), windows(config), config)
    return speed(env, np.tile(env.actions_of([0.5, 0.5]), (MARKETS, 1)))


def speed(env: PositionVectorEnv, actions: Any) -> float:
    """Decisions per second of all its environments, the median over rounds. Closes it."""
    env.reset(seed=1)
    speeds = []
    for _ in range(ROUNDS + 1):
        began = time.perf_counter()
        for _ in range(STEPS):
            env.step(actions)
        speeds.append(env.num_envs * STEPS / (time.perf_counter() - began))
    env.close()
    return float(np.median(speeds[1:]))


def makers(parameters: MarketParameters) -> list[tuple[str, Maker]]:
    """Names of figures, and who makes them."""
    distances: list[tuple[str, Maker]] = [(f"symmetric_{far:g}", Symmetric(far)) for far in (0.5, 1.0, 2.0)]
    averse = [
        (f"{name}_{gamma:g}", kind(parameters, gamma))
        for name, kind in (("avellaneda_stoikov", AvellanedaStoikov), ("glft", Glft))
        for gamma in (0.001, 0.01, 0.1)
    ]
    return distances + averse


def profits(population: str, offset_ticks: float) -> dict[str, Any]:
    """All makers in one population."""
    parameters = MarketParameters.measure(population, [0, 1, 2])
    config: MakingConfig = making_settings(population=population, part="test", offset_ticks=offset_ticks)
    named, lots = makers(parameters), config.quote_lots
    found: dict[str, Any] = {
        "volatility_ticks_per_root_s": parameters.volatility_ticks_per_root_s, "trades_per_s": parameters.trades_per_s,
        "decay_per_tick": parameters.decay_per_tick,
    }  # fmt: skip
    for (name, _), score in zip(named, evaluate([maker for _, maker in named], config, WINDOWS), strict=True):
        mean, half = score.mean("profit")
        found[name] = {
            "profit_ticks": mean / lots, "profit_interval_ticks": half / lots,
            "inventory_quotes": score.mean("inventory_mean_lots")[0] / lots, "sharpe": score.mean("sharpe")[0],
        }  # fmt: skip
    return found


def run() -> dict[str, Any]:
    """All figures."""
    return {
        "market_making_steps_per_s": steps_per_s(),
        **{name: profits(name, far) for name, far in POPULATIONS.items()},
    }
