"""A league: every executor meets every maker in the same windows. Learners train against the other side.

A learner plays against one of its opponents in each environment, so that it learns to respond to all of them. In each round, the executor learns
against the makers so far, then the maker against the executors so far; a learner starts from its weights of the round before (self-play).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from serl.agents.execution.data import fit_scales
from serl.agents.execution.environment.layout import Layout
from serl.agents.execution.environment.observation import Scales
from serl.agents.execution.environment.rewards import ScheduleAdvantage
from serl.agents.execution.environment.state_cache import MB_PER_DAY
from serl.agents.execution.environment.vector import ExecutionVectorEnv
from serl.agents.execution.policies.policy import Policy, environment_settings
from serl.agents.league.config import LeagueConfig
from serl.agents.league.market import LeagueMarket
from serl.agents.league.sides import ExecutorSeat, ExecutorSide, MakerSide, MakerWindows
from serl.agents.learning.evaluation import execute_orders
from serl.agents.learning.market_config import Part
from serl.agents.making.environment import MakingVectorEnv
from serl.agents.making.makers import Maker
from serl.agents.positions.evaluate import interval
from serl.agents.traders.population import load_population

LEARNT = {"actions": "paced", "offset_ticks": 5.0}
"""Action settings of learnt executors."""
REWARD = ScheduleAdvantage(1.0, 3.0)


class Cell(NamedTuple):
    """The results of an executor and a maker in the same n windows."""

    executor: str
    maker: str
    pa_bps: Any
    """(n,) the executor's price advantage over the VWAP of the simulated traders among themselves; NaN where they did not trade."""
    profit_ticks: Any
    """(n,) the maker's profit, per lot of a quote."""
    days: Any
    """(n,) simulated days."""

    def means(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """For each of the two, the mean over days and half of its 95 % interval (Student's t)."""
        traded = np.isfinite(self.pa_bps)
        return interval(self.pa_bps[traded], self.days[traded]), interval(self.profit_ticks, self.days)


def pooled(cells: Sequence[Cell]) -> Cell:
    """The mean of cells with the same windows, for players trained with different seeds."""
    advantage, profit = (
        np.mean([getattr(cell, name) for cell in cells], axis=0) for name in ("pa_bps", "profit_ticks")
    )
    return cells[0]._replace(pa_bps=advantage, profit_ticks=profit)


class League:
    """The market of a league. Its sides share it, so only one of them plays at a time."""

    def __init__(self, config: LeagueConfig) -> None:
        self.config = config
        self.market = LeagueMarket(
            load_population(config.population), config.environments, latency_ns=round(config.latency_us * 1000),
            cache_mb=2 * config.simulated_days * MB_PER_DAY,
        )  # fmt: skip
        self._train, self._test = config.orders("train"), config.orders("test")

    def _orders(self, part: Part) -> Any:
        return self._train if part == "train" else self._test

    def executor_side(self, maker: Maker, part: Part) -> ExecutorSide:
        """The market for executors in which a maker quotes."""
        return ExecutorSide(self.market, maker, self.config.making(part), self._orders(part), self.config.ratio)

    def executor_env(self, maker: Maker, scales: Scales) -> ExecutionVectorEnv:
        """An environment to train an executor against a maker."""
        side = self.executor_side(maker, "train")
        return ExecutionVectorEnv(side, self._train, layout=Layout(), scales=scales, reward=REWARD, **LEARNT)

    def maker_env(self, policies: Sequence[Policy]) -> MakingVectorEnv:
        """An environment to train a maker against executors, one in each environment."""
        windows, seat = MakerWindows(self._train, self.config.ratio), ExecutorSeat(self.market)
        executors = [
            (ExecutionVectorEnv(seat, self._train, **environment_settings(policy, policy.modes[0])), policy)
            for policy in policies
        ]
        side = MakerSide(seat, executors, self.config.ratio, windows)
        return MakingVectorEnv(side, windows, self.config.making("train"))

    def fit_scales(self, maker: Maker) -> Scales:
        """Fits the units of an executor's observations on training days, without its orders."""
        return fit_scales(self.executor_side(maker, "train"), self._train)

    def meet(self, policy: Policy, maker: Maker, windows: int, seed: int) -> Cell:
        """Plays an executor against a maker in `windows` windows of test days, which the seed determines."""
        side = self.executor_side(maker, "test")
        env = ExecutionVectorEnv(side, self._test, **environment_settings(policy, policy.modes[0]))
        episodes = self._test.sample(np.random.default_rng(seed), windows)
        batches = [episodes[at : at + self.market.count] for at in range(0, windows, self.market.count)]
        played = [(execute_orders(env, policy, batch).results, side.maker_results(), len(batch)) for batch in batches]
        advantage = np.concatenate([results["pa_bps"] for results, _, _ in played])
        profit = np.concatenate([results["profit"][:count] for _, results, count in played])
        return Cell(policy.name, maker.name, advantage, profit / self.config.quote_lots, episodes["day"])

    def close(self) -> None:
        """Stops the market's threads."""
        self.market.close()
