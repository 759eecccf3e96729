"""Functions of tensors, especially networks, as plain data: operations from a fixed list, and constants. A trusted process can load and run
such data from an untrusted one.

`trace_graph` traces the operations of a module or function by symbolic execution (torch.fx). Operations outside the list, and control flow
that depends on tensor values, raise NotExportableError. A node is [operation, arguments, options]; arguments are numbers, strings, None,
lists, and references to earlier nodes or constants. "given" lists the results.
"""

import math
import operator
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional

from serl.agents.learning.activations import Tanh, tanh
from serl.agents.learning.errors import NotExportableError

NODES_MAX, NUMBERS_MAX = 500, 2**19
"""Operations, and numbers in all their results together, for a batch of one."""
CONSTANTS_MAX = 2**14
"""Constants that a file stores as text, for a graph that is not a network."""
INTEGER_MAX = 2**31
OBSERVATIONS = "observations"
OPTIONS = frozenset(
    {
        "dim",
        "keepdim",
        "approximate",
        "min",
        "max",
        "start_dim",
        "end_dim",
        "negative_slope",
        "alpha",
        "beta",
        "threshold",
        "shape",
        "other",
        "exponent",
    }
)
"""Allowed keyword arguments."""
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "truediv": torch.true_divide, "neg": torch.neg, "pow": torch.pow, "matmul": torch.matmul,
    "getitem": operator.getitem, "linear": functional.linear, "layer_norm": functional.layer_norm,
    "tanh": torch.tanh, "numpy_tanh": tanh, "sigmoid": torch.sigmoid, "relu": functional.relu, "elu": functional.elu, "gelu": functional.gelu,
    "silu": functional.silu, "mish": functional.mish, "softplus": functional.softplus, "leaky_relu": functional.leaky_relu,
    "softmax": functional.softmax, "log_softmax": functional.log_softmax, "exp": torch.exp, "log": torch.log, "log1p": torch.log1p,
    "abs": torch.abs, "sign": torch.sign, "sqrt": torch.sqrt, "square": torch.square, "sin": torch.sin, "cos": torch.cos,
    "clamp": torch.clamp, "minimum": torch.minimum, "maximum": torch.maximum, "cat": torch.cat, "stack": torch.stack, "chunk": torch.chunk, "sum": torch.sum,
    "mean": torch.mean, "squeeze": torch.squeeze, "unsqueeze": torch.unsqueeze, "flatten": torch.flatten, "reshape": torch.reshape,
    "transpose": torch.transpose, "size": Tensor.size, "zeros_like": torch.zeros_like, "ones_like": torch.ones_like,
    "where": torch.where, "gt": torch.gt, "ge": torch.ge, "lt": torch.lt, "le": torch.le,
}  # fmt: skip
BROADCAST = frozenset(
    {"add", "sub", "mul", "truediv", "pow", "clamp", "minimum", "maximum", "where", "gt", "ge", "lt", "le"}
)
"""Operations whose result has the common shape of their tensors."""
ARITHMETIC = {"add", "sub", "mul", "truediv", "neg", "pow"}
"""Operations that are also allowed on Python numbers."""
ALIASES = {"view": "reshape", "div": "truediv", "true_divide": "truediv", "clip": "clamp", "concat": "cat"}
NAMES = {function: name for name, function in FUNCTIONS.items()} | {
    getattr(operator, name): name for name in (*ARITHMETIC, "matmul", "gt", "ge", "lt", "le")
} | {getattr(torch, name): name for name in ("relu", "softmax", "log_softmax")} | {
    torch.clip: "clamp", torch.div: "truediv", torch.concat: "cat", functional.tanh: "tanh", functional.sigmoid: "sigmoid",
}  # fmt: skip
LAYERS: dict[type[nn.Module], tuple[str, tuple[str, ...]]] = {
    nn.Linear: ("linear", ("weight", "bias")), nn.LayerNorm: ("layer_norm", ("normalized_shape", "weight", "bias", "eps")),
    nn.Tanh: ("tanh", ()), Tanh: ("numpy_tanh", ()), nn.Sigmoid: ("sigmoid", ()), nn.ReLU: ("relu", ()), nn.ELU: ("elu", ("alpha",)), nn.GELU: ("gelu", ()),
    nn.SiLU: ("silu", ()), nn.Mish: ("mish", ()), nn.Softplus: ("softplus", ("beta", "threshold")),
    nn.LeakyReLU: ("leaky_relu", ("negative_slope",)), nn.Softmax: ("softmax", ("dim",)), nn.Flatten: ("flatten", ("start_dim", "end_dim")),
}  # fmt: skip
"""Operation of each layer, and the layer's attributes that are its further arguments."""
IDENTITY_LAYERS = (nn.Identity, nn.Dropout)


TRACING = threading.Lock()
"""torch.fx replaces methods of nn.Module, for all threads, while it traces; of two traces at once, the later would restore those of the other."""


class _Tracer(fx.Tracer):
    """Traces its own thread alone: the networks of others compute as ever."""

    def __init__(self) -> None:
        super().__init__()
        self._thread = threading.get_ident()

    def call_module(
        self, m: nn.Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """The call of a module, by any thread."""
        if threading.get_ident() != self._thread:
            return forward(*args, **kwargs)
        return super().call_module(m, forward, args, kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """An attribute that any thread has read."""
        if threading.get_ident() != self._thread:
            return attr_val
        return super().getattr(attr, attr_val, parameter_proxy_cache)

    def is_leaf_module(self, module: nn.Module, name: str) -> bool:
        """Known layers are single operations; the tracer enters all other modules."""
        return type(module) in LAYERS or isinstance(module, IDENTITY_LAYERS)


class _GraphBuilder:
    """Translates nodes of torch.fx to the nodes of a graph."""

    def __init__(self, module: nn.Module) -> None:
        self.module, self.nodes, self.tensors = module, list[list[Any]](), dict[str, Tensor]()
        self._references: dict[Any, Any] = {}

    def _tensor(self, name: str, value: Tensor) -> dict[str, Any]:
        key = name.replace(".", "_")
        self.tensors[key] = value.detach()
        return {"tensor": key}

    def _argument(self, value: Any) -> Any:
        """An argument as plain data."""
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
        self.nodes.append([name, values, {key: self._argument(value) for key, value in options.items()}])
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
    """The graph of a module or function that maps observations to one or several tensors, with the same results. NotExportableError if it
    has none."""
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
    """Runs a graph: observations (B, d) to a tuple of tensors. NotExportableError for a graph outside the limits and lists of this module."""

    def __init__(self, graph: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        super().__init__()
        self.graph = graph
        nodes = graph.get("nodes")
        if not isinstance(nodes, list) or not 0 < len(nodes) <= NODES_MAX:
            count = len(nodes) if isinstance(nodes, list) else "none"
            raise NotExportableError(f"graph: expected 1 to {NODES_MAX} operations, got {count}")
        for name, values in tensors.items():
            self.register_buffer(name, values.float())
        self._shapes: tuple[tuple[int, ...], ...] | None = None
        """Shapes of the results without their rows, once they are checked."""
        self._guarded_rows: set[int] = set()
        """Numbers of rows whose results have been found small enough: a result may grow with the square of the rows."""

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Graph":
        """The inverse of `to_json`; other keys are ignored."""
        return cls(values["graph"], {name: torch.tensor(numbers) for name, numbers in values["numbers"].items()})

    def to_json(self) -> dict[str, Any]:
        """The graph with its constants as text."""
        return {"graph": self.graph, "numbers": {name: values.tolist() for name, values in self.state_dict().items()}}

    def require_few_constants(self, what: str) -> None:
        """NotExportableError if a file cannot store the constants as text."""
        if (count := sum(values.numel() for values in self.state_dict().values())) > CONSTANTS_MAX:
            raise NotExportableError(f"{what}: expected at most {CONSTANTS_MAX:,} constants, got {count:,}")

    def _value(self, argument: Any, observations: Tensor, results: list[Any]) -> Any:
        if isinstance(argument, list):
            return [self._value(item, observations, results) for item in argument]
        if not isinstance(argument, dict):
            return argument
        ((kind, value),) = argument.items()
        if kind == "node":
            return results[value]
        if kind == "tensor":
            return observations if value == OBSERVATIONS else self._buffers[value]
        if kind == "tuple":
            return tuple(self._value(item, observations, results) for item in value)
        if kind == "slice":
            return slice(*(self._value(item, observations, results) for item in value))
        return Ellipsis

    def forward(self, observations: Tensor) -> tuple[Tensor, ...]:
        """(B, d) to the results of the graph, (B, ...) each; for a network (B, k) outputs and (B,) values."""
        try:
            found = self._run(observations, guarded=len(observations) not in self._guarded_rows)
            self._guarded_rows.add(len(observations))
            shapes = tuple(tuple(values.shape) for values in found)
        except NotExportableError:
            raise
        except Exception as error:  # a graph of another process may fail for some sizes only
            raise NotExportableError(f"the graph does not run: {type(error).__name__}: {str(error)[:200]}") from None
        expected = None if self._shapes is None else tuple((len(observations), *shape) for shape in self._shapes)
        if expected is not None and shapes != expected:
            raise NotExportableError(f"graph: expected numbers of the shapes {expected}, got {shapes}")
        return found

    def _run(self, observations: Tensor, guarded: bool) -> tuple[Tensor, ...]:
        """`forward`; if guarded, no operation runs whose result would be too large."""
        results: list[Any] = []
        budget = NUMBERS_MAX * max(1, len(observations))
        for name, arguments, options in self.graph["nodes"]:
            positional = [self._value(argument, observations, results) for argument in arguments]
            named = {key: self._value(value, observations, results) for key, value in options.items()}
            if not set(named) <= OPTIONS:
                raise NotExportableError(
                    f"{name}: expected options among {', '.join(sorted(OPTIONS))}, got {', '.join(sorted(named))}"
                )
            if not guarded or numbers_at_most(name, positional, named) <= budget:
                results.append(_result(name, positional, named))
                budget -= results[-1].numel() if isinstance(results[-1], Tensor) else 0
            else:
                budget = -1
            if budget < 0:
                raise NotExportableError(
                    f"{name}: expected at most {NUMBERS_MAX:,} numbers per observation in all results, got more; use a smaller network"
                )
        return tuple(self._value(argument, observations, results) for argument in self.graph["given"])

    def check(self, rows: int, size: int, *expected: tuple[int, ...]) -> None:
        """NotExportableError unless it runs on (rows, size) observations and returns finite numbers of the expected shapes."""
        observations = torch.zeros(rows, size)
        try:
            with torch.inference_mode():
                results = self._run(observations, guarded=True)
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
        self._shapes = tuple(shape[1:] for shape in expected)


def _tensors(value: Any) -> Iterator[Tensor]:
    """The tensors in an argument."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, slice):
        yield from _tensors([value.start, value.stop, value.step])
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


def _common_shape(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape to which tensors of these shapes are broadcast."""
    return tuple(max(sizes) for sizes in zip_longest(*(shape[::-1] for shape in shapes), fillvalue=1))[::-1]


def _listed(index: Any) -> int:
    """How often the lists of an index can repeat a number."""
    if isinstance(index, tuple):
        return math.prod(map(_listed, index))
    return sum(map(_listed, index)) if isinstance(index, list) else 1


def numbers_at_most(name: str, arguments: list[Any], named: dict[str, Any]) -> int:
    """The numbers in the result of an operation, before it runs; 0 for those that never return more numbers than they get.
    (On PyTorch's device `meta` a first operation takes a second of imports.) NotExportableError if that depends on values."""
    tensors = list(_tensors([*arguments, *named.values()]))
    shapes = [tuple(tensor.shape) for tensor in tensors]
    if name in ("cat", "stack"):
        return sum(math.prod(shape) for shape in shapes)
    if name in ("matmul", "linear") and len(shapes) > 1:
        left, right, *bias = shapes
        right = right[::-1] if name == "linear" else right
        columns = right[-1:] if len(right) > 1 else ()
        made = (*_common_shape(left[:-2], right[:-2]), *left[-2:-1], *columns)
        return math.prod(_common_shape(made, *bias))
    choice = name == "getitem" and next(_tensors(arguments[1:]), None) is not None
    if choice or (name == "where" and len(arguments) + len(named) < 3):
        raise NotExportableError(f"{name}: expected a result whose shape depends on no value, got a choice by a tensor")
    if name == "getitem" and shapes:
        return math.prod(shapes[0]) * _listed(arguments[1])
    return math.prod(_common_shape(*shapes)) if name in BROADCAST else 0


def _result(name: str, arguments: list[Any], named: dict[str, Any]) -> Any:
    """The result of one operation."""
    if name not in ARITHMETIC or isinstance(arguments[0], Tensor):
        return FUNCTIONS[name](*arguments, **named)
    if any(isinstance(value, Tensor) for value in arguments):
        return FUNCTIONS[name](torch.tensor(arguments[0]), *arguments[1:])
    numbers = all(isinstance(value, int | float) and abs(value) < INTEGER_MAX for value in arguments)
    if not numbers or name == "pow":
        raise NotExportableError(
            f"{name}: expected Python numbers below {INTEGER_MAX:,} and no powers of them, got others; use tensors"
        )
    return getattr(operator, name)(*arguments)
