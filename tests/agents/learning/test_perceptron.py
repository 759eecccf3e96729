"""Perceptrons against PyTorch's own layers."""

import itertools

import pytest
import torch

from serl.agents.learning.network_config import Activation
from serl.agents.learning.perceptron import Perceptron


@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("sizes", [[5, 2], [5, 16, 8, 2]])
@pytest.mark.parametrize("shape", [(7, 5), (3, 4, 5)])
def test_outputs_and_gradients(activation: Activation, sizes: list[int], shape: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(1)
    ours = Perceptron(sizes, activation, 1.0, generator)
    between = torch.nn.Tanh() if activation == "tanh" else torch.nn.ReLU()
    layers = [torch.nn.Linear(*pair) for pair in itertools.pairwise(sizes)]
    theirs = torch.nn.Sequential(*[part for layer in layers for part in (layer, between)][:-1])
    theirs.load_state_dict(dict(zip(theirs.state_dict(), ours.state_dict().values(), strict=True)))
    inputs = torch.randn(shape, generator=generator)
    found = []
    for network in (ours, theirs):
        given = inputs.clone().requires_grad_()
        outputs = network(given)
        outputs.square().sum().backward()
        found.append([outputs, given.grad, *(parameter.grad for parameter in network.parameters())])
    for mine, known in zip(*found, strict=True):
        torch.testing.assert_close(mine, known, rtol=1e-4, atol=1e-6)


def test_inputs_without_a_gradient_need_none() -> None:
    network = Perceptron([3, 4, 1], "tanh", 1.0, torch.Generator().manual_seed(1))
    inputs = torch.ones(2, 3)
    network(inputs).sum().backward()
    assert inputs.grad is None and all(parameter.grad is not None for parameter in network.parameters())
