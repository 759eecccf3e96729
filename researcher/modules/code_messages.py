"""Messages by code: a function of tensors, whose operations are read off to be data."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from serl.agents.learning.graphs import trace_graph
from serl.agents.learning.messages import GraphMessages, graph_messages
from serl.researcher.modules import checks
from serl.researcher.modules.contracts import Floats
from serl.researcher.modules.errors import ModuleError


class CodeMessages:
    """A `communicate` by code, called with arrays as all others are. Calling it runs the code: inside the sandbox only."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function

    def __call__(self, observations: Floats) -> Floats:
        """(n_agents, d) to (n_agents, m); ModuleError for anything but a tensor."""
        given = self._function(torch.from_numpy(np.array(observations, np.float32)))
        if not isinstance(given, Tensor):
            raise ModuleError(f"the messages: a torch.Tensor (n_agents, m) is due, got {type(given).__name__}")
        return np.asarray(given.detach().numpy(), np.float64)

    def exported(self, agents: int, observations: int) -> GraphMessages:
        """The same messages as data, for so many agents who observe so many numbers each. NotExportableError if they cannot be."""
        silence = checks.messages(self(np.zeros((agents, observations))), agents)
        return graph_messages(trace_graph(self._function), agents, observations, silence.shape[1])
