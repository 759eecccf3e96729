"""A graph decides for many orders at once, some of them later on the same day: the result of a row may depend on its own observations alone."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from serl.agents.learning.errors import NotExportableError
from serl.agents.learning.graph_operations import FUNCTIONS
from serl.agents.learning.graphs import Graph, trace_graph
from serl.agents.learning.row_dependence import LEAST

SQUARE, COLUMN = torch.eye(4), torch.ones(4)
SEEN: dict[str, Any] = {"tensor": "observations"}
OWN: dict[str, Callable[[Tensor], Tensor]] = {
    "matmul": lambda x: x @ SQUARE,
    "column": lambda x: (x @ COLUMN)[:, None],
    "softmax": lambda x: functional.softmax(x, dim=-1),
    "centred": lambda x: x - x.mean(-1, keepdim=True),
    "reshaped": lambda x: torch.cat([x, x * 2], 1).reshape(x.size(0), 2, 4).transpose(1, 2).sum(2),
    "chunks": lambda x: torch.stack(torch.chunk(x, 2, 1), 1).flatten(1, 2),
    "constants": lambda x: torch.zeros_like(x) + COLUMN,
    "products of a row": lambda x: (x[:, :, None] @ x[:, None, :]).sum(-1),
    "where": lambda x: torch.where(x > 0, x, -x),
    "transposed twice": lambda x: x.transpose(0, 1).transpose(0, 1),
    "flat for a while": lambda x: x.reshape(-1).reshape(-1, 4),
    "clamped": lambda x: torch.clamp(x, torch.zeros_like(x), x.square()),
}
OTHERS: dict[str, Callable[[Tensor], Tensor]] = {
    "centred": lambda x: x - x.mean(0),
    "sum": lambda x: x.sum() + x,
    "softmax": lambda x: torch.softmax(x, 0),
    "attention": lambda x: x @ x.transpose(0, 1) @ x,
    "a later row": lambda x: torch.cat([x[1:], x[:1]], 0),
    "an earlier row": lambda x: torch.cat([x[:1], x[:-1]], 0),
    "reshaped": lambda x: x.transpose(0, 1).reshape(-1, 4),
    "the first row": lambda x: x + x[0],
    "where": lambda x: x + torch.where(x[0] > 0, COLUMN, -COLUMN),
    "none of its values": lambda x: x + 0 * x.sum(),
}


@pytest.mark.parametrize("name", OWN)
def test_results_of_the_own_row_are_allowed(name: str) -> None:
    graph, observations = trace_graph(OWN[name]), torch.randn(7, 4)
    (found,) = graph(observations)
    assert torch.allclose(found, OWN[name](observations))
    assert torch.allclose(found[2:3], graph(observations[2:3])[0])


@pytest.mark.parametrize("name", OTHERS)
def test_results_of_other_rows_are_refused(name: str) -> None:
    graph = trace_graph(OTHERS[name])
    with pytest.raises(NotExportableError, match="depend on others"):
        graph.check(3, 4, (3, 4))
    with pytest.raises(NotExportableError, match="depend on others"):
        graph(torch.zeros(7, 4))


def test_each_number_of_rows_is_checked() -> None:
    """With three rows this graph moves none; with seven each gets the observations of the next but three."""
    graph = trace_graph(lambda x: torch.cat([x[x.size(0) - 3 :], x[: x.size(0) - 3]], 0))
    graph.check(3, 4, (3, 4))
    with pytest.raises(NotExportableError, match="depend on others"):
        graph(torch.zeros(7, 4))


def test_a_constant_does_not_hide_the_observations() -> None:
    nodes = [["mean", [SEEN, 0, True], {}], ["add", [SEEN, {"node": 0}], {}]]
    graph = Graph({"nodes": nodes, "given": [{"node": 1}]}, {"observations": torch.zeros(3, 4)})
    with pytest.raises(NotExportableError, match="depend on others"):
        graph.check(3, 4, (3, 4))


@pytest.mark.parametrize("arguments", [["relu", [SEEN, True]], ["leaky_relu", [{"tensor": "constant"}, 0.5, 1]]])
def test_no_operation_changes_its_arguments(arguments: list[Any]) -> None:
    """It would change the observations of the caller, or remember something in a constant from one decision to the next."""
    with pytest.raises(NotExportableError, match="inplace"):
        Graph({"nodes": [[*arguments, {}]], "given": [{"node": 0}]}, {"constant": -torch.ones(3, 4)})


def test_a_graph_that_takes_long_is_refused_before_it_runs() -> None:
    """Its results are small, but each takes 8 million products."""
    wide: list[Any] = [["unsqueeze", [SEEN, 1], {}], *[["cat", [[{"node": n}] * 8, 2], {}] for n in range(5)]]
    nodes = [*wide, ["reshape", [{"node": 5}, [-1, 64, 2048]], {}], ["transpose", [{"node": 6}, 1, 2], {}]]
    nodes += [["matmul", [{"node": 6}, {"node": 7}], {}]] * 3
    with pytest.raises(NotExportableError, match="products"):
        Graph({"nodes": nodes, "given": [SEEN]}, {}).check(3, 4, (3, 4))


def test_operations_without_a_rule_only_move_numbers() -> None:
    """Whoever adds an operation adds its rule."""
    assert FUNCTIONS.keys() - LEAST.keys() == {
        "cat", "chunk", "flatten", "getitem", "reshape", "size", "squeeze", "stack", "transpose", "unsqueeze",
    }  # fmt: skip
