"""Settings of proximal policy optimisation. PyTorch is not needed to read them."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class PPOConfig(BaseModel):
    """Settings of the algorithm."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    steps: int = Field(1_000_000, gt=0, description="environment steps in all")
    rollout_steps: int = Field(64, gt=0, description="steps of each environment between updates")
    epochs: int = Field(10, gt=0)
    minibatch: int = Field(1024, gt=0, description="samples a gradient step; from each market in hybrid training")
    discount: float = Field(0.99, ge=0, le=1, description="gamma")
    trace: float = Field(0.95, ge=0, le=1, description="lambda of the advantages")
    clip: float = Field(0.2, gt=0)
    actor_learning_rate: float = Field(3e-4, gt=0)
    critic_learning_rate: float = Field(1e-3, gt=0)
    schedule: Literal["constant", "linear"] = Field("constant", description="linear: both rates go to 0")
    entropy: float = Field(0.0, ge=0, description="weight of the entropy")
    value_weight: float = Field(0.5, ge=0)
    gradient_norm_max: float = Field(0.5, gt=0)
    reward_scale: float = Field(1.0, gt=0, description="what rewards are multiplied with before learning")
    seed: int = Field(0, ge=0)
    threads: int = Field(2, ge=1, le=2, description="2: the critic learns beside the actor; the results are the same")
