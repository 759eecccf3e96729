"""The network of an agent's specification."""

from collections.abc import Sequence

from torch import Tensor, nn

from serl.researcher.modules.specs import AgentSpec

ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU, "silu": nn.SiLU, "gelu": nn.GELU}


class _Layer(nn.Module):  # type: ignore[misc]
    """Linear, perhaps normalised, activated; plus its input where sizes allow and that is asked for."""

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
    """Layers of the widths, and what the last gives."""
    layers = []
    for width in widths:
        layers.append(_Layer(spec, first, width))
        first = width
    return nn.Sequential(*layers), first


class SpecNetwork(nn.Module):  # type: ignore[misc]
    """A shared trunk, a policy and a value. Last layers: the policy's is small, so that it begins near the middle of its actions."""

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
