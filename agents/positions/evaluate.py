"""Compares agents with positions on the same windows of simulated days."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from serl.agents.positions.environment import PositionVectorEnv
from serl.agents.students_t import mean_interval
from serl.exchange.errors import ConfigError

ENVIRONMENTS = 32
Decide = Callable[[], Any]
"""Returns the actions of all environments for their current observations."""


class Score(NamedTuple):
    """The results of an agent.

    Attributes:
        name: name of the agent.
        values: results by name (see `Ledger.results`), one for each window, in the order of the windows.
        days: the day of each window.
    """

    name: str
    values: dict[str, Any]
    days: Any

    def mean(self, name: str) -> tuple[float, float]:
        """Mean over the means of days, and half of its 95 % interval (Student's t over days)."""
        return interval(self.values[name], self.days)

    def above(self, other: "Score", name: str) -> tuple[float, float]:
        """Like `mean`, for the differences from another agent in the same windows."""
        return interval(self.values[name] - other.values[name], self.days)


def interval(values: Any, days: Any) -> tuple[float, float]:
    """(mean, half of the 95 % interval) of values that are independent only across days; NaN without values."""
    if not len(values):
        return float("nan"), float("nan")
    means = [float(values[days == day].mean()) for day in np.unique(days)]
    found = mean_interval(means)
    return (means[0], float("nan")) if found is None else (found[0], (found[2] - found[1]) / 2)


def environments_for(count: int) -> int:
    """The number of environments that play `count` windows. Raises `ConfigError` below 1."""
    if count < 1:
        raise ConfigError(f"count: expected at least one window, got {count}")
    return min(ENVIRONMENTS, count)


def compare(env: PositionVectorEnv, agents: Sequence[tuple[str, Decide]], count: int, seed: int) -> list[Score]:
    """Runs each of the named agents alone in the same `count` windows, drawn with the seed. Closes the environment."""
    episodes = env.sampler.sample(np.random.default_rng(seed), count)
    found = []
    for name, decide in agents:
        parts = [_played(env, decide, episodes[at : at + env.num_envs]) for at in range(0, count, env.num_envs)]
        values = {key: np.concatenate([part[key] for part in parts])[:count] for key in parts[0]}
        found.append(Score(name, values, episodes["day"]))
    env.close()
    return found


def _played(env: PositionVectorEnv, decide: Decide, episodes: Any) -> dict[str, Any]:
    """Plays one window in each environment. If there are fewer windows than environments, the first of them are repeated."""
    padded = np.resize(episodes, env.num_envs)
    env.reset(seed=0, options={"episodes": padded})
    info: dict[str, Any] = {}
    while "results" not in info:
        *_, info = env.step(decide())
    return {name: values[: len(episodes)] for name, values in info["results"].items()}
