"""Compares rules that take positions on the same windows of simulated days."""

from collections.abc import Callable, Sequence
from typing import Any

from serl.agents.directional.config import DirectionalConfig
from serl.agents.directional.environment import DirectionalVectorEnv
from serl.agents.directional.rules import Rule
from serl.agents.positions.config import position_market, windows
from serl.agents.positions.evaluate import Score, compare, environments_for


def evaluate(rules: Sequence[Rule], config: DirectionalConfig, count: int, seed: int = 0) -> list[Score]:
    """Each rule alone in `count` windows, drawn with the seed: the same for all. Raises `ConfigError`."""
    env = DirectionalVectorEnv(position_market(config, environments_for(count)), windows(config), config)

    def positioning(rule: Rule) -> Callable[[], Any]:
        return lambda: env.actions_of(rule.shares(env))

    return compare(env, [(rule.name, positioning(rule)) for rule in rules], count, seed)
