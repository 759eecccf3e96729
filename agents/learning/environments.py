"""Vector environments for learning and evaluation, from settings: days, hours, parent orders."""

import hashlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from serl.agents.execution.environment.episodes import Hours, RandomOrders
from serl.agents.execution.environment.market import ExecutionMarket
from serl.agents.execution.environment.observation import Layout, Scales
from serl.agents.execution.environment.records import CHILD, EPISODE
from serl.agents.execution.environment.replay import ReplayMarket
from serl.agents.execution.environment.vector import ExecutionVectorEnv
from serl.agents.learning.policy import Interface
from serl.exchange.config import time_of_day_ns
from serl.exchange.history.day import Day, read_day
from serl.exchange.records import Rows

FITTED_EPISODES, FIT_SEED = 64, 0


class MarketConfig(BaseModel):
    """Which market, which parent orders in it, what is seen and done."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["replay"] = "replay"
    days: list[Path] = Field([], description="day files, each of one symbol")
    start: str = Field(
        "10:00", pattern=r"^\d{2}:\d{2}(:\d{2})?$", description="parent orders lie between start and end"
    )
    end: str = Field("14:00", pattern=r"^\d{2}:\d{2}(:\d{2})?$")
    environments: int = Field(32, gt=0)
    latency_us: float = Field(1000.0, ge=0)
    duration_s: float = Field(600.0, gt=0)
    interval_s: float = Field(10.0, gt=0)
    share_min: float = Field(0.005, gt=0, le=1, description="of the volume expected in the window")
    share_max: float = Field(0.05, gt=0, le=1)
    actions: Literal["market", "limit", "hybrid"] = "market"
    offset_ticks: int = Field(5, gt=0)
    levels: int = Field(5, gt=0, le=10)
    fee_bps: float = Field(0.0, ge=0)


def fingerprint(paths: Sequence[Path]) -> list[dict[str, str]]:
    """Name and SHA-256 of each file."""
    return [{"name": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()} for path in paths]


class Scenario:
    """A market of settings, loaded once; environments over it share it, so only one of them may run at a time."""

    def __init__(self, config: MarketConfig, days: Sequence[Day] | None = None) -> None:
        self.config = config
        self._days = list(days) if days is not None else [read_day(path) for path in config.days]
        self.market: ExecutionMarket = ReplayMarket(
            self._days, config.environments, latency_ns=round(config.latency_us * 1000)
        )

    @cached_property
    def sampler(self) -> RandomOrders:
        """Parent orders within the hours, sized by the volume that is traded there."""
        config, start_ns, end_ns = self.config, time_of_day_ns(self.config.start), time_of_day_ns(self.config.end)
        hours = [
            Hours(place, start_ns, end_ns, self._volume_lots(place, start_ns, end_ns) / ((end_ns - start_ns) * 1e-9))
            for place in range(len(self._days))
        ]
        return RandomOrders(hours, config.duration_s, config.interval_s, config.share_min, config.share_max)

    def _volume_lots(self, day: int, start_ns: int, end_ns: int) -> int:
        """Traded in these hours of a day."""
        market = self.market
        episodes = np.zeros(market.count, EPISODE)
        episodes["day"], episodes["sign"], episodes["qty_lots"], episodes["steps"] = day, 1, 1, 1
        episodes["start_ns"], episodes["interval_ns"] = start_ns, 1
        episodes["interval_ns"][0] = end_ns - start_ns
        market.reset(np.arange(market.count), episodes)
        market.step(np.zeros(market.count, CHILD), episodes["start_ns"] + episodes["interval_ns"])
        return int(market.frames["traded_lots"][0])

    def fit_scales(self) -> Scales:
        """Units of observations, from steps of random parent orders that do nothing."""
        env = self.env(Scales())
        env.reset(seed=FIT_SEED)
        frames: list[Rows] = []
        while len(frames) * env.num_envs < FITTED_EPISODES * int(self.config.duration_s / self.config.interval_s):
            env.step(np.zeros(env.action_space.shape))
            frames.append(self.market.frames.copy())
        return Scales.fit(np.concatenate(frames))

    def env(self, scales: Scales, **changes: Any) -> ExecutionVectorEnv:
        """The environment of the settings; changes: actions, layout, offset_ticks."""
        config = self.config
        known: dict[str, Any] = {
            "actions": config.actions, "layout": Layout(config.levels), "offset_ticks": config.offset_ticks,
        }  # fmt: skip
        return ExecutionVectorEnv(self.market, self.sampler, scales=scales, fee_bps=config.fee_bps, **(known | changes))

    def plain_env(self) -> ExecutionVectorEnv:
        """For schedules, which act by market orders and need no units."""
        return self.env(Scales(), actions="market")

    def env_like(self, interface: Interface) -> ExecutionVectorEnv:
        """An environment that shows and takes what a policy was made for; LayoutMismatchError if there is none."""
        env = self.env(
            Scales(**interface.scales), actions=interface.actions,
            layout=Layout(interface.levels), offset_ticks=interface.offset_ticks,
        )  # fmt: skip
        interface.require(Interface.of(env))
        return env

    def describe(self) -> dict[str, Any]:
        """Facts for a policy's file."""
        return {"market": self.config.model_dump(mode="json"), "days": fingerprint(self.config.days)}

    @staticmethod
    def same_scales(scenarios: "Sequence[Scenario]") -> list[ExecutionVectorEnv]:
        """One environment each, all in the units of the first."""
        scales = scenarios[0].fit_scales()
        return [scenario.env(scales) for scenario in scenarios]


def with_days(config: MarketConfig, days: Sequence[Path]) -> MarketConfig:
    """The same settings for other days."""
    return config.model_copy(update={"days": list(days)})
