"""Settings of an actor-critic. PyTorch is not needed to read them."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Activation = Literal["tanh", "relu"]
Kind = Literal["squashed", "gaussian", "beta", "bins"]
"""Family of the distribution of actions."""


class NetworkConfig(BaseModel):
    """Sizes and the family of actions."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    hidden: tuple[int, ...] = Field((64, 64), description="units of each hidden layer, of actor and critic alike")
    activation: Activation = "tanh"
    memory: int = Field(0, ge=0, description="units of a GRU before both; 0: none")
    actions: Kind = Field("beta", description="squashed or plain Gaussian, Beta, or evenly spaced bins")
    bins: int = Field(5, ge=2, description="values of an action if it is binned")
    deviation: float = Field(1.0, gt=0, description="standard deviation of Gaussians at the beginning")
