"""Block bootstraps, for series with dependence in time."""

import numpy as np

from serl.agents.realism.tape import Floats, Ints

Random = np.random.Generator


def block_draws(blocks: int, bootstraps: int, random: Random) -> Floats:
    """[bootstraps, blocks] number of times each block is drawn in `blocks` draws with replacement."""
    return random.multinomial(blocks, np.full(blocks, 1.0 / blocks), size=bootstraps).astype(np.float64)


def circular_blocks(size: int, block: int, bootstraps: int, random: Random) -> Ints:
    """[bootstraps, size] indices into a series of `size`, in circular blocks (Politis and Romano 1992)."""
    starts = random.integers(0, size, size=(bootstraps, -(-size // block)))
    indices = starts[:, :, np.newaxis] + np.arange(block)
    return np.asarray(indices.reshape(bootstraps, starts.shape[1] * block)[:, :size] % size)
