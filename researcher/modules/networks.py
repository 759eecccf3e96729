"""The network of an agent specification."""

from collections.abc import Sequence

from torch import Tensor, nn

from serl.researcher.modules.specs import AgentSpec

ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU, "silu": nn.SiLU, "gelu": nn.GELU}


class _Layer(nn.Module):  # type: ignore[misc]
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


class SpecNetwork(nn.Module):  # type: ignore[misc]
    """A shared trunk with a policy head and a value head. The policy's last layer starts small: first actions are near their mid-range."""

    def __init__(self, spec: AgentSpec, observation_dim: int, action_dim: int) -> None:
        super().__init__()
        self.trunk, width = _stack(spec, observation_dim, spec.trunk)
        policy, policy_width = _stack(spec, width, spec.policy)
        value, value_width = _stack(spec, width, spec.value)
        last = nn.Linear(policy_width, action_dim)
        nn.init.orthogonal_(last.weight, 0.01)
        nn.init.zeros_(last.bias)
        self.policy, self.value = nn.Sequential(*policy, last), nn.Sequential(*value, nn.Linear(value_width, 1))

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """(batch, observation_dim) to (batch, action_dim) outputs and (batch,) values."""
        features = self.trunk(observations)
        return self.policy(features), self.value(features).squeeze(-1)
