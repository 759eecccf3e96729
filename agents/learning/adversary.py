"""Training against an adversary that chooses the market, so that a policy becomes robust.

The adversary weighs K variants of a market. It wants the learner's returns to be small, but its rationality is bounded: its choice is the quantal response

    w_k = exp(-R_k / T) / sum_j exp(-R_j / T)

to the running means R_k of the episode returns in each variant (McKelvey and Palfrey 1995, Games and Economic Behavior 10). Its temperature T falls
during training, so that it begins nearly at random and becomes more rational (Reddi et al. 2024, Robust adversarial reinforcement learning via bounded
rationality curricula, arXiv 2311.01642; there both sides are networks, here the adversary has K choices). The weights apply to the variants' losses,
as in hybrid.py: every variant is played in each update.
"""

from typing import Any

import numpy as np
from pydantic import Field, model_validator

from serl.agents.learning.settings import LearningSettings

KEPT = 0.9
"""Share of the previous running mean that an update keeps."""


class AdversaryConfig(LearningSettings):
    """Settings of the variants and of the adversary's rationality."""

    variants: dict[str, dict[str, Any]] = Field(
        min_length=2, description="by name: changes of the market's population, on top of its own `population_changes`"
    )
    first_temperature_bps: float = Field(10.0, gt=0, description="of the choice when training begins")
    last_temperature_bps: float = Field(1.0, gt=0, description="when it ends; the change between is geometric")

    @model_validator(mode="after")
    def _becomes_more_rational(self) -> "AdversaryConfig":
        if self.last_temperature_bps > self.first_temperature_bps:
            raise ValueError(
                f"last_temperature_bps: expected at most first_temperature_bps ({self.first_temperature_bps:g}), got {self.last_temperature_bps:g}"
            )
        return self


class AdversaryWeights:
    """Weights of the variants' losses during training. values: (K,) running means of returns, NaN before the first episode has ended."""

    def __init__(self, config: AdversaryConfig) -> None:
        self.config = config
        self.values = np.full(len(config.variants), np.nan)

    def at(self, progress: float) -> list[float]:
        """(K,) weights after a share `progress` of the steps; equal until each variant has had an episode."""
        if np.isnan(self.values).any():
            return [1 / len(self.values)] * len(self.values)
        first, last = self.config.first_temperature_bps, self.config.last_temperature_bps
        odds = np.exp((self.values.min() - self.values) / (first * (last / first) ** min(progress, 1.0)))
        return list(map(float, odds / odds.sum()))

    def update(self, statistics: dict[str, Any]) -> None:
        """Updates the running means with the mean returns of the episodes that ended in an update."""
        found = statistics["returns"]
        mixed = KEPT * self.values + (1 - KEPT) * found
        self.values = np.where(np.isnan(found), self.values, np.where(np.isnan(self.values), found, mixed))
