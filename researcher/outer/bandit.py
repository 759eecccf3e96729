"""A bandit over operators and models: Thompson sampling (Thompson 1933; for fractional rewards Agrawal and Goyal 2012, arXiv 1111.1797).

The reward of an attempt is the probability that its candidate is better than the best candidate at that time, on the same orders; it is 0 if the
attempt gave no candidate. This rewards the rank and not the size of a gain, so that one lucky score cannot decide (Fialho, Schoenauer and Sebag
2010 use ranks for the same reason).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, order=True)
class Arm:
    """An operator and the model that it asks."""

    operator: str
    model: str = ""
    """Empty for operators without a model."""


def choose_arm(arms: Sequence[Arm], paid: Mapping[Arm, Sequence[float]], rng: np.random.Generator) -> Arm:
    """The arm with the highest draw from its posterior, Beta(1 + sum, 1 + n - sum) for its n rewards in [0, 1]."""
    draws = []
    for arm in arms:
        payments = paid.get(arm, ())
        total = float(sum(payments))
        draws.append(rng.beta(1 + total, 1 + len(payments) - total))
    return arms[int(np.argmax(draws))]
