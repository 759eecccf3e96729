"""Functions of tensors, especially networks, as plain data: operations from a fixed list, and constants. A trusted process can load and run
such data from an untrusted process.

`trace_graph` traces the operations of a module or function by symbolic execution (torch.fx). Operations outside the list, and control flow
that depends on tensor values, raise NotExportableError. A node is [operation, arguments, options]; arguments are numbers, strings, None,
lists, and references to earlier nodes or constants. "given" lists the results.
"""

import operator
import threading
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, fx, nn

from serl.agents.learning.errors import NotExportableError
from serl.agents.learning.graph_operations import (
    ALIASES,
    ARGUMENTS_MAX,
    CONSTANTS_MAX,
    FUNCTIONS,
    IDENTITY_LAYERS,
    LAYERS,
    NAMES,
    NODES_MAX,
    OBSERVATIONS,
    OPTIONS,
    Limits,
    result,
)  # fmt: skip
from serl.agents.learning.row_dependence import is_own, labelled, labels_of

Operate = Callable[[str, list[Any], dict[str, Any]], Any]
"""Interprets an operation: its name, arguments and options."""

TRACING = threading.Lock()
"""torch.fx replaces methods of nn.Module for all threads while it traces; of two traces at once, the later would restore the methods of the other."""


class _Tracer(fx.Tracer):
    """Traces only its own thread; networks of other threads compute as usual."""

    def __init__(self) -> None:
        super().__init__()
        self._thread = threading.get_ident()

    def call_module(
        self, m: nn.Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Intercepts the call of a module, in any thread."""
        if threading.get_ident() != self._thread:
            return forward(*args, **kwargs)
        return super().call_module(m, forward, args, kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """Intercepts the read of an attribute, in any thread."""
        if threading.get_ident() != self._thread:
            return attr_val
        return super().getattr(attr, attr_val, parameter_proxy_cache)

    def is_leaf_module(self, module: nn.Module, name: str) -> bool:
        """Whether a module is a known layer, which is a single operation; the tracer enters all other modules."""
        return type(module) in LAYERS or isinstance(module, IDENTITY_LAYERS)


class _GraphBuilder:
    """Translates torch.fx nodes to the nodes of a graph."""

    def __init__(self, module: nn.Module) -> None:
        self.module, self.nodes, self.tensors = module, list[list[Any]](), dict[str, Tensor]()
        self._references: dict[Any, Any] = {}

    def _tensor(self, name: str, value: Tensor) -> dict[str, Any]:
        key = name.replace(".", "_")
        self.tensors[key] = value.detach()
        return {"tensor": key}

    def _argument(self, value: Any) -> Any:
        """Converts an argument to plain data."""
        if isinstance(value, fx.Node):
            return self._references[value]
        if isinstance(value, list | torch.Size):
            return [self._argument(item) for item in value]
        if isinstance(value, tuple):
            return {"tuple": [self._argument(item) for item in value]}
        if isinstance(value, slice):
            return {"slice": [self._argument(item) for item in (value.start, value.stop, value.step)]}
        if value is Ellipsis:
            return {"ellipsis": None}
        if value is None or isinstance(value, bool | int | float | str):
            return value
        raise NotExportableError(
            f"expected a number or tensor as the argument of an operation, got {type(value).__name__}; use plain arguments"
        )

    def _append(self, node: fx.Node, name: str, *arguments: Any, **options: Any) -> None:
        values = [self._argument(argument) for argument in arguments]
        given = {
            key: self._argument(value)
            for key, value in options.items()
            if value is not None and value is not False and key != "_stacklevel"
        }
        self.nodes.append([name, values, given])
        self._references[node] = {"node": len(self.nodes) - 1}

    def _layer(self, node: fx.Node) -> None:
        layer = self.module.get_submodule(str(node.target))
        if isinstance(layer, IDENTITY_LAYERS):
            self._references[node] = self._references[node.args[0]]
            return
        name, attributes = LAYERS[type(layer)]
        extra = []
        for attribute in attributes:
            value = getattr(layer, attribute)
            is_tensor = isinstance(value, Tensor)
            extra.append(self._tensor(f"{node.target}.{attribute}", value) if is_tensor else self._argument(value))
        options = {"approximate": layer.approximate} if isinstance(layer, nn.GELU) else {}
        self._append(node, name, *node.args, **options)
        self.nodes[-1][1] += extra

    def add(self, node: fx.Node) -> Any:
        """Adds a node; for the output node, returns references to the results."""
        if node.op == "get_attr":
            value = operator.attrgetter(str(node.target))(self.module)
            self._references[node] = self._tensor(str(node.target), value)
        elif node.op == "call_module":
            self._layer(node)
        elif node.op == "output":
            results = node.args[0]
            return [self._argument(item) for item in (results if isinstance(results, (tuple, list)) else (results,))]
        elif node.op not in ("call_function", "call_method"):  # an argument
            if self._references:
                raise NotExportableError(
                    f"expected one argument, the observations, got also {node.target!r}; leave it out"
                )
            self._references[node] = {"tensor": OBSERVATIONS}
        else:
            target = node.target
            name = NAMES.get(target) if node.op == "call_function" else ALIASES.get(str(target), str(target))
            if name not in FUNCTIONS:
                known = ", ".join(sorted(FUNCTIONS))
                raise NotExportableError(
                    f"expected operations among {known}, and the layers {', '.join(kind.__name__ for kind in LAYERS)}, got "
                    f"{getattr(target, '__name__', target)!r}; use operations of this list"
                )
            arguments = node.args
            if name == "reshape" and len(arguments) > 1 and not isinstance(arguments[1], (tuple, list)):
                arguments = (arguments[0], tuple(arguments[1:]))
            self._append(node, name, *arguments, **node.kwargs)
        return None


def trace_graph(function: nn.Module | Callable[[Any], Any]) -> "Graph":
    """Traces a module or function that maps observations to one or several tensors into a graph with the same results. Raises NotExportableError
    if that is not possible."""
    tracer = _Tracer()
    try:
        with TRACING:
            graph = tracer.trace(function)
    except Exception as error:
        raise NotExportableError(
            f"expected operations that do not depend on tensor values, got code that cannot be traced ({str(error)[:200]}); "
            "leave out conditions and loops over tensors"
        ) from None
    builder, results = _GraphBuilder(tracer.root), None
    for node in graph.nodes:
        results = builder.add(node)
    return Graph({"nodes": builder.nodes, "given": results}, builder.tensors)


class Graph(nn.Module):
    """Runs a graph, which maps observations (B, d) to a tuple of tensors. Raises NotExportableError for a graph that exceeds the limits or uses
    operations outside the list."""

    def __init__(self, graph: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        super().__init__()
        self.graph = graph
        nodes = graph.get("nodes")
        if not isinstance(nodes, list) or not 0 < len(nodes) <= NODES_MAX:
            count = len(nodes) if isinstance(nodes, list) else "none"
            raise NotExportableError(f"graph: expected 1 to {NODES_MAX} operations, got {count}")
        for name, arguments, options in nodes:
            if not set(options) <= OPTIONS or len(arguments) > ARGUMENTS_MAX.get(name, len(arguments)):
                raise NotExportableError(
                    f"{name}: expected options among {', '.join(sorted(OPTIONS))}, got {', '.join(sorted(options)) or 'inplace'}; leave the others out"
                )
        for name, values in tensors.items():
            self.register_buffer(name, values.float())
        self._shapes: tuple[tuple[int, ...], ...] | None = None
        """Shapes of the results without the row dimension, once checked."""
        self._shares_rows = False
        self._checked_rows: set[int] = set()
        """Numbers of rows for which the results were checked: they are small enough (a result may grow with the square of the rows), and each depends
        on its own row only."""

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Graph":
        """The inverse of `to_json`; other keys are ignored."""
        return cls(values["graph"], {name: torch.tensor(numbers) for name, numbers in values["numbers"].items()})

    def to_json(self) -> dict[str, Any]:
        """The graph with its constants as text."""
        return {"graph": self.graph, "numbers": {name: values.tolist() for name, values in self.state_dict().items()}}

    def require_few_constants(self, what: str) -> None:
        """Raises NotExportableError if a file cannot store the constants as text."""
        if (count := sum(values.numel() for values in self.state_dict().values())) > CONSTANTS_MAX:
            raise NotExportableError(f"{what}: expected at most {CONSTANTS_MAX:,} constants, got {count:,}")

    def _value(self, argument: Any, tensors: Mapping[str, Tensor | None], results: list[Any]) -> Any:
        if isinstance(argument, list):
            return [self._value(item, tensors, results) for item in argument]
        if not isinstance(argument, dict):
            return argument
        ((kind, value),) = argument.items()
        if kind == "node":
            return results[value]
        if kind == "tensor":
            return tensors[value]
        if kind == "tuple":
            return tuple(self._value(item, tensors, results) for item in value)
        if kind == "slice":
            return slice(*(self._value(item, tensors, results) for item in value))
        return Ellipsis

    def forward(self, observations: Tensor) -> tuple[Tensor, ...]:
        """Maps (B, d) to the results of the graph, (B, ...) each; for a network (B, k) outputs and (B,) values."""
        rows = len(observations)
        try:
            found = self._run(observations, None if rows in self._checked_rows else Limits(rows))
            if rows not in self._checked_rows:
                self._require_own_rows(rows, observations.shape[1])
                self._checked_rows.add(rows)
            shapes = tuple(tuple(values.shape) for values in found)
        except NotExportableError:
            raise
        except Exception as error:  # a graph of another process may fail for some sizes
            raise NotExportableError(f"the graph does not run: {type(error).__name__}: {str(error)[:200]}") from None
        expected = None if self._shapes is None else tuple((rows, *shape) for shape in self._shapes)
        if expected is not None and shapes != expected:
            raise NotExportableError(f"graph: expected numbers of the shapes {expected}, got {shapes}")
        return found

    def _run(self, observations: Tensor, limits: "Limits | None") -> tuple[Tensor, ...]:
        """Runs `forward` within limits; None if these have been checked already."""
        return self._evaluate({**self._buffers, OBSERVATIONS: observations}, limits or result)

    def _evaluate(self, tensors: Mapping[str, Tensor | None], operate: Operate) -> tuple[Tensor, ...]:
        """Evaluates the graph for the observations and constants in `tensors`, with `operate` as the interpretation of its operations."""
        results: list[Any] = []
        for name, arguments, options in self.graph["nodes"]:
            positional = [self._value(argument, tensors, results) for argument in arguments]
            named = {key: self._value(value, tensors, results) for key, value in options.items()}
            results.append(operate(name, positional, named))
        return tuple(self._value(argument, tensors, results) for argument in self.graph["given"])

    def _require_own_rows(self, rows: int, size: int) -> None:
        """Raises NotExportableError if the results of a row depend on other rows of (rows, size) observations: a decision would see the observations of
        others, which may be later on the same day. Whether they do may depend on the number of rows."""
        if self._shares_rows or rows < 2:
            return
        constants = {name: values for name, values in self._buffers.items() if values is not None}
        for labels in (torch.arange(rows), -torch.arange(rows)):
            for least in self._evaluate(labelled(labels, size, constants, OBSERVATIONS), labels_of):
                if not is_own(least, labels):
                    raise NotExportableError(
                        "expected results of a row that depend on this row of the observations alone, got some that depend on others; reduce over the last "
                        "dimension (dim=-1), not over rows"
                    )

    def check(self, rows: int, size: int, *expected: tuple[int, ...], shares_rows: bool = False) -> None:
        """Raises NotExportableError unless the graph runs on (rows, size) observations and returns finite numbers of the expected shapes. shares_rows:
        allows the results of a row to depend on the other rows, now and later."""
        observations = torch.zeros(rows, size)
        try:
            with torch.inference_mode():
                results = self._run(observations, Limits(rows))
            shapes = tuple(tuple(values.shape) for values in results)
            finite = all(bool(torch.isfinite(values).all()) for values in results)
        except NotExportableError:
            raise
        except Exception as error:
            raise NotExportableError(f"the graph does not run: {type(error).__name__}: {str(error)[:200]}") from None
        if shapes != expected or not finite:
            raise NotExportableError(
                f"expected finite numbers of the shapes {expected}, got {shapes}, finite: {finite}"
            )
        self._shares_rows = shares_rows
        self._require_own_rows(rows, size)
        self._shapes = tuple(shape[1:] for shape in expected)
