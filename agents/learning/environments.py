"""Vector environments for learning and evaluation, built from settings."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from serl.agents.execution.answering.model import answering_days
from serl.agents.execution.data import TRAIN, fit_scales
from serl.agents.execution.environment.bars import StaticBars
from serl.agents.execution.environment.dynamic import DynamicMarket
from serl.agents.execution.environment.episodes import RandomOrders
from serl.agents.execution.environment.forecasts import (
    Forecasts,
    RecordedForecasts,
    SimulatedForecasts,
    forecaster_name,
)
from serl.agents.execution.environment.layout import Layout
from serl.agents.execution.environment.market import ExecutionMarket
from serl.agents.execution.environment.observation import Scales
from serl.agents.execution.environment.replay import ReplayMarket
from serl.agents.execution.environment.rewards import PriceAdvantage, ScheduleAdvantage
from serl.agents.execution.environment.undisturbed import UndisturbedAdvantage, UndisturbedMids
from serl.agents.execution.environment.vector import ExecutionVectorEnv, Reward, Sampler
from serl.agents.execution.policies.policy import Policy, environment_settings
from serl.agents.learning.market_config import MarketConfig
from serl.agents.learning.sources import Books, Source, open_source, shares_time
from serl.agents.learning.team import TeamReward, TeamSampler
from serl.agents.realism.days import day_origin
from serl.agents.signals.forecaster import Forecaster
from serl.agents.signals.forecaster_file import read_forecaster
from serl.exchange.config import time_of_day_text
from serl.exchange.errors import ConfigError
from serl.history.day import Day

SCALED_WITH = 32
"""Number of parent orders on which `serl/Execution-v0` fits the units of observations, so that these do not depend on the number of environments."""


class Scenario:
    """A market built from settings. Its environments share the loaded market, so only one of them may run at a time."""

    def __init__(
        self, config: MarketConfig, days: Sequence[Day] | None = None, *, source: Source | None = None, reward: Reward | None = None,
        agents: int = 1,
    ) -> None:  # fmt: skip
        """days, source, reward: replace those of the settings. agents: how many agents share a parent order; in replayed books they trade in the
        same book, in other markets each trades in its own copy."""
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
        """The kind of the market; for bars, with the model of fills of resting orders."""
        of_bars = isinstance(self.market, StaticBars)
        if of_bars:
            return f"{self.config.kind} market of bars, fills {self.config.fills}"
        answers = "" if self.config.answers == "none" else f" that answers ({self.config.answers})"
        return f"{self.config.kind} market{answers}"

    @cached_property
    def sampler(self) -> Sampler:
        """A sampler of parent orders in the part of the data that the settings name."""
        return self.sampler_of(self.config.part)

    def sampler_of(self, part: str) -> Sampler:
        """A sampler of parent orders in a part of the data."""
        config = self.config
        hours = self.source.hours(part)
        orders = RandomOrders(hours, config.duration_s, config.interval_s, config.share_min, config.share_max)
        return TeamSampler(orders, self.agents, hours[0].lot_multiple) if self.agents > 1 else orders

    @cached_property
    def _undisturbed(self) -> UndisturbedMids:
        """Mids without our orders, in the part of the data that the settings name."""
        return UndisturbedMids.run(self.market, self.source.hours(self.config.part), self.config.interval_s)

    @cached_property
    def forecasts(self) -> Forecasts | None:
        """The forecasts of the settings. Raises SignalError if the file is not a forecaster, and ConfigError for bars, or if the forecaster was
        trained on hours of recorded days outside the training part."""
        path = self.config.forecaster
        if path is None:
            return None
        forecaster, name = read_forecaster(path), forecaster_name(path)
        if isinstance(self.market, DynamicMarket):
            return SimulatedForecasts(forecaster, self.market, name)
        if not isinstance(self.source, Books):
            raise ConfigError(f"forecaster: expected days with a book as data, which {path} forecasts, got bars")
        if self.config.part != TRAIN:
            self._check_unseen(path, forecaster, self.source)
        return RecordedForecasts(forecaster, self.source.days, name)

    def _check_unseen(self, path: Path, forecaster: Forecaster, books: Books) -> None:
        start, end = forecaster.training.hours
        for hours in books.hours(self.config.part):
            day = books.days[hours.day]
            if forecaster.was_trained_on(day, (hours.start_ns, hours.end_ns)):
                raise ConfigError(
                    f"{path}: expected a forecaster that has not seen the hours in which policies are compared, got one that was trained "
                    f"on {time_of_day_text(start)}-{time_of_day_text(end)} of {day_origin(day)}; give other --hours, or train another"
                )

    def check_not_trained_on(self, policy: Policy) -> None:
        """Raises ConfigError if a policy was trained, according to its file, in the hours of the days on which policies are compared."""
        file: Any = policy
        if self.config.part == TRAIN or policy.interface is None:
            return
        for trained in file.metadata.get("data", []):
            if shares_time(self.source, self.config.part, trained):
                where = trained["market"].get("hours") or f"the part {trained['market'].get('part', TRAIN)}"
                raise ConfigError(
                    f"{policy.name}: expected a policy that was not trained in the hours in which policies are compared, got one that was "
                    f"trained in {where}; give another part or other --hours, or train another"
                )

    @property
    def reward(self) -> Reward:
        """The reward of each agent."""
        config = self.config
        if self._reward is not None:
            return self._reward
        if config.reward == "schedule":
            return ScheduleAdvantage(config.deviation_bps, config.unfilled_bps)
        if config.reward == "undisturbed":
            return UndisturbedAdvantage(self._undisturbed, config.deviation_bps, config.unfilled_bps)
        return PriceAdvantage()

    def fit_scales(self) -> Scales:
        """Fits the units of observations, always on the training part and without our orders."""
        return fit_scales(self.market, self.sampler_of(TRAIN))

    def env(self, scales: Scales) -> ExecutionVectorEnv:
        """The environment of the settings."""
        config, horizons_s = self.config, self.forecasts.horizons_s if self.forecasts else ()
        return self._env(
            actions=config.actions, layout=Layout(config.levels, config.left_out, horizons_s), scales=scales, offset_ticks=config.offset_ticks,
            offset_bps=config.offset_bps,
        )  # fmt: skip

    def env_for(self, policy: Policy, mode: str) -> ExecutionVectorEnv:
        """An environment with the observations of a policy and one of its action modes."""
        return self._env(**environment_settings(policy, mode))

    def _env(self, **settings: Any) -> ExecutionVectorEnv:
        if settings.get("layout", Layout()).horizons_s:
            settings["forecasts"] = self.forecasts
        reward = TeamReward(self.reward, self.agents) if self.agents > 1 else self.reward
        return ExecutionVectorEnv(
            self.market, self.sampler, fee_bps=self.config.fee_bps, reward=reward, agents=self.agents, **settings
        )

    def describe(self) -> dict[str, Any]:
        """Settings and data as JSON, for the metadata of a policy file."""
        return {"market": self.config.model_dump(mode="json"), **self.source.describe()}

    @staticmethod
    def build_envs(scenarios: "Sequence[Scenario]") -> list[ExecutionVectorEnv]:
        """The environment of each scenario, all with the units of the first."""
        scales = scenarios[0].fit_scales()
        return [scenario.env(scales) for scenario in scenarios]
