"""The trial of a network."""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from serl.agents.learning.errors import NotExportableError
from serl.agents.learning.graphs import trace_graph
from serl.researcher.modules import checks
from serl.researcher.modules.contracts import Floats
from serl.researcher.modules.errors import ModuleError
from serl.researcher.validation.findings import Finding, Reason

PARAMETERS_MAX = 1_000_000
FORWARD_MS_MAX, FORWARDS = 50, 5
CLOSE = 1e-4
"""Between a row alone and the same row in a batch: sums of float32 in another order."""


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """More threads make so small a network slower, on a busy machine a hundred times."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@_one_thread()
def agent(build: Callable[[int, int], Any], observations: Floats, action_dim: int, seed: int) -> list[Finding]:
    """What is wrong with a network for recorded observations (B, d). ModuleError for wrong types and shapes."""
    seen = torch.from_numpy(observations.copy()).float()
    torch.manual_seed(seed)
    network = _network(build(seen.shape[1], action_dim))
    torch.manual_seed(seed)
    twin = _network(build(seen.shape[1], action_dim))
    outputs, values = _forward(network, seen, action_dim)
    findings = []
    for other, size in ((network, len(seen)), (twin, len(seen)), (network, len(seen) // 2)):
        findings += _compare(outputs, values, _forward(other, seen[:size], action_dim), size)
    findings += _speed(network, seen)
    for what, given in (("outputs of the policy", outputs), ("values", values)):
        if float((given - given[0]).detach().abs().max()) <= 1e-9:
            findings.append(
                Finding(
                    Reason.NO_SIGNAL, f"no signal: the {what} are the same for every observation; use the observations"
                )
            )
    findings += _gradients(network, outputs, values)
    return [*dict.fromkeys([*findings, *_exported(network, seen, (outputs, values))])]


def _exported(network: nn.Module, seen: Tensor, before: tuple[Tensor, Tensor]) -> list[Finding]:
    """Findings unless the network as data gives the same."""
    try:
        given = trace_graph(network)(seen)
    except NotExportableError as error:
        return [Finding(Reason.NOT_EXPORTABLE, str(error))]
    return _compare(*before, (given[0], given[1]), len(seen))


def _network(network: Any) -> nn.Module:
    if not isinstance(network, nn.Module):
        raise ModuleError(f"build: a torch.nn.Module is due, got {type(network).__name__}")
    count = sum(parameter.numel() for parameter in network.parameters())
    if not 0 < count <= PARAMETERS_MAX:
        raise ModuleError(f"build: a network of 1 to {PARAMETERS_MAX:,} parameters is due, got {count:,}")
    return network


def _forward(network: nn.Module, seen: Tensor, action_dim: int) -> tuple[Tensor, Tensor]:
    given = network(seen)
    if not isinstance(given, tuple) or len(given) != 2 or not all(isinstance(part, Tensor) for part in given):
        raise ModuleError(f"forward: a pair of tensors (policy outputs, values) is due, got {type(given).__name__}")
    outputs, values = given
    checks.numbers(outputs.detach().numpy(), (len(seen), action_dim), "forward: the policy outputs")
    checks.numbers(values.detach().numpy(), (len(seen),), "forward: the values")
    return outputs, values


def _speed(network: nn.Module, seen: Tensor) -> list[Finding]:
    times = []
    for _ in range(FORWARDS):
        began = time.perf_counter()
        network(seen)
        times.append((time.perf_counter() - began) * 1e3)
    took_ms = min(times)  # others share the machine
    if took_ms <= FORWARD_MS_MAX:
        return []
    text = f"forward takes {took_ms:.0f} ms for {len(seen)} observations, at most {FORWARD_MS_MAX} are allowed; make it smaller"
    return [Finding(Reason.SLOW, text)]


def _compare(outputs: Tensor, values: Tensor, other: tuple[Tensor, Tensor], size: int) -> list[Finding]:
    """Findings unless another pass gave the same for the first `size` observations."""
    differ = any(
        not torch.allclose(one[:size], two, rtol=CLOSE, atol=CLOSE)
        for one, two in zip((outputs, values), other, strict=True)
    )
    if not differ:
        return []
    text = (
        "the network gives different outputs for the same observation and seed, or in another batch; leave out dropout and batch "
        "normalisation, keep no state"
    )
    return [Finding(Reason.NOT_DETERMINISTIC, text)]


def _gradients(network: nn.Module, outputs: Tensor, values: Tensor) -> list[Finding]:
    """Findings unless gradients of policy and value are there, finite, and reach every parameter."""
    named = [(name, parameter) for name, parameter in network.named_parameters() if parameter.requires_grad]
    reached: set[str] = set()
    for what, given in (("policy outputs", outputs), ("values", values)):
        if not given.requires_grad or not named:
            return [
                Finding(Reason.NO_GRADIENT, f"no gradient flows from the {what} to the parameters; do not detach them")
            ]
        loss = (given * torch.linspace(0.5, 1.5, given.numel()).reshape(given.shape)).sum()
        slopes = torch.autograd.grad(loss, [each for _, each in named], allow_unused=True, retain_graph=True)
        found = {name: slope for (name, _), slope in zip(named, slopes, strict=True) if slope is not None}
        if not all(torch.isfinite(slope).all() for slope in found.values()):
            return [
                Finding(
                    Reason.NO_GRADIENT, f"the gradient of the {what} is not finite; avoid roots and logarithms at 0"
                )
            ]
        if not any(slope.abs().max() > 0 for slope in found.values()):
            return [Finding(Reason.NO_GRADIENT, f"the gradient of the {what} is 0; do not saturate or detach them")]
        reached |= set(found)
    unused = [name for name, _ in named if name not in reached]
    if unused:
        return [
            Finding(
                Reason.NO_GRADIENT,
                f"no gradient reaches {', '.join(unused[:5])}; use these parameters in forward or remove them",
            )
        ]
    return []
