"""Compares rules that take positions on the same windows of simulated days."""

from collections.abc import Sequence

from serl.agents.directional.config import DirectionalConfig
from serl.agents.directional.environment import DirectionalVectorEnv
from serl.agents.positions.config import position_market, windows
from serl.agents.positions.evaluate import Score, environments_for
from serl.agents.positions.targets import Rule, compare_rules


def evaluate(
    rules: Sequence[Rule[DirectionalVectorEnv]], config: DirectionalConfig, count: int, seed: int = 0
) -> list[Score]:
    """Runs each rule alone in the same `count` windows, drawn with the seed. Raises `ConfigError`."""
    env = DirectionalVectorEnv(position_market(config, environments_for(count)), windows(config), config)
    return compare_rules(env, rules, count, seed)
