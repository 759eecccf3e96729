"""Communicate: how far behind its schedule an agent is, and which way the book leans for it."""

import numpy as np

from serl.researcher.modules.contracts import Floats

IMBALANCE, BEHIND_SCHEDULE = 21, 44


def communicate(observations: Floats) -> Floats:
    """(n_agents, 2) messages in [-1, 1]."""
    return np.tanh(observations[:, [BEHIND_SCHEDULE, IMBALANCE]])
