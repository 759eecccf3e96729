"""Settings of tuning."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class TuningConfig(BaseModel):
    """LoRA and the policy gradient."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rank: int = Field(16, gt=0)
    alpha: float = Field(32.0, gt=0)
    targets: tuple[str, ...] = Field(("q_proj", "v_proj"), min_length=1)
    norms: bool = Field(
        True, description="train the norms' scales too; they are served by changed weights, not by the adapter"
    )
    estimator: Literal["reinforce", "straight_through"] = "reinforce"
    learning_rate: float = Field(5e-4, gt=0)
    gradient_norm_max: float = Field(1.0, gt=0)
    temperature: float = Field(1.0, gt=0, description="at which candidates are drawn")
    baseline_decay: float = Field(0.9, ge=0, lt=1, description="of the running mean of performance")
    weight_max: float = Field(2.0, gt=0, description="importance weights are cut off here")
    weight_min: float = Field(
        0.1, ge=0, description="importance weights of candidates above the baseline are at least this"
    )
    kl_weight: float = Field(0.02, ge=0)
    entropy_weight: float = Field(0.0, ge=0)
    kl_max: float = Field(15.0, gt=0, description="nats per module; above, tuning stops")
    entropy_min: float = Field(0.05, ge=0, description="nats per module; below, tuning stops")
    replay_kept: int = Field(16, ge=0, description="best candidates that are kept")
    replay_share: float = Field(0.25, ge=0, le=1, description="replayed candidates per fresh one")
    microbatch: int = Field(4, gt=0, description="candidates in one pass")
    seed: int = Field(0, ge=0)
