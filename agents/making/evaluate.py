"""Compares market makers on the same windows of simulated days."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from serl.agents.learning.students_t import mean_interval
from serl.agents.making.config import MakingConfig, making_market, windows
from serl.agents.making.environment import MakingVectorEnv
from serl.agents.making.makers import Maker
from serl.exchange.errors import ConfigError

ENVIRONMENTS = 32


class MakerScore(NamedTuple):
    """What a market maker made.

    Attributes:
        name: the maker's.
        values: by name (see `Ledger.results`), one for each window, in the order of the windows.
        days: the day of each window.
    """

    name: str
    values: dict[str, Any]
    days: Any

    def mean(self, name: str) -> tuple[float, float]:
        """Mean over the days' means, and half of its 95 % interval (Student's t over days)."""
        return interval(self.values[name], self.days)

    def above(self, other: "MakerScore", name: str) -> tuple[float, float]:
        """The same of the differences to another maker in the same windows."""
        return interval(self.values[name] - other.values[name], self.days)


def interval(values: Any, days: Any) -> tuple[float, float]:
    """(mean, half of the 95 % interval) of values that are independent only between days."""
    means = [float(values[days == day].mean()) for day in np.unique(days)]
    found = mean_interval(means)
    return (means[0], float("nan")) if found is None else (found[0], (found[2] - found[1]) / 2)


def evaluate(makers: Sequence[Maker], config: MakingConfig, count: int, seed: int = 0) -> list[MakerScore]:
    """Each maker alone in `count` windows, drawn with the seed: the same for all. Raises `ConfigError`."""
    if count < 1:
        raise ConfigError(f"count: expected at least one window, got {count}")
    sampler = windows(config)
    episodes = sampler.sample(np.random.default_rng(seed), count)
    env = MakingVectorEnv(making_market(config, min(ENVIRONMENTS, count)), sampler, config)
    found = []
    for maker in makers:
        parts = [_played(env, maker, episodes[at : at + env.num_envs]) for at in range(0, count, env.num_envs)]
        values = {name: np.concatenate([part[name] for part in parts])[:count] for name in parts[0]}
        found.append(MakerScore(maker.name, values, episodes["day"]))
    env.close()
    return found


def _played(env: MakingVectorEnv, maker: Maker, episodes: Any) -> dict[str, Any]:
    """One window in each environment; the last windows may be fewer, and the first of them fill up."""
    padded = np.resize(episodes, env.num_envs)
    env.reset(seed=0, options={"episodes": padded})
    info: dict[str, Any] = {}
    while "results" not in info:
        *_, info = env.step(env.actions_of(maker.offsets(env)))
    return {name: values[: len(episodes)] for name, values in info["results"].items()}
