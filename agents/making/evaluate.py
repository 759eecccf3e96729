"""Compares market makers on the same windows of simulated days."""

from collections.abc import Callable, Sequence
from typing import Any

from serl.agents.making.config import MakingConfig
from serl.agents.making.environment import MakingVectorEnv
from serl.agents.making.makers import Maker
from serl.agents.positions.config import position_market, windows
from serl.agents.positions.evaluate import Score, compare, environments_for


def evaluate(makers: Sequence[Maker], config: MakingConfig, count: int, seed: int = 0) -> list[Score]:
    """Runs each maker alone in the same `count` windows, drawn with the seed. Raises `ConfigError`."""
    env = MakingVectorEnv(position_market(config, environments_for(count)), windows(config), config)

    def quoting(maker: Maker) -> Callable[[], Any]:
        return lambda: env.actions_of(maker.offsets(env))

    return compare(env, [(maker.name, quoting(maker)) for maker in makers], count, seed)
