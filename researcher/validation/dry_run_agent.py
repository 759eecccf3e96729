"""Dry run of a network."""

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
"""Tolerance between a row alone and the same row in a batch: float32 sums in another order."""


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Use one thread: more threads make a small network slower, on a busy machine a hundred times slower."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@_one_thread()
def dry_run_agent(build: Callable[[int, int], Any], observations: Floats, action_dim: int, seed: int) -> list[Finding]:
    """The findings on a network for recorded observations (batch, d). ModuleError for wrong types and shapes."""
    inputs = torch.from_numpy(observations.copy()).float()
    torch.manual_seed(seed)
    network = _network(build(inputs.shape[1], action_dim))
    torch.manual_seed(seed)
    twin = _network(build(inputs.shape[1], action_dim))
    outputs, values = _forward(network, inputs, action_dim)
    findings = []
    for other, size in ((network, len(inputs)), (twin, len(inputs)), (network, len(inputs) // 2)):
        findings += _compare(outputs, values, _forward(other, inputs[:size], action_dim), size)
    findings += _speed(network, inputs)
    for what, tensor in (("outputs of the policy", outputs), ("values", values)):
        if float((tensor - tensor[0]).detach().abs().max()) <= 1e-9:
            findings.append(
                Finding(
                    Reason.NO_SIGNAL, f"no signal: the {what} are the same for every observation; use the observations"
                )
            )
    findings += _gradients(network, outputs, values)
    return [*dict.fromkeys([*findings, *_exported(network, inputs, (outputs, values))])]


def _exported(network: nn.Module, inputs: Tensor, before: tuple[Tensor, Tensor]) -> list[Finding]:
    """Findings unless the traced network gives the same outputs."""
    try:
        traced_outputs = trace_graph(network)(inputs)
    except NotExportableError as error:
        return [Finding(Reason.NOT_EXPORTABLE, str(error))]
    return _compare(*before, (traced_outputs[0], traced_outputs[1]), len(inputs))


def _network(network: Any) -> nn.Module:
    if not isinstance(network, nn.Module):
        raise ModuleError(f"build: expected a torch.nn.Module, got {type(network).__name__}")
    count = sum(parameter.numel() for parameter in network.parameters())
    if not 0 < count <= PARAMETERS_MAX:
        raise ModuleError(f"build: expected a network of 1 to {PARAMETERS_MAX:,} parameters, got {count:,}")
    return network


def _forward(network: nn.Module, inputs: Tensor, action_dim: int) -> tuple[Tensor, Tensor]:
    result = network(inputs)
    if not isinstance(result, tuple) or len(result) != 2 or not all(isinstance(part, Tensor) for part in result):
        raise ModuleError(f"forward: expected a pair of tensors (policy outputs, values), got {type(result).__name__}")
    outputs, values = result
    checks.numbers(outputs.detach().numpy(), (len(inputs), action_dim), "forward: the policy outputs")
    checks.numbers(values.detach().numpy(), (len(inputs),), "forward: the values")
    return outputs, values


def _speed(network: nn.Module, inputs: Tensor) -> list[Finding]:
    times = []
    for _ in range(FORWARDS):
        began = time.perf_counter()
        network(inputs)
        times.append((time.perf_counter() - began) * 1e3)
    took_ms = min(times)  # the fastest call: other processes share the machine
    if took_ms <= FORWARD_MS_MAX:
        return []
    text = f"forward takes {took_ms:.0f} ms for {len(inputs)} observations, the limit is {FORWARD_MS_MAX} ms; make the network smaller"
    return [Finding(Reason.SLOW, text)]


def _compare(outputs: Tensor, values: Tensor, other: tuple[Tensor, Tensor], size: int) -> list[Finding]:
    """Findings unless another pass gave the same outputs for the first `size` observations."""
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
    """Findings unless the gradients of policy and value are finite, not 0, and reach every parameter."""
    named = [(name, parameter) for name, parameter in network.named_parameters() if parameter.requires_grad]
    reached: set[str] = set()
    for what, tensor in (("policy outputs", outputs), ("values", values)):
        if not tensor.requires_grad or not named:
            return [
                Finding(Reason.NO_GRADIENT, f"no gradient flows from the {what} to the parameters; do not detach them")
            ]
        loss = (tensor * torch.linspace(0.5, 1.5, tensor.numel()).reshape(tensor.shape)).sum()
        gradients = torch.autograd.grad(loss, [each for _, each in named], allow_unused=True, retain_graph=True)
        found = {name: gradient for (name, _), gradient in zip(named, gradients, strict=True) if gradient is not None}
        if not all(torch.isfinite(gradient).all() for gradient in found.values()):
            return [
                Finding(
                    Reason.NO_GRADIENT, f"the gradient of the {what} is not finite; avoid roots and logarithms at 0"
                )
            ]
        if not any(gradient.abs().max() > 0 for gradient in found.values()):
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
