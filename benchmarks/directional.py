"""Taking positions: decisions per second, and what simple rules earn in `liquid`, `trending` and `amzn`.

steps_per_s: 64 agents in `liquid`, a decision each second, observations, rewards and new windows included. The rest: 64 windows of ten
minutes on 16 simulated test days, the same for all; profit in ticks a lot of the largest position (100 lots), half of its 95 % interval over days
(Student's t), turnover in largest positions, the Sharpe ratio and the drawdown (in the same ticks) of a window.
"""

from typing import Any

import numpy as np

from benchmarks.making import MARKETS, speed
from serl.agents.directional.config import directional_settings
from serl.agents.directional.environment import DirectionalVectorEnv
from serl.agents.directional.evaluate import evaluate
from serl.agents.directional.rules import Flat, MeanReversion, Momentum, Uniform
from serl.agents.positions.config import position_market, windows
from serl.agents.positions.targets import Rule

POPULATIONS, WINDOWS = ("liquid", "trending", "amzn"), 64
THRESHOLDS_TICKS = 2.0, 10.0
RULES: dict[str, Rule[DirectionalVectorEnv]] = {
    "flat": Flat(),
    "random": Uniform(),
    **{f"{kind.__name__}_{far:g}": kind(far) for kind in (Momentum, MeanReversion) for far in THRESHOLDS_TICKS},
}


def steps_per_s() -> float:
    """Half of the agents are long, half short."""
    config = directional_settings()
    env = DirectionalVectorEnv(position_market(config, MARKETS), windows(config), config)
    return speed(env, env.actions_of(np.resize([1.0, -1.0], MARKETS)))


def profits(population: str) -> dict[str, Any]:
    """All rules in one population."""
    config = directional_settings(population=population, part="test")
    lots, found = config.inventory_lots_max, {}
    for name, score in zip(RULES, evaluate(list(RULES.values()), config, WINDOWS), strict=True):
        mean, half = score.mean("profit")
        found[name] = {
            "profit_ticks": mean / lots, "profit_interval_ticks": half / lots, "turnover": score.mean("turnover_lots")[0] / lots,
            "sharpe": score.mean("sharpe")[0], "drawdown_ticks": score.mean("drawdown")[0] / lots,
        }  # fmt: skip
    return found


def run() -> dict[str, Any]:
    """All figures."""
    return {"directional_steps_per_s": steps_per_s(), **{name: profits(name) for name in POPULATIONS}}
