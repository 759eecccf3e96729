"""Settings of proximal policy optimisation. Reading them does not need PyTorch."""

from typing import ClassVar, Literal

from pydantic import Field

from serl.agents.learning.settings import LearningSettings
from serl.ranges import SEED_MAX


class PPOConfig(LearningSettings):
    """Settings of the algorithm."""

    renamed: ClassVar[dict[str, str]] = {"discount": "gamma", "trace": "gae_lambda"}

    steps: int = Field(1_000_000, gt=0, description="total environment steps")
    rollout_steps: int = Field(64, gt=0, description="steps of each environment between updates")
    rollout_parts: int = Field(
        1,
        gt=0,
        le=1024,
        description="parts in which the environments collect, each with random numbers of its own; with --on ray each is an actor",
    )
    epochs: int = Field(10, gt=0)
    minibatch: int = Field(1024, gt=0, description="samples per gradient step; from each market in hybrid training")
    gamma: float = Field(0.99, ge=0, le=1, description="discount factor")
    gae_lambda: float = Field(0.95, ge=0, le=1, description="lambda of generalised advantage estimation")
    clip: float = Field(0.2, gt=0)
    actor_learning_rate: float = Field(3e-4, gt=0)
    critic_learning_rate: float = Field(1e-3, gt=0)
    critic_first_steps: int = Field(
        0,
        ge=0,
        description="steps at first in which only the critic learns: with start_from, it knows nothing of the policy yet",
    )
    schedule: Literal["constant", "linear"] = Field("constant", description="linear: both learning rates decay to 0")
    entropy: float = Field(0.0, ge=0, description="weight of the entropy bonus")
    value_weight: float = Field(0.5, ge=0, description="weight of the value loss")
    gradient_norm_max: float = Field(0.5, gt=0)
    reward_scale: float = Field(1.0, gt=0, description="factor applied to rewards before learning")
    seed: int = Field(0, ge=0, le=SEED_MAX)
    threads: int = Field(1, gt=0, description="PyTorch threads")
