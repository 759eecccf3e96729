"""Settings of the inner loop: markets for training and for scoring."""

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from serl.agents.execution.data import TRAIN, VALIDATION
from serl.agents.learning.folds import FOLD
from serl.agents.learning.hybrid import HybridConfig
from serl.agents.learning.market_config import MarketConfig
from serl.agents.learning.network_config import NetworkConfig
from serl.agents.learning.ppo_config import PPOConfig
from serl.agents.learning.sources import BARS_SUFFIX
from serl.exchange.invalid import StrictSettings
from serl.researcher.inner.race_config import Race, stages_of_rungs

LEARNING = PPOConfig(
    rollout_steps=60, minibatch=960, gamma=1.0, gae_lambda=0.9, reward_scale=0.2, entropy=0.001, threads=1,
)  # fmt: skip
STATIC = MarketConfig(kind="static", environments=64, deviation_bps=0.05, unfilled_bps=1)
DYNAMIC = MarketConfig(kind="dynamic", population="liquid", hours="09:35-11:30", deviation_bps=0.05, unfilled_bps=1)

DEFAULTS = {"market": STATIC, "dynamic": DYNAMIC, "ppo": LEARNING}
SHARED = "actions", "levels", "left_out", "offset_ticks", "offset_bps"
"""Settings of a market that define a policy's observations and actions."""


class TrainingSettings(StrictSettings):
    """The settings that a training job knows: nothing about scores."""

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

    @model_validator(mode="before")
    @classmethod
    def _keeps_other_defaults(cls, values: Any) -> Any:
        """Single settings of a market or of `ppo` leave the others at their defaults here. A market with a `kind` is described as a whole."""
        if not isinstance(values, dict):
            return values
        given = {name: values[name] for name in DEFAULTS if isinstance(values.get(name), dict)}
        partial = {name: one for name, one in given.items() if "kind" not in one}
        return values | {name: DEFAULTS[name].model_dump(exclude_unset=True) | one for name, one in partial.items()}

    @model_validator(mode="after")
    def _of_training(self) -> "TrainingSettings":
        if (self.market.part, self.dynamic.part) != (TRAIN, TRAIN):
            raise ValueError(
                f"market.part, dynamic.part: expected train, got {self.market.part} and {self.dynamic.part}; other parts are scored"
            )
        return self

    @model_validator(mode="after")
    def _without_forecasts(self) -> "TrainingSettings":
        for name, market in (("market", self.market), ("dynamic", self.dynamic)):
            if market.forecaster is not None:
                raise ValueError(f"{name}.forecaster: expected none, got one; candidates observe no forecasts")
        return self


class Settings(TrainingSettings):
    """Settings of the inner loop, the same for all candidates that are compared."""

    day: Path | None = Field(None, description="a day with a book, which is replayed for scoring; null: simulated days")
    scored_in: Literal["exchange", "bars", "market"] = Field(
        "exchange",
        description="exchange: on a served exchange; market: in process in `market`, on days not used in training; bars: the same, in bars",
    )
    orders: int = Field(24, ge=2, description="number of parent orders in a score")
    folds: int = Field(
        3, ge=0, le=1000, description="folds of the training days: each seed is trained on all but one and scored on that one; 0: scored on the validation part"
    )  # fmt: skip
    race: Race = Race()
    warm_start: bool = Field(
        False, description="children start from their parent's weights where the network has the same shape"
    )
    score_seed: int = Field(1, ge=0, description="seed of the sampled orders")
    first_scored_day: int | None = Field(
        None,
        ge=0,
        le=900_000,
        description="number of the first simulated day that is scored, added to market.first_day; null: 0, or a secret number where modules are code, which could simulate known days",
    )

    @model_validator(mode="after")
    def _answers_where_it_is_scored(self) -> "Settings":
        if self.scored_in == "exchange" and self.day is not None and self.market.answers != "none":
            raise ValueError(
                f"market.answers: expected none with scored_in: exchange, which replays the day as it was, got {self.market.answers}; use scored_in: market"
            )
        return self

    @property
    def layout_mismatch(self) -> str:
        """The settings that differ between the two markets although one policy must act in both, as text; empty if none do."""
        both = [(name, getattr(self.market, name), getattr(self.dynamic, name)) for name in SHARED]
        return ", ".join(
            f"market.{name} is {static}, dynamic.{name} is {dynamic}"
            for name, static, dynamic in both
            if static != dynamic
        )

    @property
    def scoring_part(self) -> str:
        """The part of the data whose orders are scored: the fold that training leaves out, or the validation part."""
        return VALIDATION if self.market.fold is None else FOLD

    @property
    def training(self) -> TrainingSettings:
        """The settings that a training job may know."""
        return TrainingSettings(**{name: getattr(self, name) for name in TrainingSettings.model_fields})

    def of_seed(self, seed: int) -> "Settings":
        """The settings of a candidate's training number `seed`. The fold rotates with the seed; after each full rotation, other orders are drawn."""
        if self.folds < 2:
            return self.model_copy(update={"score_seed": self.score_seed + seed})
        fold = {"fold": seed % self.folds, "folds": self.folds}
        return self.model_copy(update={
            "market": self.market.model_copy(update=fold), "dynamic": self.dynamic.model_copy(update=fold),
            "score_seed": self.score_seed + seed // self.folds,
        })  # fmt: skip

    @model_validator(mode="before")
    @classmethod
    def _former_names(cls, values: Any) -> Any:
        if not isinstance(values, dict) or not {"rungs", "kept"} & set(values):
            return values
        if "race" in values and Race.model_validate(values["race"]) != Race():
            raise ValueError(
                "race: expected either race.stages or the former rungs and kept, got both; use race.stages"
            )
        rest = {name: value for name, value in values.items() if name not in ("rungs", "kept", "race")}
        return rest | {"race": stages_of_rungs(values.get("rungs", (0.25, 0.5, 1.0)), values.get("kept", 0.5))}

    @model_validator(mode="after")
    def _fits(self) -> "Settings":
        if self.scored_in == "bars" and (not self.market.data or self.market.data[0].suffix != BARS_SUFFIX):
            raise ValueError(
                f"scored_in: bars: expected a file of bars ({BARS_SUFFIX}) in market.data, got {self.market.data}"
            )
        if (last := max(self.market.first_day, self.dynamic.first_day) + (self.first_scored_day or 0)) > 900_000:
            raise ValueError(f"first_scored_day: expected at most 900,000 with the market's first_day, got {last:,}")
        if self.folds == 1:
            raise ValueError("folds: expected 2 or more, or 0 to score on the validation part, got 1")
        return self
