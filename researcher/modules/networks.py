"""The network of an agent specification. Without a trunk, norms and residual connections, it is the default actor and critic."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from serl.researcher.modules.specs import AgentSpec

ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU, "silu": nn.SiLU, "gelu": nn.GELU}


class _Layer(nn.Module):
    """Linear layer, optional layer norm and activation, with a residual connection if requested and the sizes match."""

    def __init__(self, spec: AgentSpec, before: int, after: int) -> None:
        super().__init__()
        norm = nn.LayerNorm(after) if spec.normalise == "layer" else nn.Identity()
        self.inner = nn.Sequential(nn.Linear(before, after), norm, ACTIVATIONS[spec.activation]())
        self.added = spec.residual == "yes" and before == after

    def forward(self, inputs: Tensor) -> Tensor:
        """(batch, before) to (batch, after)."""
        outputs = self.inner(inputs)
        return outputs + inputs if self.added else outputs


def _stack(spec: AgentSpec, first: int, widths: Sequence[int]) -> tuple[nn.Sequential, int]:
    """Layers of these widths, and the width of the last one."""
    layers = []
    for width in widths:
        layers.append(_Layer(spec, first, width))
        first = width
    return nn.Sequential(*layers), first


class SpecNetwork(nn.Module):
    """A shared trunk with a policy head and a value head.

    Weights are initialised as in the default network (learning/perceptron.py), from PyTorch's seed: orthogonal with gain sqrt 2; .01 in the
    policy's last layer, so that the first actions are near their mid-range; 1 in the value's last layer. Biases are 0.
    """

    def __init__(self, spec: AgentSpec, observation_dim: int, action_dim: int) -> None:
        super().__init__()
        self.trunk, width = _stack(spec, observation_dim, spec.trunk)
        policy, policy_width = _stack(spec, width, spec.policy)
        value, value_width = _stack(spec, width, spec.value)
        outputs, values = nn.Linear(policy_width, action_dim), nn.Linear(value_width, 1)
        self.policy, self.value = nn.Sequential(*policy, outputs), nn.Sequential(*value, values)
        self._initialise({outputs: 0.01, values: 1.0})

    def _initialise(self, gains: dict[nn.Linear, float]) -> None:
        """Initialise trunk, policy and value, in this order. Layers that are not in `gains` have gain sqrt 2."""
        generator = torch.Generator().manual_seed(torch.initial_seed())
        for part in (self.trunk, self.policy, self.value):
            for layer in part.modules():
                if isinstance(layer, nn.Linear):
                    nn.init.orthogonal_(layer.weight, gains.get(layer, math.sqrt(2)), generator=generator)
                    nn.init.zeros_(layer.bias)

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """(batch, observation_dim) to (batch, action_dim) outputs and (batch,) values."""
        features = self.trunk(observations)
        return self.policy(features), self.value(features).squeeze(-1)
