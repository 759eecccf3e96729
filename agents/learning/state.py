"""The state of learners as flat dictionaries of tensors, which safetensors files hold."""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor


def named(prefix: str, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a part of a learner, with the prefix before their names."""
    return {prefix + name: tensor for name, tensor in state.items()}


def part(prefix: str, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin with the prefix, without it: the reverse of `named`."""
    return {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}


def adam_state(optimiser: torch.optim.Adam) -> dict[str, Tensor]:
    """Step counts and moments of all parameters; empty before the first step."""
    states = optimiser.state_dict()["state"]
    return {f"{index}.{name}": tensor for index, state in states.items() for name, tensor in state.items()}


def load_adam_state(optimiser: torch.optim.Adam, state: Mapping[str, Tensor]) -> None:
    """Restores what `adam_state` returned, in an optimiser with the same parameters."""
    states = {index: part(f"{index}.", state) for index in _numbers(state)}
    optimiser.load_state_dict({"state": states, "param_groups": optimiser.state_dict()["param_groups"]})


def _numbers(names: Iterable[str]) -> list[int]:
    return sorted({int(name.partition(".")[0]) for name in names})
