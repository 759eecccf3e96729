"""Messages defined by code: a function of tensors, traced to a list of operations that a policy file can hold."""

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
    """A `communicate` module defined by code, called with arrays like the other modules. A call runs the code: call it in the sandbox only."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function

    def __call__(self, observations: Floats) -> Floats:
        """Map (n_agents, d) observations to (n_agents, m) messages. ModuleError unless the code returns a tensor."""
        output = self._function(torch.from_numpy(np.array(observations, np.float32)))
        if not isinstance(output, Tensor):
            raise ModuleError(f"the messages: expected a torch.Tensor (n_agents, m), got {type(output).__name__}")
        return np.asarray(output.detach().numpy(), np.float64)

    def exported(self, agents: int, observations: int) -> GraphMessages:
        """The same messages as data, for `agents` agents with `observations` observations each. NotExportableError if tracing fails."""
        silence = checks.messages(self(np.zeros((agents, observations))), agents)
        return graph_messages(trace_graph(self._function), agents, observations, silence.shape[1])
