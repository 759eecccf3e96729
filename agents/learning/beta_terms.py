"""Log densities and entropies of Beta distributions with their derivatives, in one pass of compiled code.

PyTorch needs a pass for each lgamma, digamma and trigamma of each shape, and the trigamma is slow; here the three come from one recurrence.
"""

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from serl.exchange.compiling import compiled, inlined

HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
SHIFT = 6
"""From x + 6 on, four terms of Stirling's series are exact to 1e-10."""


class BetaTerms(Function):
    """Maps (B, 2k) outputs and (B, k) samples in (0, 1) to (B,) log densities and (B,) entropies, summed over k, of Betas with the shapes
    1 + softplus(outputs), alpha before beta."""

    @staticmethod
    def forward(ctx: Any, outputs: Tensor, samples: Tensor) -> tuple[Tensor, Tensor]:
        """See the class."""
        outputs, terms = outputs.contiguous(), [torch.empty(len(outputs)) for _ in range(2)]
        slopes = [torch.empty_like(outputs) for _ in range(2)]
        _terms(outputs.numpy(), samples.contiguous().numpy(), *(each.numpy() for each in (*terms, *slopes)))
        ctx.save_for_backward(*slopes)
        return terms[0], terms[1]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_log_prob: Tensor, of_entropy: Tensor) -> tuple[Tensor, None]:
        """The gradient with respect to the outputs."""
        log_prob_slopes, entropy_slopes = ctx.saved_tensors
        return of_log_prob.unsqueeze(-1) * log_prob_slopes + of_entropy.unsqueeze(-1) * entropy_slopes, None


@compiled
def _terms(outputs: Any, samples: Any, log_probs: Any, entropies: Any, log_prob_slopes: Any, entropy_slopes: Any) -> None:  # fmt: skip
    count, size = samples.shape
    for n in range(count):
        log_prob, entropy = 0.0, 0.0
        for i in range(size):
            alpha, alpha_slope = _shape(outputs[n, i])
            beta, beta_slope = _shape(outputs[n, size + i])
            product_a, lgamma_a, digamma_a, trigamma_a = _gammas(alpha)
            product_b, lgamma_b, digamma_b, trigamma_b = _gammas(beta)
            product, lgamma, digamma, trigamma = _gammas(alpha + beta)
            log_norm = lgamma_a + lgamma_b - lgamma - math.log(product_a * product_b / product)
            log_x, log_rest = math.log(samples[n, i]), math.log1p(-samples[n, i])
            log_prob += (alpha - 1) * log_x + (beta - 1) * log_rest - log_norm
            entropy += log_norm - (alpha - 1) * digamma_a - (beta - 1) * digamma_b + (alpha + beta - 2) * digamma
            log_prob_slopes[n, i] = alpha_slope * (log_x - digamma_a + digamma)
            log_prob_slopes[n, size + i] = beta_slope * (log_rest - digamma_b + digamma)
            common = (alpha + beta - 2) * trigamma
            entropy_slopes[n, i] = alpha_slope * (common - (alpha - 1) * trigamma_a)
            entropy_slopes[n, size + i] = beta_slope * (common - (beta - 1) * trigamma_b)
        log_probs[n], entropies[n] = log_prob, entropy


@inlined
def _shape(output: Any) -> Any:
    """(1 + softplus(output), its derivative)."""
    small = math.exp(-abs(output))
    return 1 + max(output, 0.0) + math.log1p(small), (1.0 if output >= 0 else small) / (1 + small)


@inlined
def _gammas(x: Any) -> Any:
    """For x >= 1, (product x (x + 1) .. (x + SHIFT - 1), lgamma before the product's logarithm is subtracted, digamma, trigamma of x), from Stirling's
    series at x + SHIFT (Abramowitz and Stegun 1964, 6.1.40, 6.3.18 and 6.4.12) and the recurrence from there."""
    product, slope, curvature = x, 1.0, 0.0
    for i in range(1, SHIFT):
        curvature = curvature * (x + i) + 2 * slope
        slope = slope * (x + i) + product
        product *= x + i
    y = x + SHIFT
    log_y, r, ratio = math.log(y), 1 / y, slope / product
    s = r * r
    lgamma = (y - 0.5) * log_y - y + HALF_LOG_2PI + r * (1 / 12 - s * (1 / 360 - s * (1 / 1260 - s / 1680)))
    digamma = log_y - r / 2 - s * (1 / 12 - s * (1 / 120 - s * (1 / 252 - s / 240))) - ratio
    trigamma = r + s / 2 + s * r * (1 / 6 - s * (1 / 30 - s * (1 / 42 - s / 30))) + ratio * ratio - curvature / product
    return product, lgamma, digamma, trigamma
