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
    torch.testing.assert_close(family.log_prob(OUTPUTS, FREE, latents), theirs.log_prob(latents))
    torch.testing.assert_close(family.entropy(OUTPUTS, FREE), theirs.entropy())


def test_squashed_gaussian() -> None:
    family = Squashed(LOW, HIGH)
    latents = family.sample(OUTPUTS, FREE, random())
    base = reference.Independent(reference.Normal(OUTPUTS, FREE.exp()), 1)
    theirs = reference.TransformedDistribution(base, [reference.transforms.TanhTransform(cache_size=1)])
    torch.testing.assert_close(
        family.log_prob(OUTPUTS, FREE, latents), theirs.log_prob(torch.tanh(latents)), rtol=1e-3, atol=1e-3
    )


def test_beta() -> None:
    family = Beta(LOW, HIGH)
    outputs = torch.randn(64, 4, generator=torch.Generator().manual_seed(1))
    alpha, beta = family.shapes(outputs)
    theirs: Any = reference.Independent(reference.Beta(alpha, beta), 1)
    latents = family.sample(outputs, FREE, random())
    torch.testing.assert_close(family.log_prob(outputs, FREE, latents), theirs.log_prob(latents))
    torch.testing.assert_close(family.entropy(outputs, FREE), theirs.entropy(), rtol=1e-4, atol=1e-4)


def test_bins() -> None:
    family = Bins(LOW, HIGH, 5)
    outputs = torch.randn(64, 10, generator=torch.Generator().manual_seed(1))
    theirs = reference.Independent(reference.Categorical(logits=outputs.reshape(64, 2, 5)), 1)
    latents = family.sample(outputs, FREE, random())
    torch.testing.assert_close(family.log_prob(outputs, FREE, latents), theirs.log_prob(latents))
    torch.testing.assert_close(family.entropy(outputs, FREE), theirs.entropy())
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
