"""Resampling of series in blocks, for numbers whose values depend on each other in time."""

import numpy as np

from serl.agents.realism.tape import Floats, Ints

Random = np.random.Generator


def block_draws(blocks: int, bootstraps: int, random: Random) -> Floats:
    """[bootstraps, blocks] how often each block is drawn when `blocks` of them are drawn with replacement."""
    return random.multinomial(blocks, np.full(blocks, 1.0 / blocks), size=bootstraps).astype(np.float64)


def circular_blocks(size: int, block: int, bootstraps: int, random: Random) -> Ints:
    """[bootstraps, size] places of a series of `size`, in circular blocks (Politis and Romano 1992)."""
    starts = random.integers(0, size, size=(bootstraps, -(-size // block)))
    places = starts[:, :, np.newaxis] + np.arange(block)
    return np.asarray(places.reshape(bootstraps, starts.shape[1] * block)[:, :size] % size)
