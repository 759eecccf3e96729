"""What a team's agents tell each other, as data in a policy's file: channels, or a graph of tensor operations."""

import dataclasses
from typing import Any

import numpy as np
import torch

from serl.agents.learning.errors import DivergedError, LearningError, NotExportableError
from serl.agents.learning.graphs import Graph
from serl.agents.learning.team import SQUASHES, Channels, Floats, Messages

NUMBERS_MAX = 2**14
"""Constants of a graph, which the file has as text."""


@dataclasses.dataclass(frozen=True)
class GraphMessages:
    """Messages by a graph (see graphs.py): (K, d) observations to (K, size) numbers in [-1, 1]."""

    graph: Graph
    size: int

    def __call__(self, observations: Floats) -> Floats:
        """See Communicate. DivergedError for numbers that are not in [-1, 1]."""
        with torch.inference_mode():
            said = self.graph(torch.as_tensor(np.asarray(observations, np.float32)))[0].numpy()
        if not (np.abs(said) <= 1).all():
            raise DivergedError(
                f"messages: numbers from -1 to 1 are due, got {np.abs(said).max():g}; end with tanh or clamp"
            )
        return np.asarray(said, np.float64)

    def described(self) -> dict[str, Any]:
        """See Messages."""
        numbers = {name: values.tolist() for name, values in self.graph.state_dict().items()}
        return {"graph": self.graph.graph, "numbers": numbers, "size": self.size}


def graph_messages(graph: Graph, agents: int, observations: int, size: int) -> GraphMessages:
    """Of `agents` that observe so many numbers each; NotExportableError unless the graph gives (agents, size) finite ones."""
    if (count := sum(values.numel() for values in graph.state_dict().values())) > NUMBERS_MAX:
        raise NotExportableError(f"messages: at most {NUMBERS_MAX:,} constants are due, got {count:,}")
    graph.check(agents, observations, (agents, size))
    return GraphMessages(graph, size)


def of_facts(facts: dict[str, Any] | None, observations: int) -> tuple[int, Messages] | None:
    """(agents, messages) that a policy's file names, where each observes so many numbers; None if it is for one agent. LearningError, or one
    of Python's for other types, for what are no messages."""
    if not facts:
        return None
    agents = int(facts["agents"])
    if "graph" in facts:
        graph = Graph(facts["graph"], {name: torch.tensor(values) for name, values in facts["numbers"].items()})
        return agents, graph_messages(graph, agents, observations, int(facts["size"]))
    known = Channels(tuple(map(int, facts["columns"])), tuple(map(float, facts["gains"])), tuple(facts["squashes"]))
    if (
        not set(known.squashes) <= set(SQUASHES)
        or not len(known.columns) == len(known.gains) == len(known.squashes) > 0
    ):
        raise LearningError(f"messages: channels of {', '.join(SQUASHES)} are due, got {facts}")
    return agents, known


def facts_of(agents: int, messages: Messages) -> dict[str, Any]:
    """The reverse of `of_facts`."""
    return {"agents": agents, **messages.described()}
