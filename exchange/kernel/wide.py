"""Integers of two words: high x 2^64 + low, with a signed low word, so that what fits into 64 bits has a high word of 0.

Sums that may wrap are those of unsigned words: numba tells LLVM that sums of signed ones never do.
"""

import numpy as np

from serl.exchange.compiling import inner, int64


@inner
def add(high: int, low: int, amount: int) -> tuple[int, int]:
    """The number plus an amount of one word."""
    total = int64(np.uint64(low) + np.uint64(amount))
    if amount >= 0:
        return high + (total < low), total
    return high - (total > low), total


@inner
def subtract(high: int, low: int, amount: int) -> tuple[int, int]:
    """The number minus an amount of one word."""
    total = int64(np.uint64(low) - np.uint64(amount))
    if amount >= 0:
        return high - (total > low), total
    return high + (total < low), total


@inner
def is_negative(high: int, low: int) -> bool:
    """Whether the number is below 0."""
    return high < 0 or (high == 0 and low < 0)


@inner
def share_of_wide(high: int, low: int, part: int, total: int) -> tuple[int, int]:
    """floor(number x part / total) for a number >= 0 and 0 <= part < total, bit by bit: no product and no sum can overflow."""
    share_high = share_low = rest = 0
    upper = high - (low < 0)  # of the number as two words without a sign
    for bit in range(127, -1, -1):
        word = upper if bit >= 64 else low
        extra = 0  # whole totals in 2 x rest + part
        if rest >= total - rest:
            extra, rest = 1, rest - (total - rest)
        else:
            rest += rest
        if word >> (bit & 63) & 1:
            if rest >= total - part:
                extra, rest = extra + 1, rest - (total - part)
            else:
                rest += part
        share_high, share_low = add(2 * share_high, share_low, share_low)
        share_high, share_low = add(share_high, share_low, extra)
    return share_high, share_low
