"""Distributions over the actions of a box: squashed Gaussian, Gaussian, Beta, and bins.

A sample is kept as its *latent* (before squashing, in the unit interval, or as a bin), so that log-probabilities of stored
samples are exact; `actions` turns latents into the box. outputs: (.., outputs) of the network; free: parameters that do not
depend on the observation. Slopes are written by hand, as autograd needs longer for them than the networks for theirs. All chance
comes from one numpy generator.
"""

import math
from collections.abc import Callable
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from serl.agents.learning.network_config import Kind

Slopes = tuple[Tensor, Tensor]
EDGE = 1e-6
"""Beta samples keep this distance from 0 and 1."""
HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


class Distribution(Protocol):
    """A family of distributions over (k,) actions between low and high."""

    outputs: int
    """Numbers that the network gives."""
    free: int
    """Parameters beside them."""

    def sample(self, outputs: Tensor, free: Tensor, random: np.random.Generator) -> Tensor:
        """(B, k) latents."""

    def mode(self, outputs: Tensor, free: Tensor) -> Tensor:
        """(B, k) latents of the action at the centre of the distribution."""

    def actions(self, latents: Tensor) -> Tensor:
        """(B, k) actions in the box."""

    def log_prob(self, outputs: Tensor, free: Tensor, latents: Tensor) -> Tensor:
        """(B,) log density of the squashed or scaled-to-unit action (bins: log probability)."""

    def entropy(self, outputs: Tensor, free: Tensor) -> Tensor:
        """(B,) entropies."""

    def slopes(self, outputs: Tensor, free: Tensor, latents: Tensor, log_prob: Tensor, entropy: float) -> Slopes:
        """Slopes of a loss in the outputs and in the free parameters, from those in log_prob (B,) and in each entropy."""


class _Box:
    def __init__(self, low: Tensor, high: Tensor) -> None:
        self.low, self.width = low, high - low


def _uniform(random: np.random.Generator, shape: torch.Size) -> Tensor:
    return torch.from_numpy(random.random(tuple(shape), np.float32))


class Gaussian(_Box):
    """Independent Gaussians whose standard deviations do not depend on the observation; actions are clipped to the box."""

    def __init__(self, low: Tensor, high: Tensor) -> None:
        super().__init__(low, high)
        self.outputs = self.free = len(low)

    def sample(self, outputs: Tensor, free: Tensor, random: np.random.Generator) -> Tensor:
        """See Distribution."""
        noise = torch.from_numpy(random.standard_normal(tuple(outputs.shape), np.float32))
        return outputs + free.exp() * noise

    def mode(self, outputs: Tensor, free: Tensor) -> Tensor:
        """See Distribution."""
        return outputs

    def actions(self, latents: Tensor) -> Tensor:
        """See Distribution."""
        return torch.minimum(torch.maximum(latents, self.low), self.low + self.width)

    def log_prob(self, outputs: Tensor, free: Tensor, latents: Tensor) -> Tensor:
        """See Distribution; of the action before clipping."""
        scaled = (latents - outputs) * (-free).exp()
        return (-0.5 * scaled * scaled).sum(-1) - (free.sum() + len(free) * HALF_LOG_2PI)

    def entropy(self, outputs: Tensor, free: Tensor) -> Tensor:
        """See Distribution; before clipping."""
        return (free.sum() + len(free) * (0.5 + HALF_LOG_2PI)).expand(outputs.shape[:-1])

    def slopes(self, outputs: Tensor, free: Tensor, latents: Tensor, log_prob: Tensor, entropy: float) -> Slopes:
        """See Distribution."""
        inverse = (-free).exp()
        scaled = (latents - outputs) * inverse
        of_means = log_prob.unsqueeze(-1) * scaled
        of_free = (of_means * scaled).flatten(0, -2).sum(0) - log_prob.sum() + entropy * log_prob.numel()
        return of_means * inverse, of_free


class Squashed(Gaussian):
    """tanh of Gaussians, scaled to the box. Its entropy is that of the Gaussian, as there is no closed form."""

    def actions(self, latents: Tensor) -> Tensor:
        """See Distribution."""
        return self.low + self.width * 0.5 * (1 + torch.tanh(latents))

    def log_prob(self, outputs: Tensor, free: Tensor, latents: Tensor) -> Tensor:
        """See Distribution; log(1 - tanh(u)^2) = 2 (log 2 - u - softplus(-2u)) is exact in the tails."""
        slope = 2 * (math.log(2) - latents - functional.softplus(-2 * latents))
        return super().log_prob(outputs, free, latents) - slope.sum(-1)


class Beta(_Box):
    """Independent Betas on the box, both parameters above 1 so that there is one mode."""

    free = 0

    def __init__(self, low: Tensor, high: Tensor) -> None:
        super().__init__(low, high)
        self.outputs = 2 * len(low)

    def shapes(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        """(B, k) alpha and beta."""
        both = 1 + functional.softplus(outputs)
        alpha, beta = both.chunk(2, dim=-1)
        return alpha, beta

    def sample(self, outputs: Tensor, free: Tensor, random: np.random.Generator) -> Tensor:
        """See Distribution."""
        alpha, beta = (shape.numpy() for shape in self.shapes(outputs))
        return torch.from_numpy(np.clip(random.beta(alpha, beta), EDGE, 1 - EDGE).astype(np.float32))

    def mode(self, outputs: Tensor, free: Tensor) -> Tensor:
        """See Distribution; the mean, as the mode of a nearly flat Beta jumps between the edges."""
        alpha, beta = self.shapes(outputs)
        return alpha / (alpha + beta)

    def actions(self, latents: Tensor) -> Tensor:
        """See Distribution."""
        return self.low + self.width * latents

    def log_prob(self, outputs: Tensor, free: Tensor, latents: Tensor) -> Tensor:
        """See Distribution."""
        alpha, beta = self.shapes(outputs)
        norm = torch.lgamma(alpha) + torch.lgamma(beta) - torch.lgamma(alpha + beta)
        return ((alpha - 1) * latents.log() + (beta - 1) * torch.log1p(-latents) - norm).sum(-1)

    def entropy(self, outputs: Tensor, free: Tensor) -> Tensor:
        """See Distribution."""
        alpha, beta = self.shapes(outputs)
        both = alpha + beta
        norm = torch.lgamma(alpha) + torch.lgamma(beta) - torch.lgamma(both)
        slopes = (alpha - 1) * torch.digamma(alpha) + (beta - 1) * torch.digamma(beta)
        return (norm - slopes + (both - 2) * torch.digamma(both)).sum(-1)

    def slopes(self, outputs: Tensor, free: Tensor, latents: Tensor, log_prob: Tensor, entropy: float) -> Slopes:
        """See Distribution."""
        shapes = torch.stack(self.shapes(outputs))
        both = shapes.sum(0)
        logs = torch.stack([latents.log(), torch.log1p(-latents)])
        slopes = log_prob.unsqueeze(-1) * (logs - torch.digamma(shapes) + torch.digamma(both))
        if entropy:
            own, joint = torch.polygamma(1, shapes), torch.polygamma(1, both)
            slopes += entropy * ((both - 2) * joint - (shapes - 1) * own)
        return torch.cat(list(slopes), -1) * torch.sigmoid(outputs), torch.zeros_like(free)


class Bins(_Box):
    """Each action is one of `count` evenly spaced values, edges included."""

    free = 0

    def __init__(self, low: Tensor, high: Tensor, count: int = 5) -> None:
        super().__init__(low, high)
        self.count = count
        self.outputs = count * len(low)

    def _logs(self, outputs: Tensor) -> Tensor:
        return functional.log_softmax(outputs.reshape(*outputs.shape[:-1], -1, self.count), dim=-1)

    def sample(self, outputs: Tensor, free: Tensor, random: np.random.Generator) -> Tensor:
        """See Distribution; the largest of log p plus Gumbel noise is distributed like p."""
        logs = self._logs(outputs)
        noise = -torch.log(-torch.log(_uniform(random, logs.shape).clamp(1e-7, 1 - 1e-7)))
        return (logs + noise).argmax(-1).float()

    def mode(self, outputs: Tensor, free: Tensor) -> Tensor:
        """See Distribution."""
        return self._logs(outputs).argmax(-1).float()

    def actions(self, latents: Tensor) -> Tensor:
        """See Distribution."""
        return self.low + self.width * latents / (self.count - 1)

    def log_prob(self, outputs: Tensor, free: Tensor, latents: Tensor) -> Tensor:
        """See Distribution."""
        return self._logs(outputs).gather(-1, latents.long().unsqueeze(-1)).squeeze(-1).sum(-1)

    def entropy(self, outputs: Tensor, free: Tensor) -> Tensor:
        """See Distribution."""
        logs = self._logs(outputs)
        return -(logs.exp() * logs).sum((-1, -2))

    def slopes(self, outputs: Tensor, free: Tensor, latents: Tensor, log_prob: Tensor, entropy: float) -> Slopes:
        """See Distribution."""
        logs = self._logs(outputs)
        chances = logs.exp()
        drawn = functional.one_hot(latents.long(), self.count)
        mean = (chances * logs).sum(-1, keepdim=True)
        slopes = log_prob[..., None, None] * (drawn - chances) - entropy * chances * (logs - mean)
        return slopes.flatten(-2), torch.zeros_like(free)


def distribution(kind: Kind, low: Tensor, high: Tensor, bins: int = 5) -> Distribution:
    """The family of that name over the box from low to high, (k,) each."""
    if kind == "bins":
        return Bins(low, high, bins)
    families: dict[str, Callable[[Tensor, Tensor], Distribution]]
    families = {"squashed": Squashed, "gaussian": Gaussian, "beta": Beta}
    return families[kind](low, high)
