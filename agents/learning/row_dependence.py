"""Finds which rows of the observations the rows of a graph's results depend on (graphs.py), from its operations alone, for any values.

Every number of the observations is replaced by the label of its row, and every operation by one that returns the least label of all numbers that
its result depends on. Constants have the label NONE.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import torch
from torch import Tensor

from serl.agents.learning.graph_operations import FUNCTIONS, result, tensors_in

NONE = 2**40
"""The label of numbers that depend on no row; larger than all others."""
ELEMENTWISE = (
    "add", "sub", "mul", "truediv", "neg", "pow", "tanh", "numpy_tanh", "sigmoid", "relu", "elu", "gelu", "silu", "mish", "softplus", "leaky_relu", "exp",
    "log", "log1p", "abs", "sign", "sqrt", "square", "sin", "cos", "clamp", "minimum", "maximum", "where", "gt", "ge", "lt", "le",
)  # fmt: skip


def _least(*arguments: Any, **named: Any) -> Tensor:
    """The least labels of tensors after broadcasting."""
    return reduce(torch.minimum, [value for value in (*arguments, *named.values()) if isinstance(value, Tensor)])


def _no_labels(labels: Tensor) -> Tensor:
    return torch.full_like(labels, NONE)


def _reduced(labels: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    return labels.amin() if dim is None else labels.amin(dim, keepdim)


def _softmax(labels: Tensor, dim: Any = None) -> Tensor:
    return (labels.amin() if dim is None else labels.amin(dim, True)).expand_as(labels)


def _layer_norm(labels: Tensor, shape: Sequence[int], *others: Any) -> Tensor:
    return _least(labels.amin(tuple(range(-len(shape), 0)), True).expand_as(labels), *others)


def _matmul(left: Tensor, right: Tensor) -> Tensor:
    rows = (left if left.dim() > 1 else left[None]).amin(-1, True)
    columns = (right if right.dim() > 1 else right[:, None]).amin(-2, True)
    least = torch.minimum(rows, columns)
    least = least.squeeze(-2) if left.dim() == 1 else least
    return least.squeeze(-1) if right.dim() == 1 else least


def _linear(labels: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return _least(_matmul(labels, weight.mT if weight.dim() > 1 else weight), bias)


LEAST: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(ELEMENTWISE, _least),
    **dict.fromkeys(("zeros_like", "ones_like"), _no_labels),
    **dict.fromkeys(("sum", "mean"), _reduced),
    **dict.fromkeys(("softmax", "log_softmax"), _softmax),
    "layer_norm": _layer_norm,
    "matmul": _matmul,
    "linear": _linear,
}
"""The operations on labels. All other operations only move numbers, and move labels the same way."""


def labels_of(name: str, arguments: list[Any], named: dict[str, Any]) -> Any:
    """The labels of an operation's result; arguments are labels, or numbers that depend on no values."""
    has_labels = next(tensors_in([*arguments, *named.values()]), None) is not None
    return LEAST.get(name, FUNCTIONS[name])(*arguments, **named) if has_labels else result(name, arguments, named)


def labelled(labels: Tensor, size: int, constants: dict[str, Tensor], name: str) -> dict[str, Tensor]:
    """The tensors of a graph, with labels instead of values. labels: (B,) labels of the rows. name: name of the observations."""
    tensors = {each: torch.full(values.shape, NONE) for each, values in constants.items()}
    return tensors | {name: labels[:, None].expand(-1, size)}


def is_own(least: Tensor, labels: Tensor) -> bool:
    """Whether no row of a result depends on a row with a lower label than its own. least: (B, ...); labels: (B,)."""
    return bool((least >= labels.reshape(-1, *[1] * (least.dim() - 1))).all())
