"""Settings of an actor-critic. Reading them does not need PyTorch."""

from typing import Literal

from pydantic import Field, PositiveInt

from serl.agents.learning.settings import LearningSettings

Activation = Literal["tanh", "relu"]
Kind = Literal["squashed", "gaussian", "beta", "bins"]
"""Family of the action distribution."""


class NetworkConfig(LearningSettings):
    """Layer sizes and the action distribution."""

    hidden: tuple[PositiveInt, ...] = Field(
        (64, 64), description="units of each hidden layer, in both actor and critic"
    )
    activation: Activation = "tanh"
    memory: int = Field(0, ge=0, description="units of a GRU in front of both; 0: none")
    actions: Kind = Field("beta", description="squashed or plain Gaussian, Beta, or evenly spaced bins")
    bins: int = Field(5, ge=2, description="values per action with bins")
    deviation: float = Field(1.0, gt=0, description="initial standard deviation of Gaussians")
