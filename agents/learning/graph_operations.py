"""The operations of graphs (graphs.py): their names, their execution, and limits on the size of their results."""

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from serl.agents.learning.activations import Tanh, tanh
from serl.agents.learning.errors import NotExportableError

NODES_MAX, NUMBERS_MAX = 500, 2**19
"""Limits of operations, and of numbers in all results together, for a batch of one."""
PRODUCTS_MAX = 2**24
"""Limit of products in all matrix multiplications together, for a batch of one: about a millisecond."""
CONSTANTS_MAX = 2**14
"""Limit of constants that a file stores as text, for a graph that is not a network."""
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
ARGUMENTS_MAX = {"relu": 1, "silu": 1, "mish": 1, "elu": 2, "leaky_relu": 2}
"""Number of arguments before `inplace`, which would let an operation change observations or constants."""
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
"""Operations whose result has the broadcast shape of their tensors."""
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
"""The operation of each layer, and the layer's attributes that are further arguments of the operation."""
IDENTITY_LAYERS = (nn.Identity, nn.Dropout)


def tensors_in(value: Any) -> Iterator[Tensor]:
    """The tensors in an argument."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, slice):
        yield from tensors_in([value.start, value.stop, value.step])
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)


def _common_shape(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape to which tensors of these shapes are broadcast."""
    return tuple(max(sizes) for sizes in zip_longest(*(shape[::-1] for shape in shapes), fillvalue=1))[::-1]


def _listed(index: Any) -> int:
    """How many times the lists in an index can repeat a number."""
    if isinstance(index, tuple):
        return math.prod(map(_listed, index))
    return sum(map(_listed, index)) if isinstance(index, list) else 1


def numbers_at_most(name: str, arguments: list[Any], named: dict[str, Any]) -> int:
    """The most numbers that the result of an operation can have, before it runs; 0 for operations that never return more numbers than they get.
    Raises NotExportableError if this depends on values. (PyTorch's device `meta` is not used: its first operation takes a second of imports.)"""
    tensors = list(tensors_in([*arguments, *named.values()]))
    shapes = [tuple(tensor.shape) for tensor in tensors]
    if name in ("cat", "stack"):
        return sum(math.prod(shape) for shape in shapes)
    if name in ("matmul", "linear") and len(shapes) > 1:
        left, right, *bias = shapes
        right = right[::-1] if name == "linear" else right
        columns = right[-1:] if len(right) > 1 else ()
        made = (*_common_shape(left[:-2], right[:-2]), *left[-2:-1], *columns)
        return math.prod(_common_shape(made, *bias))
    choice = name == "getitem" and next(tensors_in(arguments[1:]), None) is not None
    if choice or (name == "where" and len(arguments) + len(named) < 3):
        raise NotExportableError(f"{name}: expected a result whose shape depends on no value, got a choice by a tensor")
    if name == "getitem" and shapes:
        return math.prod(shapes[0]) * _listed(arguments[1])
    return math.prod(_common_shape(*shapes)) if name in BROADCAST else 0


class Limits:
    """Runs operations unless they would have too many results or multiplications."""

    def __init__(self, rows: int) -> None:
        self._numbers, self._products = NUMBERS_MAX * max(1, rows), PRODUCTS_MAX * max(1, rows)

    def __call__(self, name: str, arguments: list[Any], named: dict[str, Any]) -> Any:
        """The result. Raises NotExportableError if a limit is exceeded."""
        count = numbers_at_most(name, arguments, named)
        if name in ("matmul", "linear"):
            self._products -= count * arguments[0].shape[-1]
        made = result(name, arguments, named) if count <= self._numbers and self._products >= 0 else None
        self._numbers -= count if made is None else made.numel() if isinstance(made, Tensor) else 0
        if self._numbers < 0 or self._products < 0:
            raise NotExportableError(
                f"{name}: expected at most {NUMBERS_MAX:,} numbers per observation in all results, and {PRODUCTS_MAX:,} products, got more; use a smaller "
                "network"
            )
        return made


def result(name: str, arguments: list[Any], named: dict[str, Any]) -> Any:
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
