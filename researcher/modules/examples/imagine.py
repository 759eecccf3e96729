"""Imagine: a random walk with the past's volatility, in clusters, and the past's ranges and volumes in random order."""

import numpy as np

from serl.researcher.modules.contracts import Floats


def imagine(history: Floats, rng: np.random.Generator, n: int, horizon: int) -> Floats:
    """(n, horizon, 3): return_bps, range_bps, volume_lots."""
    deviation = history[:, 0].std() + 1e-9
    level = np.exp(0.3 * rng.standard_normal((n, 1)))
    moves = deviation * level * rng.standard_normal((n, horizon))
    drawn = history[rng.integers(0, len(history), (n, horizon))]
    ranges = np.maximum(drawn[..., 1], np.abs(moves))
    return np.stack([moves, ranges, drawn[..., 2]], axis=-1)
