"""Compares rules that trade a pair on the same windows of simulated days."""

from collections.abc import Sequence

from serl.agents.pairs.config import PairConfig
from serl.agents.pairs.environment import PairVectorEnv
from serl.agents.pairs.market import PairMarket
from serl.agents.pairs.spread import Spread
from serl.agents.positions.config import position_market, windows
from serl.agents.positions.evaluate import Score, environments_for
from serl.agents.positions.targets import Rule, compare_rules


def pair_env(config: PairConfig, count: int, spread: Spread) -> PairVectorEnv:
    """N environments of the settings. Raises `ConfigError`."""
    return PairVectorEnv(position_market(config, count, PairMarket), windows(config), config, spread)


def evaluate(
    rules: Sequence[Rule[PairVectorEnv]], config: PairConfig, spread: Spread, count: int, seed: int = 0
) -> list[Score]:
    """Runs each rule alone in the same `count` windows, drawn with the seed. Raises `ConfigError`."""
    return compare_rules(pair_env(config, environments_for(count), spread), rules, count, seed)
