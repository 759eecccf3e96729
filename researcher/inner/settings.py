"""Settings of the inner loop: markets for training and for scoring."""

import itertools
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from serl.agents.learning.hybrid import HybridConfig
from serl.agents.learning.market_config import MarketConfig
from serl.agents.learning.network_config import NetworkConfig
from serl.agents.learning.ppo_config import PPOConfig
from serl.agents.learning.sources import BARS_SUFFIX

LEARNING = PPOConfig(
    rollout_steps=60, minibatch=960, gamma=1.0, gae_lambda=0.9, reward_scale=0.2, entropy=0.001, threads=1,
)  # fmt: skip
STATIC = MarketConfig(kind="static", environments=64, deviation_bps=0.05, unfilled_bps=1)
DYNAMIC = MarketConfig(kind="dynamic", population="liquid", hours="09:35-11:30", deviation_bps=0.05, unfilled_bps=1)

SHARED = "actions", "levels", "left_out", "offset_ticks", "offset_bps"
"""Settings of a market that define a policy's observations and actions."""


class Settings(BaseModel):
    """Settings of the inner loop, the same for all candidates that are compared."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    market: MarketConfig = Field(STATIC, description="static: bars, or days with a book")
    dynamic: MarketConfig = Field(DYNAMIC, description="simulated traders, for the last part of training")
    hybrid: HybridConfig = HybridConfig()
    ppo: PPOConfig = Field(LEARNING, description="steps and seed come from the budget")
    network: NetworkConfig = NetworkConfig()
    imagined_share: float = Field(
        0.5,
        ge=0,
        lt=1,
        description="share of every batch of the static market that is imagined, with an `imagine` module",
    )
    agents: int = Field(2, ge=2, le=8, description="agents that share a parent order, with a `communicate` module")
    steps_share: float = Field(1.0, gt=0, le=1, description="share of the budget's steps after which training stops")
    day: Path | None = Field(
        None, description="a day with a book, whose validation hours are replayed for scoring; null: simulated days"
    )
    scored_in: Literal["exchange", "bars", "market"] = Field(
        "exchange", description="market: in `market`, in process, on other days than training; bars: the same for bars"
    )
    orders: int = Field(24, ge=2, description="number of parent orders in a score")
    rungs: tuple[float, ...] = Field(
        (0.25, 0.5, 1.0), description="shares of the training steps after which candidates are compared"
    )
    kept: float = Field(
        0.5, gt=0, le=1, description="share of the candidates that continue after a rung; at least one does"
    )
    score_seed: int = Field(1, ge=0, description="seed of the sampled orders")

    @property
    def layout_mismatch(self) -> str:
        """Settings that differ although one policy must act in both markets, as text; empty if none do."""
        both = [(name, getattr(self.market, name), getattr(self.dynamic, name)) for name in SHARED]
        return ", ".join(
            f"market.{name} is {static}, dynamic.{name} is {dynamic}"
            for name, static, dynamic in both
            if static != dynamic
        )

    @field_validator("rungs")
    @classmethod
    def _rise(cls, rungs: tuple[float, ...]) -> tuple[float, ...]:
        if not rungs or rungs[-1] != 1.0 or any(not 0 < low < high for low, high in itertools.pairwise(rungs)):
            raise ValueError("expected shares that increase to 1, like 0.25, 0.5, 1")
        return rungs

    @model_validator(mode="after")
    def _fits(self) -> "Settings":
        if self.scored_in == "bars" and (not self.market.data or self.market.data[0].suffix != BARS_SUFFIX):
            raise ValueError(
                f"scored_in: bars: expected a file of bars ({BARS_SUFFIX}) in market.data, got {self.market.data}"
            )
        return self
