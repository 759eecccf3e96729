"""Whole rows: a check over each journaled command, and how many of them a segment holds."""

from typing import Any

import numpy as np

from serl.exchange.compiling import compiled, inlined, int64

MIX = np.uint64(0x9E3779B97F4A7C15)


@inlined
def row_checksum(words: Any, index: int, salt: int) -> np.uint32:
    """Check of COMMAND row `index` given as eight 64-bit words, all but the check itself; never 0.

    Guards against torn and foreign rows, not against an adversary with access to the files. O(1), about 3 ns.
    """
    mixed = np.uint64(salt)
    for word in range(7):
        mixed = (mixed ^ np.uint64(words[index, word])) * MIX
        mixed ^= mixed >> np.uint64(29)
    mixed = (mixed ^ (np.uint64(words[index, 7]) >> np.uint64(32))) * MIX
    return np.uint32(mixed >> np.uint64(32)) | np.uint32(1)


@compiled
def count_valid(commands: Any, words: Any, first_sequence: int, salt: int) -> int:
    """The number of whole rows at the start of a segment whose first row has sequence `first_sequence`."""
    for index in range(commands.size):
        row = commands[index]
        if row.sequence != first_sequence + index or row.check != row_checksum(words, index, salt):
            return index
    return int64(commands.size)


@compiled
def find_valid(commands: Any, words: Any, first_sequence: int, start: int, salt: int) -> int:
    """The first whole row at or behind `start`, -1 if there is none: rows that a broken one must not make us forget."""
    for index in range(start, commands.size):
        row = commands[index]
        if row.sequence == first_sequence + index and row.check == row_checksum(words, index, salt):
            return index
    return -1
