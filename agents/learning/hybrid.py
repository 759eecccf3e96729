"""Training in two markets: the weights of their losses, L = alpha L_static + beta L_dynamic.

The adaptive rule is that of SE-RL: alpha <- alpha L_s / (L_s + L_d), beta <- beta L_d / (L_s + L_d), normalised to sum 1. It gives the
market with the larger loss ever more weight, so both weights stay at WEIGHT_MIN or above. PPO losses can be negative, so the rule takes
absolute values.
"""

from typing import Any, Literal

import numpy as np
from pydantic import Field

from serl.agents.learning.settings import LearningSettings

WEIGHT_MIN = 0.05


class HybridConfig(LearningSettings):
    """Settings: the rule for the weights and their initial values."""

    rule: Literal["adaptive", "fixed", "static", "dynamic", "sequence"] = Field(
        "adaptive", description="static, dynamic: one market only; sequence: first static only, then dynamic only"
    )
    static_weight: float = Field(0.5, gt=0, lt=1, description="initial alpha")
    static_share: float = Field(
        0.5, ge=0, lt=1, description="share of the steps at the start of training in the static market only"
    )


class MarketWeights:
    """alpha and beta during training."""

    def __init__(self, config: HybridConfig) -> None:
        self.config = config
        self.values = np.array([config.static_weight, 1 - config.static_weight])

    def at(self, progress: float) -> list[float]:
        """[alpha, beta] after a share `progress` of the steps; a market of weight 0 is not used."""
        rule = self.config.rule
        if rule in ("static", "dynamic"):
            return [1.0, 0.0] if rule == "static" else [0.0, 1.0]
        if progress < self.config.static_share:
            return [1.0, 0.0]
        return [0.0, 1.0] if rule == "sequence" else list(map(float, self.values))

    def update(self, statistics: dict[str, Any]) -> None:
        """Applies the adaptive rule to the mean losses (2,) of an update. Has no effect for other rules and after updates in only one market."""
        losses = statistics["losses"]
        if self.config.rule != "adaptive" or not np.isfinite(losses).all():
            return
        sizes = np.abs(losses) + np.finfo(float).tiny
        raw = self.values * sizes / sizes.sum()
        alpha = float(np.clip(raw[0] / raw.sum(), WEIGHT_MIN, 1 - WEIGHT_MIN))
        self.values = np.array([alpha, 1 - alpha])
