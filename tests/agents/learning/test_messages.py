"""Messages as data: graphs and policy files give the same messages as the function."""

import json
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from serl.agents.learning.errors import DivergedError, LearningError
from serl.agents.learning.graphs import Graph, trace_graph
from serl.agents.learning.messages import GraphMessages, graph_messages, messages_from_json, messages_to_json
from serl.agents.learning.team import Channels, Messages

AGENTS, SIZE = 3, 12
WEIGHTS = torch.linspace(-1, 1, 2 * SIZE).reshape(SIZE, 2)


def crowd(seen: Tensor) -> Tensor:
    """Depends on all agents' observations."""
    return torch.tanh((seen - seen.mean(dim=0, keepdim=True)) @ WEIGHTS)


CASES: list[Messages] = [
    graph_messages(trace_graph(crowd), AGENTS, SIZE, 2),
    Channels((4, 2), (2.0, -1.0), ("tanh", "clip")),
]


@pytest.mark.parametrize("messages", CASES)
def test_loaded_messages_are_the_same(messages: Messages) -> None:
    seen = np.random.default_rng(1).normal(size=(AGENTS, SIZE))
    again = messages_from_json(json.loads(json.dumps(messages_to_json(AGENTS, messages))), SIZE)
    assert again is not None
    assert (again[0], again[1].size) == (AGENTS, 2)
    np.testing.assert_array_equal(again[1](seen), messages(seen))


def test_a_graph_computes_what_its_function_computes() -> None:
    seen = np.random.default_rng(1).normal(size=(AGENTS, SIZE))
    np.testing.assert_array_equal(CASES[0](seen), crowd(torch.from_numpy(seen).float()).numpy())


def test_messages_out_of_range_are_refused() -> None:
    loud = graph_messages(trace_graph(lambda seen: seen[:, :1] * 2), AGENTS, SIZE, 1)
    for value in (1.0, np.nan):
        with pytest.raises(DivergedError, match="from -1 to 1"):
            loud(np.full((AGENTS, SIZE), value))


SEEN: dict[str, Any] = {"tensor": "observations"}
COPY = {"nodes": [["tanh", [SEEN], {}]], "given": [{"node": 0}]}


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({"graph": COPY, "numbers": {}, "size": 2}, r"shapes \(\(3, 2\),\), got \(\(3, 12\),\)"),
        ({"graph": COPY | {"given": [SEEN, SEEN]}, "numbers": {}, "size": 12}, "expected finite numbers"),
        ({"graph": COPY, "numbers": {"spare": [[0.0] * 2**10] * 17}, "size": 12}, "at most 16,384 constants"),
        ({"columns": [1], "gains": [1.0], "squashes": ["system"]}, "equally many columns, gains and squashes"),
        ({"columns": [1, 2], "gains": [1.0], "squashes": ["tanh"]}, "equally many columns, gains and squashes"),
        ({"columns": [SIZE], "gains": [1.0], "squashes": ["tanh"]}, "columns below 12"),
        ({"columns": [-1], "gains": [1.0], "squashes": ["tanh"]}, "columns below 12"),
        ({"columns": [1], "gains": [math.nan], "squashes": ["tanh"]}, "finite gains"),
    ],
)
def test_invalid_messages_are_refused(facts: dict[str, Any], why: str) -> None:
    with pytest.raises(LearningError, match=why):
        messages_from_json({"agents": AGENTS, **facts}, SIZE)


def test_no_constants_are_needed() -> None:
    assert isinstance(graph_messages(Graph(COPY, {}), 2, 5, 5), GraphMessages)
