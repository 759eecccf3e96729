"""Custom networks: the same gradients as PPO's own networks, and the same outputs as plain data."""

import json
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.toy import ToyExecution
from serl.agents.learning.custom_network import CustomPPO
from serl.agents.learning.errors import NotExportableError
from serl.agents.learning.graph_operations import FUNCTIONS, numbers_at_most
from serl.agents.learning.graphs import Graph, trace_graph
from serl.agents.learning.network_config import NetworkConfig
from serl.agents.learning.ppo import PPO
from serl.agents.learning.ppo_config import PPOConfig

SIZE, OUTPUTS = 12, 4


class Branches(nn.Module):
    """Uses typical operations of such networks."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.first = nn.LayerNorm(SIZE), nn.Linear(SIZE, 8)
        self.gate, self.value = nn.Linear(SIZE, 8), nn.Linear(16, 1)
        self.scale = nn.Parameter(torch.ones(8))
        self.last = nn.Sequential(nn.Linear(16, OUTPUTS), nn.Identity())

    def forward(self, seen: Tensor) -> tuple[Tensor, Tensor]:
        """See contracts."""
        seen = self.norm(seen)
        hidden = functional.gelu(self.first(seen)) * torch.sigmoid(self.gate(seen)) * self.scale
        book = seen[:, :4].view(-1, 2, 2).mean(dim=2)
        weights = torch.softmax(torch.stack((book[:, 0], 1.0 - book[:, 1]), dim=-1), dim=-1)
        both = torch.cat([hidden * weights[:, :1], hidden.tanh() / (1 + hidden.abs())], dim=-1)
        return self.last(both), self.value(both)[..., 0]


def test_a_graph_gives_the_same_numbers_and_is_plain_data() -> None:
    network, seen = Branches(), torch.randn(7, SIZE)
    graph = trace_graph(network)
    again = Graph(json.loads(json.dumps(graph.graph)), dict(graph.state_dict()))
    again.check(3, SIZE, (3, OUTPUTS), (3,))
    for one, two in zip(network(seen), again(seen), strict=True):
        torch.testing.assert_close(one, two, rtol=0, atol=0)


class Conditional(nn.Module):
    """Its control flow depends on tensor values."""

    def forward(self, seen: Tensor) -> tuple[Tensor, Tensor]:
        """See contracts."""
        return (seen, seen[:, 0]) if seen.sum() > 0 else (-seen, seen[:, 0])


class Sorting(nn.Module):
    """An operation that is not on the list."""

    def forward(self, seen: Tensor) -> tuple[Tensor, Tensor]:
        """See contracts."""
        return torch.sort(seen)[0], seen[:, 0]


class Masked(nn.Module):
    """Has a second argument."""

    def forward(self, seen: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """See contracts."""
        return seen, seen[:, 0]


@pytest.mark.parametrize(
    ("network", "why"),
    [(Conditional(), "conditions and loops"), (Sorting(), "'sort'"), (Masked(), "got also 'mask'")],
)
def test_code_that_cannot_be_traced_is_not_exportable(network: nn.Module, why: str) -> None:
    with pytest.raises(NotExportableError, match=why):
        trace_graph(network)


SEEN: dict[str, Any] = {"tensor": "observations"}

LONG: list[Any] = [
    ["flatten", [SEEN], {}], *[["cat", [[{"node": n}] * 4], {}] for n in range(6)],
    ["unsqueeze", [{"node": 6}, 0], {}], ["unsqueeze", [{"node": 6}, 1], {}],
]  # fmt: skip
"""Nodes 7 and 8 are a row and a column of 147,456 numbers."""
HOSTILE: list[tuple[Any, str]] = [
    ({"nodes": [["system", [SEEN], {}]], "given": [SEEN, SEEN]}, "KeyError"),
    ({"nodes": [["tanh", [{"node": 7}], {}]], "given": [SEEN, SEEN]}, "IndexError"),
    ({"nodes": [["tanh", [SEEN], {"out": SEEN}]], "given": [SEEN, SEEN]}, "options among"),
    ({"nodes": [], "given": []}, "1 to 500 operations"),
    ({"nodes": [["reshape", [SEEN, [-1, 1, 1]], {}], *[["cat", [[{"node": n}] * 64, 1], {}] for n in range(6)]],
      "given": [SEEN, SEEN]}, "at most"),
    ({"nodes": [["pow", [10, 10**9], {}]], "given": [SEEN, SEEN]}, "Python numbers below"),
    ({"nodes": [*LONG, ["add", [{"node": 7}, {"node": 8}], {}]], "given": [SEEN, SEEN]}, "add: .*at most"),
    ({"nodes": [*LONG, ["matmul", [{"node": 8}, {"node": 7}], {}]], "given": [SEEN, SEEN]}, "matmul: .*at most"),
    ({"nodes": [["getitem", [SEEN, {"tuple": [[0] * 2000, [[0]] * 2000]}], {}]], "given": [SEEN, SEEN]}, "getitem: .*at most"),
    ({"nodes": [["gt", [SEEN, 0], {}], ["getitem", [SEEN, {"node": 0}], {}]], "given": [SEEN, SEEN]}, "depends on no value"),
    ({"nodes": [["gt", [SEEN, 0], {}], ["where", [{"node": 0}], {}]], "given": [SEEN, SEEN]}, "depends on no value"),
]  # fmt: skip


SQUARE: list[Any] = [
    ["flatten", [SEEN], {}], ["cat", [[{"node": 0}] * 60], {}], ["unsqueeze", [{"node": 1}, 0], {}], ["unsqueeze", [{"node": 1}, 1], {}],
    ["mul", [{"node": 2}, {"node": 3}], {}], ["sum", [{"node": 4}], {}], ["add", [SEEN, {"node": 5}], {}],
]  # fmt: skip
"""Takes memory with the square of the rows."""


def test_a_graph_that_grows_with_the_square_of_its_rows_is_refused_before_it_takes_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The check with few rows does not show it."""
    graph, sizes = Graph({"nodes": SQUARE, "given": [{"node": 6}]}, {}), list[int]()

    def noting(*arguments: Any) -> Tensor:
        sizes.append(torch.mul(*arguments).numel())
        return torch.mul(*arguments)

    monkeypatch.setitem(FUNCTIONS, "mul", noting)
    graph.check(3, 5, (3, 5), shares_rows=True)
    for _ in range(2):
        assert graph(torch.zeros(4, 5))[0].shape == (4, 5)
        with pytest.raises(NotExportableError, match=r"mul: .*at most"):
            graph(torch.zeros(32, 5))
    assert sizes == [900**2, 1200**2, 1200**2], "never for 32 rows"


@pytest.mark.parametrize(("graph", "why"), HOSTILE)
def test_a_hostile_graph_is_refused_before_it_takes_memory(graph: Any, why: str) -> None:
    with pytest.raises(NotExportableError, match=why):
        Graph(graph, {}).check(3, SIZE, (3, OUTPUTS), (3,))


X = torch.randn
EXACT: list[tuple[str, list[Any]]] = [
    ("add", [X(3, 1), X(4)]), ("where", [X(4, 1) > 0, X(5), 0.0]), ("cat", [[X(2, 3), X(4, 3)]]), ("stack", [[X(2), X(2)], 1]),
    *[("matmul", [X(left), X(right)]) for left, right in (((3,), (3, 5)), ((2, 3), (3,)), ((7, 1, 2, 3), (5, 3, 4)))],
    *[("linear", [X(2, 6, 3), X(5, 3), X(5)]), ("linear", [X(2, 3), X(3)])],
]  # fmt: skip


@pytest.mark.parametrize(("name", "arguments"), EXACT)
def test_the_size_of_a_result_is_known_before(name: str, arguments: list[Any]) -> None:
    assert numbers_at_most(name, arguments, {}) == FUNCTIONS[name](*arguments).numel()


class Apart(nn.Module):
    """The perceptrons of an ActorCritic for autograd."""

    def __init__(self, size: int, outputs: int) -> None:
        super().__init__()
        self.parts = nn.ModuleList(
            nn.Sequential(nn.Linear(size, 8), nn.Tanh(), nn.Linear(8, last)) for last in (outputs, 1)
        )

    def forward(self, seen: Tensor) -> tuple[Tensor, Tensor]:
        """See contracts."""
        return self.parts[0](seen), self.parts[1](seen).squeeze(-1)


@pytest.mark.parametrize("family", ["beta", "squashed"])
def test_the_gradient_is_that_of_ppo(family: Any) -> None:
    config, network = PPOConfig(rollout_steps=8, entropy=0.01, threads=1), NetworkConfig(hidden=(8,), actions=family)
    ours, custom = PPO([ToyExecution(6)], config, network), CustomPPO([ToyExecution(6)], config, network, Apart)
    with torch.no_grad():
        parts = zip((ours.network.actor, ours.network.critic), custom.network.module.parts, strict=True)
        for perceptron, layers in parts:
            for here, there in zip(perceptron.parameters(), layers.parameters(), strict=True):
                there.copy_(here)
    ours.reset()
    rollout = ours.collectors[0].collect(8, ours.random, 0.99, 0.95)
    batch = next(rollout.minibatches(np.random.default_rng(0), 1))
    for learner in (ours, custom):
        learner.accumulate_gradients(batch, 0.7)
    theirs = [parameter.grad for part in custom.network.module.parts for parameter in part.parameters()]
    mine = [each.grad for part in (ours.network.actor, ours.network.critic) for each in part.parameters()]
    assert any(float(gradient.abs().max()) > 0 for gradient in theirs)
    for one, two in zip(mine, theirs, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(ours.network.log_std.grad, custom.network.log_std.grad, rtol=1e-4, atol=1e-6)


class Shared(nn.Module):
    """A trunk, a norm whose weight only the value uses, and two heads."""

    def __init__(self, size: int, outputs: int) -> None:
        super().__init__()
        self.value, self.norm = nn.Linear(8, 1), nn.LayerNorm(8)
        self.trunk, self.policy = nn.Linear(size, 8), nn.Linear(8, outputs)

    def forward(self, seen: Tensor) -> tuple[Tensor, Tensor]:
        """See contracts."""
        features = torch.tanh(self.trunk(seen))
        return self.policy(features), self.value(self.norm(features)).squeeze(-1)


def test_parameters_of_the_value_alone_learn_at_the_rate_of_the_critic() -> None:
    config = PPOConfig(rollout_steps=8, epochs=1, minibatch=48, critic_learning_rate=1e-30, threads=1)
    learner = CustomPPO([ToyExecution(6)], config, NetworkConfig(), Shared)
    module: Any = learner.network.module
    of_value = [*module.value.parameters(), *module.norm.parameters()]
    assert learner.network.group_sizes[1] == sum(each.numel() for each in of_value)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    learner.reset()
    learner.update()
    moves = {name: float((value - before[name]).abs().max()) for name, value in module.state_dict().items()}
    moved = {name.split(".")[0] for name, move in moves.items() if move > 1e-20}
    assert moved == {"trunk", "policy"}


def test_a_network_without_parameters_of_the_value_alone_learns_at_one_rate() -> None:
    class Joint(Shared):
        def forward(self, seen: Tensor) -> tuple[Tensor, Tensor]:
            """See contracts."""
            outputs, values = super().forward(seen)
            return outputs + 0 * values[:, None], values

    learner = CustomPPO([ToyExecution(6)], PPOConfig(threads=1), NetworkConfig(), Joint)
    assert learner.network.group_sizes[1] == 0
