"""Distributions of order sizes."""

import math
from typing import Any

from serl.agents.traders.random import normal, uniform
from serl.exchange.compiling import inlined


@inlined
def typical_lots(agent: Any) -> int:
    """Draws from the mixture of ABIDES's reference population, at least 1.

    .2 LogNormal(2.9, 1.2), .7 N(100, .15), .06 N(200, .15), .033 N(400, .15), rest N(300, .15).
    """
    draw = uniform(agent)
    if draw < 0.2:
        return max(1, int(math.exp(2.9 + 1.2 * normal(agent)) + 0.5))
    mean = 100.0 if draw < 0.9 else 200.0 if draw < 0.96 else 400.0 if draw < 0.993 else 300.0
    return max(1, int(mean + 0.15 * normal(agent) + 0.5))


@inlined
def lots_around(agent: Any, median_lots: float, spread: float) -> int:
    """Draws a log-normal quantity around `median_lots`, at least 1. spread: standard deviation of the logarithm."""
    return max(1, int(median_lots * math.exp(spread * normal(agent)) + 0.5))
