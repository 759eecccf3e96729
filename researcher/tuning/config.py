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
        True, description="also train the scales of the norms; they are served in the base weights, not in the adapter"
    )
    estimator: Literal["reinforce", "straight_through"] = "reinforce"
    learning_rate: float = Field(5e-4, gt=0)
    gradient_norm_max: float = Field(1.0, gt=0)
    temperature: float = Field(1.0, gt=0, description="sampling temperature of the modules")
    baseline_decay: float = Field(0.9, ge=0, lt=1, description="decay of the running mean of performance")
    weight_max: float = Field(2.0, gt=0, description="upper limit of importance weights")
    weight_min: float = Field(
        0.1, ge=0, description="lower limit of importance weights where the advantage is positive"
    )
    kl_weight: float = Field(0.02, ge=0)
    entropy_weight: float = Field(0.0, ge=0)
    kl_max: float = Field(15.0, gt=0, description="nats per module; above, tuning stops")
    entropy_min: float = Field(0.05, ge=0, description="nats per module; below, tuning stops")
    replay_kept: int = Field(16, ge=0, description="size of the replay buffer of best modules")
    replay_share: float = Field(0.25, ge=0, le=1, description="replayed modules per fresh one")
    microbatch: int = Field(4, gt=0, description="modules per forward pass")
    seed: int = Field(0, ge=0)
