"""Compiled networks against autograd."""

import itertools

import pytest
import torch

from serl.agents.learning.adam import flatten
from serl.agents.learning.kernels import BLOCK
from serl.agents.learning.network_config import Activation
from serl.agents.learning.perceptron import Perceptron


@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("sizes", [[8, 64, 64, 1], [7, 13, 5, 3], [3, 2]])
@pytest.mark.parametrize("count", [1, BLOCK, 2 * BLOCK + 3])
def test_values_and_gradients_are_those_of_autograd(activation: Activation, sizes: list[int], count: int) -> None:
    generator = torch.Generator().manual_seed(5)
    network = Perceptron(sizes, activation, 1.0, generator)
    for layer in network.layers:
        torch.nn.init.normal_(layer.bias, generator=generator)
    flatten(list(network.parameters()))
    inputs = torch.randn(count, sizes[0], generator=generator, requires_grad=True)
    output_gradient = torch.randn(count, sizes[-1], generator=generator)
    between = torch.nn.Tanh() if activation == "tanh" else torch.nn.ReLU()
    modules = itertools.chain.from_iterable(zip(network.layers, itertools.repeat(between), strict=False))
    outputs = torch.nn.Sequential(*list(modules)[:-1])(inputs)
    expected = torch.autograd.grad(outputs, [inputs, *network.parameters()], output_gradient)
    torch.testing.assert_close(network(inputs), outputs.detach(), rtol=1e-4, atol=1e-5)
    input_gradient = network.backward(output_gradient, needs_input_gradient=True)
    found = [input_gradient, *(parameter.grad for parameter in network.parameters())]
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_nan_stays_nan() -> None:
    network = Perceptron([1, 4, 1], "tanh", 1.0, torch.Generator().manual_seed(1))
    assert bool(torch.isnan(network(torch.tensor([[torch.nan]]))).all())
