"""Distributions of actions against those of PyTorch."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import distributions as reference

from serl.agents.learning.distributions import Beta, Bins, Gaussian, Squashed, distribution
from serl.agents.learning.network_config import Kind

LOW, HIGH = torch.tensor([0.0, -1.0]), torch.tensor([1.0, 1.0])
OUTPUTS, FREE = torch.randn(64, 2, generator=torch.Generator().manual_seed(1)), torch.tensor([0.3, -0.5])


def random() -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(2))


def test_gaussian() -> None:
    family = Gaussian(LOW, HIGH)
    latents = family.sample(OUTPUTS, FREE, random())
    theirs = reference.Independent(reference.Normal(OUTPUTS, FREE.exp()), 1)
    log_prob, entropy = family.log_prob_and_entropy(OUTPUTS, FREE, latents)
    torch.testing.assert_close(log_prob, theirs.log_prob(latents))
    torch.testing.assert_close(entropy, theirs.entropy())


def test_squashed_gaussian() -> None:
    family = Squashed(LOW, HIGH)
    latents = family.sample(OUTPUTS, FREE, random())
    base = reference.Independent(reference.Normal(OUTPUTS, FREE.exp()), 1)
    theirs = reference.TransformedDistribution(base, [reference.transforms.TanhTransform(cache_size=1)])
    log_prob, entropy = family.log_prob_and_entropy(OUTPUTS, FREE, latents)
    torch.testing.assert_close(log_prob, theirs.log_prob(torch.tanh(latents)), rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(entropy, base.entropy())


def test_beta() -> None:
    family = Beta(LOW, HIGH)
    outputs = torch.randn(64, 4, generator=torch.Generator().manual_seed(1))
    alpha, beta = family.shapes(outputs)
    theirs: Any = reference.Independent(reference.Beta(alpha, beta), 1)
    latents = family.sample(outputs, FREE, random())
    log_prob, entropy = family.log_prob_and_entropy(outputs, FREE, latents)
    torch.testing.assert_close(log_prob, theirs.log_prob(latents))
    torch.testing.assert_close(entropy, theirs.entropy(), rtol=1e-4, atol=1e-4)


def test_beta_has_the_terms_and_slopes_of_pytorch_for_narrow_and_flat_shapes() -> None:
    family, generator = Beta(LOW, HIGH), torch.Generator().manual_seed(3)
    ours = (8 * torch.randn(20, 16, 4, generator=generator)).requires_grad_()
    theirs = ours.detach().double().requires_grad_()  # double: in single precision PyTorch's own entropy is off by 1e-4
    latents, weights = (torch.rand(size, generator=generator) for size in ((20, 16, 2), (2, 20, 16)))
    latents = latents.clamp(1e-6, 1 - 1e-6)
    alpha, beta = (1 + torch.nn.functional.softplus(theirs)).chunk(2, -1)
    reference_beta: Any = reference.Independent(reference.Beta(alpha, beta), 1)
    terms = family.log_prob_and_entropy(ours, FREE, latents)
    expected = reference_beta.log_prob(latents.double()), reference_beta.entropy()
    for found, known in zip(terms, expected, strict=True):
        torch.testing.assert_close(found.double(), known, rtol=1e-5, atol=1e-5)
    for found, leaf in ((terms, ours), (expected, theirs)):
        (weights.to(leaf.dtype) * torch.stack(list(found))).sum().backward()
    torch.testing.assert_close(ours.grad.double(), theirs.grad, rtol=1e-4, atol=1e-5)


def test_bins() -> None:
    family = Bins(LOW, HIGH, 5)
    outputs = torch.randn(64, 10, generator=torch.Generator().manual_seed(1))
    theirs = reference.Independent(reference.Categorical(logits=outputs.reshape(64, 2, 5)), 1)
    latents = family.sample(outputs, FREE, random())
    log_prob, entropy = family.log_prob_and_entropy(outputs, FREE, latents)
    torch.testing.assert_close(log_prob, theirs.log_prob(latents))
    torch.testing.assert_close(entropy, theirs.entropy())
    assert set(family.actions(latents)[:, 1].tolist()) == {-1.0, -0.5, 0.0, 0.5, 1.0}


def test_bins_are_drawn_as_often_as_they_should_be() -> None:
    chances = torch.tensor([0.1, 0.2, 0.4, 0.25, 0.05])
    family = Bins(LOW[:1], HIGH[:1], 5)
    drawn = family.sample(chances.log().expand(40_000, 5), FREE, random())
    found = torch.bincount(drawn[:, 0].long(), minlength=5) / 40_000
    torch.testing.assert_close(found, chances, rtol=0, atol=0.01)


@pytest.mark.parametrize("kind", ["squashed", "gaussian", "beta", "bins"])
def test_actions_lie_in_the_box(kind: Kind) -> None:
    family = distribution(kind, LOW, HIGH)
    outputs = 5 * torch.randn(500, family.output_size, generator=torch.Generator().manual_seed(1))
    free = torch.ones(family.log_std_size)
    for latents in (family.sample(outputs, free, random()), family.mode(outputs, free)):
        actions = family.actions(latents)
        assert actions.shape == (500, 2)
        assert bool(((actions >= LOW) & (actions <= HIGH)).all())
        assert bool((actions.amax(0) - actions.amin(0) > 0.5).all())
