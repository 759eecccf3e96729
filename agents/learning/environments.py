"""Vector environments for learning and evaluation, built from settings."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from serl.agents.execution.answering.model import answering_days
from serl.agents.execution.data import TRAIN, fit_scales
from serl.agents.execution.environment.bars import StaticBars
from serl.agents.execution.environment.episodes import RandomOrders
from serl.agents.execution.environment.layout import Layout
from serl.agents.execution.environment.market import ExecutionMarket
from serl.agents.execution.environment.observation import Scales
from serl.agents.execution.environment.replay import ReplayMarket
from serl.agents.execution.environment.rewards import PriceAdvantage, ScheduleAdvantage
from serl.agents.execution.environment.undisturbed import UndisturbedAdvantage, UndisturbedMids
from serl.agents.execution.environment.vector import ExecutionVectorEnv, Reward, Sampler
from serl.agents.execution.policies.policy import Policy, environment_settings
from serl.agents.learning.market_config import MarketConfig
from serl.agents.learning.sources import Books, Source, open_source
from serl.agents.learning.team import TeamReward, TeamSampler
from serl.history.day import Day

SCALED_WITH = 32
"""Parent orders with which `serl/Execution-v0` fits the units of observations, so that they do not depend on the number of environments."""


class Scenario:
    """A market built from settings. Its environments share the loaded market, so only one of them may run at a time."""

    def __init__(
        self, config: MarketConfig, days: Sequence[Day] | None = None, *, source: Source | None = None, reward: Reward | None = None,
        agents: int = 1,
    ) -> None:  # fmt: skip
        """days, source, reward: used instead of those of the settings. agents: how many share a parent order; in replayed books they trade in
        the same book, in other markets each trades in its own copy."""
        self.config, self.agents, self._reward = config, agents, reward
        self.source = source or open_source(config, days)
        if agents > 1 and config.kind == "replay" and isinstance(self.source, Books):
            latency_ns = round(config.latency_us * 1000)
            books = config.environments // agents
            self.market: ExecutionMarket = ReplayMarket(
                self.source.days,
                books,
                agents,
                latency_ns=latency_ns,
                answers=answering_days(self.source.days, config.answers),
            )
        else:
            self.market = self.source.market()

    @property
    def market_name(self) -> str:
        """The kind of the market; for bars, with the model of what a resting order fills."""
        of_bars = isinstance(self.market, StaticBars)
        if of_bars:
            return f"{self.config.kind} market of bars, fills {self.config.fills}"
        answers = "" if self.config.answers == "none" else f" that answers ({self.config.answers})"
        return f"{self.config.kind} market{answers}"

    @cached_property
    def sampler(self) -> Sampler:
        """Parent orders in the part of the data that the settings name."""
        return self.sampler_of(self.config.part)

    def sampler_of(self, part: str) -> Sampler:
        """Parent orders in a part of the data."""
        config = self.config
        orders = RandomOrders(
            self.source.hours(part), config.duration_s, config.interval_s, config.share_min, config.share_max
        )
        return TeamSampler(orders, self.agents) if self.agents > 1 else orders

    @cached_property
    def _undisturbed(self) -> UndisturbedMids:
        """Mids without our orders, in the part of the data that the settings name."""
        return UndisturbedMids.run(self.market, self.source.hours(self.config.part), self.config.interval_s)

    def fit_scales(self) -> Scales:
        """Units of observations, always fitted on the training part, without our orders."""
        return fit_scales(self.market, self.sampler_of(TRAIN))

    def env(self, scales: Scales) -> ExecutionVectorEnv:
        """The environment of the settings."""
        config = self.config
        return self._env(
            actions=config.actions, layout=Layout(config.levels, config.left_out), scales=scales, offset_ticks=config.offset_ticks,
            offset_bps=config.offset_bps,
        )  # fmt: skip

    def env_for(self, policy: Policy, mode: str) -> ExecutionVectorEnv:
        """An environment with the observations of a policy, in one of its action modes."""
        return self._env(**environment_settings(policy, mode))

    def _env(self, **settings: Any) -> ExecutionVectorEnv:
        config = self.config
        reward: Reward = self._reward or PriceAdvantage()
        if self._reward is None and config.reward == "schedule":
            reward = ScheduleAdvantage(config.deviation_bps, config.unfilled_bps)
        elif self._reward is None and config.reward == "undisturbed":
            reward = UndisturbedAdvantage(self._undisturbed, config.deviation_bps, config.unfilled_bps)
        if self.agents > 1:
            reward = TeamReward(reward, self.agents)
        return ExecutionVectorEnv(
            self.market, self.sampler, fee_bps=config.fee_bps, reward=reward, agents=self.agents, **settings
        )

    def describe(self) -> dict[str, Any]:
        """Settings and data as JSON, for the metadata of a policy file."""
        return {"market": self.config.model_dump(mode="json"), **self.source.describe()}

    @staticmethod
    def build_envs(scenarios: "Sequence[Scenario]") -> list[ExecutionVectorEnv]:
        """The environment of each scenario, all with the units of the first."""
        scales = scenarios[0].fit_scales()
        return [scenario.env(scales) for scenario in scenarios]
