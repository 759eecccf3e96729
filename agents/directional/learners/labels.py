"""Labels windows of the training days by what the market did in them, like the market decomposition of MacroHFT (Zong et al. 2024, arXiv 2406.14537).

Hindsight is used only in training: each sub-policy learns in the windows of one label; the router that chooses among them sees only the present.
"""

import dataclasses

import numpy as np
from numpy.typing import NDArray

from serl.agents.directional.environment import DirectionalVectorEnv
from serl.exchange.errors import ConfigError
from serl.exchange.records import Rows

TREND, VOLATILITY = ("falling", "level", "rising"), ("calm", "medium", "volatile")
LABELS = (*TREND, *VOLATILITY)
"""Thirds of the windows by the slope of the mid, and thirds by its volatility; each window has one label of each kind."""


@dataclasses.dataclass(frozen=True)
class AmongWindows:
    """A `Sampler` that draws from given windows."""

    rows: Rows

    def sample(self, random: np.random.Generator, count: int) -> Rows:
        """See Sampler."""
        return self.rows[random.integers(len(self.rows), size=count)]


def labelled_windows(env: DirectionalVectorEnv, count: int, seed: int) -> dict[str, AmongWindows]:
    """Draws `count` windows and returns those of each label. The environment plays them without a position."""
    if count < 3 * env.num_envs:
        raise ConfigError(
            f"count: expected at least {3 * env.num_envs} windows, three for each environment, got {count}"
        )
    windows = env.sampler.sample(np.random.default_rng(seed), count)
    slopes, volatilities = np.zeros(count), np.zeros(count)
    for first in range(0, count, env.num_envs):
        rows = np.arange(first, min(first + env.num_envs, count))
        mids = _mids(env, np.resize(windows[rows], env.num_envs))[:, : len(rows)]
        times = np.arange(len(mids)) - (len(mids) - 1) / 2
        slopes[rows] = times @ mids / (times @ times)  # least squares
        volatilities[rows] = np.diff(mids, axis=0).std(axis=0)
    return {
        label: AmongWindows(windows[which])
        for labels, values in ((TREND, slopes), (VOLATILITY, volatilities))
        for label, which in zip(labels, np.array_split(np.argsort(values, kind="stable"), 3), strict=True)
    }


def _mids(env: DirectionalVectorEnv, windows: Rows) -> NDArray[np.float64]:
    """(steps, N) mids after each decision of N windows, except the last, after which new windows begin."""
    env.reset(seed=0, options={"episodes": windows})
    found = []
    for _ in range(int(windows["steps"][0]) - 1):
        env.step(env.actions_of(np.zeros(env.num_envs)))
        found.append(env.ledger.mid.copy())
    return np.array(found)
