"""The arrays of a market state in one memory block, so that one memory copy copies the state."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

ALIGNMENT_BYTES = 64
"""Alignment of each array: a cache line."""


class Layout(NamedTuple):
    """The positions of arrays in a block. Equal if the arrays have equal shapes; the type at each position is fixed."""

    shapes: tuple[tuple[int, ...], ...]
    bytes: int

    @classmethod
    def of(cls, arrays: Sequence[Any]) -> "Layout":
        """The layout for copies of these arrays."""
        return cls(tuple(array.shape for array in arrays), sum(_aligned(array.nbytes) for array in arrays))


class Block(NamedTuple):
    """Arrays and the memory that holds them; gaps between them are zeros."""

    layout: Layout
    words: NDArray[np.uint64]
    arrays: tuple[Any, ...]

    @classmethod
    def new(cls, layout: Layout, like: Sequence[Any]) -> "Block":
        """Arrays of zeros with the types of the arrays in `like`."""
        words, arrays, place = np.zeros(layout.bytes // 8, np.uint64), [], 0
        for shape, other in zip(layout.shapes, like, strict=True):
            arrays.append(np.ndarray(shape, other.dtype, words, place))
            place += _aligned(arrays[-1].nbytes)
        return cls(layout, words, tuple(arrays))

    @classmethod
    def of(cls, arrays: Sequence[Any]) -> "Block":
        """A block with copies of the arrays."""
        block = cls.new(Layout.of(arrays), arrays)
        for copied, array in zip(block.arrays, arrays, strict=True):
            # Copy bytes: NumPy copies structured rows field by field, which takes ten times as long.
            np.copyto(copied.reshape(-1).view(np.uint8), array.reshape(-1).view(np.uint8))
        return block

    def holds(self, arrays: Sequence[Any]) -> bool:
        """Whether the block holds exactly these arrays; an array that has grown is elsewhere."""
        return all(own is other for own, other in zip(self.arrays, arrays, strict=True))


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
