"""Checksums of journaled commands, and the number of valid rows in a segment."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from serl.exchange.compiling import compiled, inlined, int64
from serl.exchange.records import Rows

MIX = np.uint64(0x9E3779B97F4A7C15)


@inlined
def row_checksum(words: Any, index: int, salt: int) -> np.uint32:
    """Checksum of COMMAND row `index`, given as eight 64-bit words, over everything but the checksum itself; never 0.

    Detects torn writes and rows of other journals, not tampering. O(1), about 3 ns.
    """
    mixed = np.uint64(salt)
    for word in range(7):
        mixed = (mixed ^ np.uint64(words[index, word])) * MIX
        mixed ^= mixed >> np.uint64(29)
    mixed = (mixed ^ (np.uint64(words[index, 7]) >> np.uint64(32))) * MIX
    return np.uint32(mixed >> np.uint64(32)) | np.uint32(1)


@compiled
def count_valid(commands: Any, words: Any, first_sequence: int, salt: int) -> int:
    """The number of valid rows at the start of a segment whose first row has sequence `first_sequence`."""
    for index in range(commands.size):
        row = commands[index]
        if row.sequence != first_sequence + index or row.check != row_checksum(words, index, salt):
            return index
    return int64(commands.size)


@compiled
def find_valid(commands: Any, words: Any, first_sequence: int, start: int, salt: int) -> int:
    """The first valid row from `start` on, -1 if there is none: a corrupt row must not hide the valid ones after it."""
    for index in range(start, commands.size):
        row = commands[index]
        if row.sequence == first_sequence + index and row.check == row_checksum(words, index, salt):
            return index
    return -1


def row_checksums(rows: Rows, salt: int) -> NDArray[np.uint32]:
    """`row_checksum` of COMMAND rows, for files that omit the checksums. uint32 (n,)."""
    words = np.ascontiguousarray(rows).view(np.uint64).reshape(len(rows), 8)
    mixed = np.full(len(rows), np.int64(salt)).view(np.uint64)
    for word in range(7):
        mixed = (mixed ^ words[:, word]) * MIX
        mixed ^= mixed >> np.uint64(29)
    mixed = (mixed ^ (words[:, 7] >> np.uint64(32))) * MIX
    return (mixed >> np.uint64(32)).astype(np.uint32) | np.uint32(1)
