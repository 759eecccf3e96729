"""Training in two markets: how much the loss in each counts, L = alpha L_static + beta L_dynamic.

The adaptive rule is that of SE-RL: alpha <- alpha L_s / (L_s + L_d), beta <- beta L_d / (L_s + L_d), brought back to sum 1. It
gives the market with the larger loss ever more weight, so weights are kept at WEIGHT_MIN or above; losses of PPO can be negative,
so their absolute values are taken.
"""

from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

WEIGHT_MIN = 0.05


class HybridConfig(BaseModel):
    """Which rule, and where it begins."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rule: Literal["adaptive", "fixed", "static", "dynamic", "sequence"] = Field(
        "adaptive", description="static, dynamic: one market alone; sequence: static alone, then dynamic alone"
    )
    static_weight: float = Field(0.5, gt=0, lt=1, description="alpha at the beginning")
    static_share: float = Field(
        0.5, ge=0, lt=1, description="share of the steps that are made in the static market alone, before the rest"
    )


class Weights:
    """alpha and beta as training goes on."""

    def __init__(self, config: HybridConfig) -> None:
        self.config = config
        self.now = np.array([config.static_weight, 1 - config.static_weight])

    def at(self, share: float) -> list[float]:
        """[alpha, beta] when `share` of the steps are done; a market with 0 is left out."""
        rule = self.config.rule
        if rule in ("static", "dynamic"):
            return [1.0, 0.0] if rule == "static" else [0.0, 1.0]
        if share < self.config.static_share:
            return [1.0, 0.0]
        return [0.0, 1.0] if rule == "sequence" else list(map(float, self.now))

    def learn(self, losses: Any) -> None:
        """Takes in the mean losses (2,) of an update; without effect unless the rule adapts and both markets were in it."""
        if self.config.rule != "adaptive" or not np.isfinite(losses).all():
            return
        sizes = np.abs(losses) + np.finfo(float).tiny
        raw = self.now * sizes / sizes.sum()
        alpha = float(np.clip(raw[0] / raw.sum(), WEIGHT_MIN, 1 - WEIGHT_MIN))
        self.now = np.array([alpha, 1 - alpha])
