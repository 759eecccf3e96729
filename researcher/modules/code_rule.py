"""Policies defined by code: a function of named tensors, traced to a list of operations that a policy file can hold."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from serl.agents.learning.graphs import trace_graph
from serl.agents.learning.rule_policy import GraphRule, graph_rule
from serl.researcher.modules import checks
from serl.researcher.modules.build import RULE_NAMES
from serl.researcher.modules.contracts import Floats
from serl.researcher.modules.errors import ModuleError


class CodeRule:
    """A `policy` module defined by code, called with arrays like the other modules. A call runs the code: call it in the sandbox only."""

    def __init__(self, function: Callable[[Any], Any], names: Sequence[str] = RULE_NAMES) -> None:
        self._function, self._names = function, tuple(names)

    def _decide(self, inputs: Any) -> Any:
        return self._function(SimpleNamespace(**{name: inputs[:, index] for index, name in enumerate(self._names)}))

    def __call__(self, inputs: Floats) -> Floats:
        """Map (n, d) inputs to (n, 3) outputs. ModuleError unless the code returns such a tensor."""
        output = self._decide(torch.from_numpy(np.array(inputs, np.float32)))
        if not isinstance(output, Tensor):
            raise ModuleError(f"the policy: expected a torch.Tensor (n_envs, 3), got {type(output).__name__}")
        return checks.decisions(output.detach().numpy(), len(inputs))

    def with_inputs(self, names: Sequence[str]) -> "CodeRule":
        """The same rule for inputs of these names."""
        return CodeRule(self._function, names)

    def exported(self) -> GraphRule:
        """The same rule as data. NotExportableError if tracing fails."""
        return graph_rule(trace_graph(lambda inputs: self._decide(inputs)), len(self._names))
