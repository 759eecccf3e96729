"""Distributions of actions in a box: squashed Gaussian, Gaussian, Beta, and bins.

A sample is stored as its *latent* (before squashing, in the unit interval, or as a bin number), so that the log-probabilities of stored
samples are exact; `actions` maps latents to the box. `outputs` are those of the network, (.., output_size). `log_std` are logarithms of
standard deviations that do not depend on the observation; only Gaussians have them. All randomness comes from one numpy generator.
"""

import math
from collections.abc import Callable
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from serl.agents.learning.beta_terms import HALF_LOG_2PI, BetaTerms
from serl.agents.learning.network_config import Kind

EDGE = 1e-6
"""Beta samples stay this far from 0 and 1."""


class Distribution(Protocol):
    """A family of distributions over (k,) actions between low and high."""

    output_size: int
    """Number of network outputs that parametrise a distribution."""
    log_std_size: int
    """Number of parameters that do not depend on the observation: k for Gaussians, else 0."""

    def sample(self, outputs: Tensor, log_std: Tensor, random: np.random.Generator) -> Tensor:
        """(B, k) latents."""

    def mode(self, outputs: Tensor, log_std: Tensor) -> Tensor:
        """(B, k) latents of the distribution's central action."""

    def actions(self, latents: Tensor) -> Tensor:
        """(B, k) actions in the box."""

    def log_prob_and_entropy(self, outputs: Tensor, log_std: Tensor, latents: Tensor) -> tuple[Tensor, Tensor]:
        """Returns (..,) log densities of the action, scaled to the unit box or, if squashed, to (-1, 1) (for bins, log probabilities), and (..,)
        entropies."""


class _Box:
    def __init__(self, low: Tensor, high: Tensor) -> None:
        self.low, self.width = low, high - low


def _uniform(random: np.random.Generator, shape: torch.Size) -> Tensor:
    return torch.from_numpy(random.random(tuple(shape), np.float32))


class Gaussian(_Box):
    """Independent Gaussians with standard deviations that do not depend on the observation; actions are clipped to the box."""

    def __init__(self, low: Tensor, high: Tensor) -> None:
        super().__init__(low, high)
        self.output_size = self.log_std_size = len(low)

    def sample(self, outputs: Tensor, log_std: Tensor, random: np.random.Generator) -> Tensor:
        """See Distribution."""
        noise = torch.from_numpy(random.standard_normal(tuple(outputs.shape), np.float32))
        return outputs + log_std.exp() * noise

    def mode(self, outputs: Tensor, log_std: Tensor) -> Tensor:
        """See Distribution."""
        return outputs

    def actions(self, latents: Tensor) -> Tensor:
        """See Distribution."""
        return torch.minimum(torch.maximum(latents, self.low), self.low + self.width)

    def log_prob_and_entropy(self, outputs: Tensor, log_std: Tensor, latents: Tensor) -> tuple[Tensor, Tensor]:
        """See Distribution; for the action before clipping."""
        scaled, total = (latents - outputs) * (-log_std).exp(), log_std.sum() + len(log_std) * HALF_LOG_2PI
        return (-0.5 * scaled * scaled).sum(-1) - total, (total + 0.5 * len(log_std)).expand(outputs.shape[:-1])


class Squashed(Gaussian):
    """tanh of Gaussians, scaled to the box. The entropy is that of the Gaussian, since the squashed one has no closed form."""

    def actions(self, latents: Tensor) -> Tensor:
        """See Distribution."""
        return self.low + self.width * 0.5 * (1 + torch.tanh(latents))

    def log_prob_and_entropy(self, outputs: Tensor, log_std: Tensor, latents: Tensor) -> tuple[Tensor, Tensor]:
        """See Distribution; log(1 - tanh(u)^2) = 2 (log 2 - u - softplus(-2u)) is exact in the tails."""
        log_derivative = 2 * (math.log(2) - latents - functional.softplus(-2 * latents))
        log_prob, entropy = super().log_prob_and_entropy(outputs, log_std, latents)
        return log_prob - log_derivative.sum(-1), entropy


class Beta(_Box):
    """Independent Beta distributions on the box, with both parameters above 1 so that there is one mode."""

    log_std_size = 0

    def __init__(self, low: Tensor, high: Tensor) -> None:
        super().__init__(low, high)
        self.output_size = 2 * len(low)

    def shapes(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        """(B, k) alpha and (B, k) beta."""
        both = 1 + functional.softplus(outputs)
        alpha, beta = both.chunk(2, dim=-1)
        return alpha, beta

    def sample(self, outputs: Tensor, log_std: Tensor, random: np.random.Generator) -> Tensor:
        """See Distribution."""
        alpha, beta = (shape.numpy() for shape in self.shapes(outputs))
        return torch.from_numpy(np.clip(random.beta(alpha, beta), EDGE, 1 - EDGE).astype(np.float32))

    def mode(self, outputs: Tensor, log_std: Tensor) -> Tensor:
        """See Distribution; the mean, because the mode of a nearly flat Beta jumps between the edges."""
        alpha, beta = self.shapes(outputs)
        return alpha / (alpha + beta)

    def actions(self, latents: Tensor) -> Tensor:
        """See Distribution."""
        return self.low + self.width * latents

    def log_prob_and_entropy(self, outputs: Tensor, log_std: Tensor, latents: Tensor) -> tuple[Tensor, Tensor]:
        """See Distribution."""
        shape = outputs.shape[:-1]
        log_prob, entropy = BetaTerms.apply(outputs.flatten(0, -2), latents.flatten(0, -2))
        return log_prob.view(shape), entropy.view(shape)


class Bins(_Box):
    """Each action is one of `count` evenly spaced values, edges included."""

    log_std_size = 0

    def __init__(self, low: Tensor, high: Tensor, count: int = 5) -> None:
        super().__init__(low, high)
        self.count = count
        self.output_size = count * len(low)

    def _log_probs(self, outputs: Tensor) -> Tensor:
        return functional.log_softmax(outputs.reshape(*outputs.shape[:-1], -1, self.count), dim=-1)

    def sample(self, outputs: Tensor, log_std: Tensor, random: np.random.Generator) -> Tensor:
        """See Distribution; the argmax of log p plus Gumbel noise is distributed like p."""
        log_probs = self._log_probs(outputs)
        noise = -torch.log(-torch.log(_uniform(random, log_probs.shape).clamp(1e-7, 1 - 1e-7)))
        return (log_probs + noise).argmax(-1).float()

    def mode(self, outputs: Tensor, log_std: Tensor) -> Tensor:
        """See Distribution."""
        return self._log_probs(outputs).argmax(-1).float()

    def actions(self, latents: Tensor) -> Tensor:
        """See Distribution."""
        return self.low + self.width * latents / (self.count - 1)

    def log_prob_and_entropy(self, outputs: Tensor, log_std: Tensor, latents: Tensor) -> tuple[Tensor, Tensor]:
        """See Distribution."""
        log_probs = self._log_probs(outputs)
        chosen = log_probs.gather(-1, latents.long().unsqueeze(-1)).squeeze(-1)
        return chosen.sum(-1), -(log_probs.exp() * log_probs).sum((-1, -2))


def distribution(kind: Kind, low: Tensor, high: Tensor, bins: int = 5) -> Distribution:
    """The named family on the box between low and high, (k,) each."""
    if kind == "bins":
        return Bins(low, high, bins)
    families: dict[str, Callable[[Tensor, Tensor], Distribution]]
    families = {"squashed": Squashed, "gaussian": Gaussian, "beta": Beta}
    return families[kind](low, high)
