"""Messages between the agents of a team, as data in a policy file: channels, or a graph of tensor operations."""

import dataclasses
from typing import Any

import numpy as np
import torch

from serl.agents.learning.errors import DivergedError, LearningError
from serl.agents.learning.graphs import Graph
from serl.agents.learning.team import SQUASHES, Channels, Floats, Messages


@dataclasses.dataclass(frozen=True)
class GraphMessages:
    """Messages computed by a graph (see graphs.py), which maps (K, d) observations to (K, size) numbers in [-1, 1]."""

    graph: Graph
    size: int

    def __call__(self, observations: Floats) -> Floats:
        """See Communicate. Raises DivergedError for numbers outside [-1, 1]."""
        with torch.inference_mode():
            messages = self.graph(torch.as_tensor(np.asarray(observations, np.float32)))[0].numpy()
        if not (np.abs(messages) <= 1).all():
            raise DivergedError(
                f"messages: expected numbers from -1 to 1, got {np.abs(messages).max():g}; end with tanh or clamp"
            )
        return np.asarray(messages, np.float64)

    def to_json(self) -> dict[str, Any]:
        """See Messages."""
        return {**self.graph.to_json(), "size": self.size}


def graph_messages(graph: Graph, agents: int, observation_size: int, size: int) -> GraphMessages:
    """The messages of `agents` agents, computed by a graph. Raises NotExportableError unless it returns (agents, size) finite numbers."""
    graph.require_few_constants("messages")
    graph.check(agents, observation_size, (agents, size), shares_rows=True)  # the rows are one team at one time
    return GraphMessages(graph, size)


def messages_from_json(values: dict[str, Any] | None, observation_size: int) -> tuple[int, Messages] | None:
    """Reads (agents, messages) from a policy file's metadata; None for a policy without a team. Raises LearningError, KeyError, TypeError or
    ValueError for anything else."""
    if not values:
        return None
    agents = int(values["agents"])
    if "graph" in values:
        return agents, graph_messages(Graph.from_json(values), agents, observation_size, int(values["size"]))
    channels = Channels(
        tuple(map(int, values["columns"])), tuple(map(float, values["gains"])), tuple(values["squashes"])
    )
    lengths = {len(channels.columns), len(channels.gains), len(channels.squashes)}
    fits = all(0 <= column < observation_size for column in channels.columns) and np.isfinite(channels.gains).all()
    if not set(channels.squashes) <= set(SQUASHES) or len(lengths) != 1 or lengths == {0} or not fits:
        raise LearningError(
            f"messages: expected equally many columns, gains and squashes ({', '.join(SQUASHES)}), columns below {observation_size} and finite gains, "
            f"got {values}"
        )
    return agents, channels


def messages_to_json(agents: int, messages: Messages) -> dict[str, Any]:
    """The inverse of `messages_from_json`."""
    return {"agents": agents, **messages.to_json()}
