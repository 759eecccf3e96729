"""Functions of tensors, networks above all, as plain data: operations from a fixed list, and numbers. What comes out of an untrusted process
as such data can be loaded and run by a trusted one.

`traced` reads the operations off a module or function by symbolic execution (torch.fx); what is not on the list, or depends on the numbers that
flow through it, is a NotExportableError. A node is [operation, arguments]; arguments are numbers, words, None, lists, and references to what came before.
"""

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional

from serl.agents.learning.errors import NotExportableError

NODES_MAX, NUMBERS_MAX = 500, 2**19
"""Operations, and numbers of all their results together for a batch of one."""
PLAIN_MAX = 2**31
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
"""Arguments by name."""
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "truediv": torch.true_divide, "neg": torch.neg, "pow": torch.pow, "matmul": torch.matmul,
    "getitem": operator.getitem, "linear": functional.linear, "layer_norm": functional.layer_norm,
    "tanh": torch.tanh, "sigmoid": torch.sigmoid, "relu": functional.relu, "elu": functional.elu, "gelu": functional.gelu,
    "silu": functional.silu, "mish": functional.mish, "softplus": functional.softplus, "leaky_relu": functional.leaky_relu,
    "softmax": functional.softmax, "log_softmax": functional.log_softmax, "exp": torch.exp, "log": torch.log, "log1p": torch.log1p,
    "abs": torch.abs, "sign": torch.sign, "sqrt": torch.sqrt, "square": torch.square, "sin": torch.sin, "cos": torch.cos,
    "clamp": torch.clamp, "minimum": torch.minimum, "maximum": torch.maximum, "cat": torch.cat, "stack": torch.stack, "chunk": torch.chunk, "sum": torch.sum,
    "mean": torch.mean, "squeeze": torch.squeeze, "unsqueeze": torch.unsqueeze, "flatten": torch.flatten, "reshape": torch.reshape,
    "transpose": torch.transpose, "size": Tensor.size,
}  # fmt: skip
ARITHMETIC = {"add", "sub", "mul", "truediv", "neg", "pow"}
"""Also of plain numbers."""
ALIASES = {"view": "reshape", "div": "truediv", "true_divide": "truediv", "clip": "clamp", "concat": "cat"}
NAMES = {function: name for name, function in FUNCTIONS.items()} | {
    getattr(operator, name): name for name in (*ARITHMETIC, "matmul")
} | {getattr(torch, name): name for name in ("relu", "softmax", "log_softmax")} | {
    torch.clip: "clamp", torch.div: "truediv", torch.concat: "cat", functional.tanh: "tanh", functional.sigmoid: "sigmoid",
}  # fmt: skip
LAYERS: dict[type[nn.Module], tuple[str, tuple[str, ...]]] = {
    nn.Linear: ("linear", ("weight", "bias")), nn.LayerNorm: ("layer_norm", ("normalized_shape", "weight", "bias", "eps")),
    nn.Tanh: ("tanh", ()), nn.Sigmoid: ("sigmoid", ()), nn.ReLU: ("relu", ()), nn.ELU: ("elu", ("alpha",)), nn.GELU: ("gelu", ()),
    nn.SiLU: ("silu", ()), nn.Mish: ("mish", ()), nn.Softplus: ("softplus", ("beta", "threshold")),
    nn.LeakyReLU: ("leaky_relu", ("negative_slope",)), nn.Softmax: ("softmax", ("dim",)), nn.Flatten: ("flatten", ("start_dim", "end_dim")),
}  # fmt: skip
"""Of a layer: the operation, and its attributes as further arguments."""
NOTHING = (nn.Identity, nn.Dropout)


class _Tracer(fx.Tracer):  # type: ignore[misc]
    def is_leaf_module(self, module: nn.Module, name: str) -> bool:
        """Known layers are one operation; all others are looked into."""
        return type(module) in LAYERS or isinstance(module, NOTHING)


class _Writer:
    """From nodes of torch.fx to ours."""

    def __init__(self, module: nn.Module) -> None:
        self.module, self.nodes, self.tensors = module, list[list[Any]](), dict[str, Tensor]()
        self._places: dict[Any, Any] = {}

    def _tensor(self, name: str, value: Tensor) -> dict[str, Any]:
        key = name.replace(".", "_")
        self.tensors[key] = value.detach()
        return {"tensor": key}

    def _argument(self, value: Any) -> Any:
        """As plain data."""
        if isinstance(value, fx.Node):
            return self._places[value]
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
        raise NotExportableError(f"a number is due as argument of an operation, got {type(value).__name__}")

    def _put(self, node: fx.Node, name: str, *arguments: Any, **options: Any) -> None:
        given = [self._argument(argument) for argument in arguments]
        self.nodes.append([name, given, {key: self._argument(value) for key, value in options.items()}])
        self._places[node] = {"node": len(self.nodes) - 1}

    def _layer(self, node: fx.Node) -> None:
        layer = self.module.get_submodule(str(node.target))
        if isinstance(layer, NOTHING):
            self._places[node] = self._places[node.args[0]]
            return
        name, attributes = LAYERS[type(layer)]
        given = []
        for attribute in attributes:
            value = getattr(layer, attribute)
            tensor = isinstance(value, Tensor)
            given.append(self._tensor(f"{node.target}.{attribute}", value) if tensor else self._argument(value))
        options = {"approximate": layer.approximate} if isinstance(layer, nn.GELU) else {}
        self._put(node, name, *node.args, **options)
        self.nodes[-1][1] += given

    def write(self, node: fx.Node) -> Any:
        """Takes in one node; of the last, what is given."""
        if node.op == "get_attr":
            value = operator.attrgetter(str(node.target))(self.module)
            self._places[node] = self._tensor(str(node.target), value)
        elif node.op == "call_module":
            self._layer(node)
        elif node.op == "output":
            given = node.args[0]
            return [self._argument(item) for item in (given if isinstance(given, tuple | list) else (given,))]
        elif node.op == "placeholder":
            if self._places:
                raise NotExportableError(
                    f"one argument, the observations, is due; got also {node.target!r}: leave it out"
                )
            self._places[node] = {"tensor": OBSERVATIONS}
        else:
            target = node.target
            name = NAMES.get(target) if node.op == "call_function" else ALIASES.get(str(target), str(target))
            if name not in FUNCTIONS:
                known = ", ".join(sorted(FUNCTIONS))
                raise NotExportableError(
                    f"the code uses {getattr(target, '__name__', target)!r}; a policy is made of {known}, and the layers "
                    f"{', '.join(kind.__name__ for kind in LAYERS)}"
                )
            arguments = node.args
            if name == "reshape" and len(arguments) > 1 and not isinstance(arguments[1], tuple | list):
                arguments = (arguments[0], tuple(arguments[1:]))
            self._put(node, name, *arguments, **node.kwargs)
        return None


def traced(function: nn.Module | Callable[[Any], Any]) -> "Graph":
    """The module or function (observations to a tensor, or to several) as a graph with the same numbers. NotExportableError if it cannot
    be one."""
    tracer = _Tracer()
    try:
        graph = tracer.trace(function)
    except Exception as error:
        raise NotExportableError(
            f"the operations depend on the numbers that flow through them, or cannot be followed ({str(error)[:200]}); "
            "leave out conditions and loops over tensors"
        ) from None
    writer, given = _Writer(tracer.root), None
    for node in graph.nodes:
        given = writer.write(node)
    return Graph({"nodes": writer.nodes, "given": given}, writer.tensors)


class Graph(nn.Module):  # type: ignore[misc]
    """Runs a graph: observations (B, d) to a tuple of tensors. NotExportableError unless it is made of what is on the list."""

    def __init__(self, graph: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        super().__init__()
        self.graph = graph
        nodes = graph.get("nodes")
        if not isinstance(nodes, list) or not 0 < len(nodes) <= NODES_MAX:
            raise NotExportableError(f"1 to {NODES_MAX} operations are due")
        for name, values in tensors.items():
            self.register_buffer(name, values.float())

    def _value(self, argument: Any, seen: Tensor, done: list[Any]) -> Any:
        if isinstance(argument, list):
            return [self._value(item, seen, done) for item in argument]
        if not isinstance(argument, dict):
            return argument
        ((kind, value),) = argument.items()
        if kind == "node":
            return done[value]
        if kind == "tensor":
            return seen if value == OBSERVATIONS else self._buffers[value]
        if kind == "tuple":
            return tuple(self._value(item, seen, done) for item in value)
        if kind == "slice":
            return slice(*(self._value(item, seen, done) for item in value))
        return Ellipsis

    def forward(self, observations: Tensor) -> tuple[Tensor, ...]:
        """(B, d) to what the graph gives; of a network (B, k) outputs and (B,) values."""
        done: list[Any] = []
        left = NUMBERS_MAX * max(1, len(observations))
        for name, arguments, options in self.graph["nodes"]:
            given = [self._value(argument, observations, done) for argument in arguments]
            named = {key: self._value(value, observations, done) for key, value in options.items()}
            if not set(named) <= OPTIONS:
                raise NotExportableError(
                    f"{name}: options among {', '.join(sorted(OPTIONS))} are due, got {sorted(named)}"
                )
            done.append(_result(name, given, named, observations.device))
            left -= done[-1].numel() if isinstance(done[-1], Tensor) else 0
            if left < 0:
                raise NotExportableError(f"{name}: at most {NUMBERS_MAX:,} numbers an observation are due in all")
        return tuple(self._value(argument, observations, done) for argument in self.graph["given"])

    def check(self, rows: int, size: int, *due: tuple[int, ...]) -> None:
        """NotExportableError unless it runs on (rows, size) and gives finite numbers of the shapes `due`."""
        twin = Graph(self.graph, {name: value.to("meta") for name, value in self.state_dict().items()})
        seen = torch.zeros(rows, size)
        try:
            twin(seen.to("meta"))  # shapes only: whatever a graph asks for, no memory is taken
            with torch.inference_mode():
                given = self(seen)
            shapes = tuple(tuple(values.shape) for values in given)
            finite = all(bool(torch.isfinite(values).all()) for values in given)
        except NotExportableError:
            raise
        except Exception as error:
            raise NotExportableError(f"the graph cannot be run: {type(error).__name__}: {str(error)[:200]}") from None
        if shapes != due or not finite:
            raise NotExportableError(f"finite numbers of the shapes {due} are due, got {shapes}, finite: {finite}")


def _result(name: str, given: list[Any], named: dict[str, Any], device: torch.device) -> Any:
    """Of one operation."""
    if name not in ARITHMETIC or isinstance(given[0], Tensor):
        return FUNCTIONS[name](*given, **named)
    if any(isinstance(value, Tensor) for value in given):
        return FUNCTIONS[name](torch.tensor(given[0], device=device), *given[1:])
    plain = all(isinstance(value, int | float) and abs(value) < PLAIN_MAX for value in given)
    if not plain or name == "pow":
        raise NotExportableError(f"{name}: plain numbers below {PLAIN_MAX:,}, and no power of them, are due")
    return getattr(operator, name)(*given)
