"""The arrays of a market state in one piece of memory: a copy of the state is one copy of this memory."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

ALIGNMENT_BYTES = 64
"""Of each array: a cache line."""


class Layout(NamedTuple):
    """Where arrays lie in a block. Equal for arrays of equal shapes, of which each place has its own type."""

    shapes: tuple[tuple[int, ...], ...]
    bytes: int

    @classmethod
    def of(cls, arrays: Sequence[Any]) -> "Layout":
        """That of copies of these arrays."""
        return cls(tuple(array.shape for array in arrays), sum(_aligned(array.nbytes) for array in arrays))


class Block(NamedTuple):
    """Arrays, and the memory that they lie in. Nothing is between them but zeros."""

    layout: Layout
    words: NDArray[np.uint64]
    arrays: tuple[Any, ...]

    @classmethod
    def new(cls, layout: Layout, like: Sequence[Any]) -> "Block":
        """Zeros, in arrays of the types of others."""
        words, arrays, place = np.zeros(layout.bytes // 8, np.uint64), [], 0
        for shape, other in zip(layout.shapes, like, strict=True):
            arrays.append(np.ndarray(shape, other.dtype, words, place))
            place += _aligned(arrays[-1].nbytes)
        return cls(layout, words, tuple(arrays))

    @classmethod
    def of(cls, arrays: Sequence[Any]) -> "Block":
        """Copies of arrays."""
        block = cls.new(Layout.of(arrays), arrays)
        for copied, array in zip(block.arrays, arrays, strict=True):
            # As bytes: NumPy copies structured rows field by field, which takes ten times as long.
            np.copyto(copied.reshape(-1).view(np.uint8), array.reshape(-1).view(np.uint8))
        return block

    def holds(self, arrays: Sequence[Any]) -> bool:
        """Whether these are its arrays: one that has grown lies elsewhere."""
        return all(own is other for own, other in zip(self.arrays, arrays, strict=True))


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
