"""Trading a pair: decisions per second, and what the z-score rule earns in `pair`, and where nothing holds the pair together.

steps_per_s: 64 agents in `pair`, a decision each second, observations, rewards and new windows included; beside it 64 that take positions in one
symbol of a market with the same groups. The rest: 64 windows of ten minutes on 16 simulated test days, the same for all; profit in ticks a lot of
the second symbol's largest position (100 lots), half of its 95 % interval over days (Student's t), turnover of both symbols in the same lots, mean
inventory of both, the Sharpe ratio and the drawdown of a window. spread: as measured on four training days, on which the rules rely. apart: `pair`,
but for BETA's value, a random walk of the same volatility a second, independent of ALFA's.
"""

import dataclasses
import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from benchmarks.making import MARKETS, speed
from serl.agents.directional.config import directional_settings
from serl.agents.directional.environment import DirectionalVectorEnv
from serl.agents.pairs.config import pair_settings
from serl.agents.pairs.environment import PairVectorEnv
from serl.agents.pairs.evaluate import evaluate, pair_env
from serl.agents.pairs.rules import ZScore
from serl.agents.pairs.spread import Spread
from serl.agents.positions.config import position_market, windows
from serl.agents.positions.rules import Flat, Uniform
from serl.agents.positions.targets import Rule
from serl.agents.traders.builtin import POPULATIONS, read_yaml
from serl.agents.traders.population import load_population
from serl.exchange.errors import ConfigError

WINDOWS = 64
RULES: dict[str, Rule[PairVectorEnv]] = {
    "flat": Flat(),
    "random": Uniform(),
    **{f"z_{enter:g}_{leave:g}": ZScore(enter, leave) for enter in (1.0, 2.0) for leave in (0.0, 0.5)},
}


def values_of_pair() -> dict[str, Any]:
    """The population `pair` as it is written."""
    return read_yaml("pair", POPULATIONS, ConfigError, "name and groups")


def apart(folder: Path) -> Path:
    """Writes `pair` with values that are independent random walks."""
    values = values_of_pair()
    first, second = values["value"], values["symbols"][1]
    ratio = second.pop("follows")["ALFA"]
    volatility = math.hypot(
        ratio * first["volatility_ticks_per_root_s"], second["value"]["volatility_ticks_per_root_s"]
    )
    second["value"] |= {"reversion_per_s": 0.0, "volatility_ticks_per_root_s": volatility}
    return written(values | {"name": "apart"}, folder)


def alone(folder: Path) -> Path:
    """Writes `pair` with its first symbol only."""
    values = values_of_pair()
    return written(values | {"name": "alone", "symbols": values["symbols"][:1]}, folder)


def written(values: dict[str, Any], folder: Path) -> Path:
    """Writes a population to a folder."""
    path = folder / f"{values['name']}.yaml"
    path.write_text(yaml.safe_dump(values))
    return path


def steps_per_s(folder: Path) -> dict[str, float]:
    """Half of the agents are long, half short."""
    shares = np.resize([1.0, -1.0], MARKETS)
    pairs = pair_env(pair_settings(), MARKETS, Spread(0.5, 1000.0, 6.0, 90.0))
    config = directional_settings(population=str(alone(folder)))
    one = DirectionalVectorEnv(position_market(config, MARKETS), windows(config), config)
    return {
        "pairs_steps_per_s": speed(pairs, pairs.actions_of(shares)),
        "one_symbol_steps_per_s": speed(one, one.actions_of(shares)),
    }


def profits(population: str) -> dict[str, Any]:
    """All rules in one population."""
    config = pair_settings(population=population, part="test")
    spread = Spread.measure(load_population(population))
    found: dict[str, Any] = {"spread": dataclasses.asdict(spread)}
    lots = config.inventory_lots_max
    if math.isinf(spread.half_life_s):
        found["spread"]["half_life_s"] = "none"
    for name, score in zip(RULES, evaluate(list(RULES.values()), config, spread, WINDOWS), strict=True):
        mean, half = score.mean("profit")
        found[name] = {
            "profit_ticks": mean / lots, "profit_interval_ticks": half / lots, "turnover": score.mean("turnover_lots")[0] / lots,
            "inventory": score.mean("inventory_mean_lots")[0] / lots, "sharpe": score.mean("sharpe")[0],
            "drawdown_ticks": score.mean("drawdown")[0] / lots,
        }  # fmt: skip
    return found


def run() -> dict[str, Any]:
    """All figures."""
    with tempfile.TemporaryDirectory() as folder:
        return {**steps_per_s(Path(folder)), "pair": profits("pair"), "apart": profits(str(apart(Path(folder))))}
