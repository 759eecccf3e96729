"""Common orders for comparisons: every policy works the same parent orders on the same days, so differences are paired by order."""

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from serl.agents.execution.policies.policy import Policy
from serl.agents.execution.policies.schedules import Twap
from serl.agents.learning.baseline import Foresight, oracle_foresight
from serl.agents.learning.environments import Scenario
from serl.agents.learning.evaluation import Hold, Outcome, bootstrap_clusters, costs, execute_orders
from serl.researcher.inner.settings import Settings

Floats = NDArray[np.float64]
AT_ONCE = 50
"""Orders that run beside each other."""


class Orders:
    """`count` parent orders of a part, which the seed determines, in process."""

    def __init__(self, settings: Settings, part: str, count: int, seed: int) -> None:
        market = settings.market.model_copy(update={"part": part, "environments": min(count, AT_ONCE)})
        self.scenario = Scenario(market)
        self.episodes = self.scenario.sampler.sample(np.random.Generator(np.random.PCG64(seed)), count)
        self.clusters = bootstrap_clusters(self.episodes, self.scenario.source.dates(self.episodes["day"]))[0]
        self._no_orders, self._twap = (self._play(policy, "market") for policy in (Hold(), Twap()))

    def _play(self, policy: Policy, mode: str) -> Outcome:
        return execute_orders(self.scenario.env_for(policy, mode), policy, self.episodes)

    def advantages(self, policy: Policy, mode: str) -> Floats:
        """(n,) PA of each order in bps, against the VWAP without our orders; 0 where the market did not trade in the window."""
        columns = costs(self.episodes, self._play(policy, mode), self._no_orders, self._twap)
        found: Floats = np.nan_to_num(columns["pa"])
        return found

    def foresight(self) -> Foresight:
        """What the market does in the windows without our orders."""
        env, count = self.scenario.env_for(Twap(), "market"), len(self.episodes)
        parts: list[tuple[Foresight, int]] = []
        for first in range(0, count, env.num_envs):
            rows = np.minimum(np.arange(first, first + env.num_envs), count - 1)
            parts.append((oracle_foresight(env, self.episodes[rows]), min(env.num_envs, count - first)))
        names = [field.name for field in dataclasses.fields(Foresight)]
        return Foresight(*(np.concatenate([getattr(part, name)[:used] for part, used in parts]) for name in names))


@dataclasses.dataclass(frozen=True)
class Paired:
    """The mean difference of two methods on common orders."""

    bps: float
    se_bps: float
    """Of days and of training seeds together."""
    days: int


def paired(first: Any, second: Any, clusters: NDArray[np.int64]) -> Paired:
    """Mean of first - second, (seeds, n) advantages each, and its standard error: orders of a day are one observation, and seeds of a method are
    draws of their own, with the variance of their means over the number of seeds."""
    first, second = np.atleast_2d(first), np.atleast_2d(second)
    differences = first.mean(0) - second.mean(0)
    mean = float(differences.mean())
    days = int(clusters.max()) + 1
    sums = np.bincount(clusters, differences - mean, minlength=days)
    variance = (sums**2).sum() / len(differences) ** 2 * days / max(1, days - 1)
    variance += sum(float(one.mean(1).var(ddof=1)) / len(one) for one in (first, second) if len(one) > 1)
    return Paired(mean, float(np.sqrt(variance)), days)
