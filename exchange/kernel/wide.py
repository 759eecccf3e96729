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


@inner
def plus(high: int, low: int, other_high: int, other_low: int) -> tuple[int, int]:
    """The sum of two numbers."""
    high, low = add(high, low, other_low)
    return high + other_high, low


@inner
def minus(high: int, low: int, other_high: int, other_low: int) -> tuple[int, int]:
    """The difference of two numbers."""
    high, low = subtract(high, low, other_low)
    return high - other_high, low


@inner
def times(high: int, low: int, factor: int) -> tuple[int, int]:
    """The number times a factor of 0 or more; the product must fit into two words."""
    half, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
    word, by = np.uint64(low), np.uint64(factor)
    first = (word & mask) * (by & mask)
    middle = (word >> half) * (by & mask) + (first >> half)
    cross = (word & mask) * (by >> half) + (middle & mask)
    carry = (word >> half) * (by >> half) + (middle >> half) + (cross >> half)
    product = int64((cross << half) | (first & mask))
    upper = int64(np.uint64(high - (low < 0)) * by + carry)  # of words without a sign
    return upper + (product < 0), product


@inner
def _millionths(high: int, low: int) -> tuple[int, int]:
    """floor(number / 1,000,000) of a number of 0 or more, by parts of 32 bits."""
    half, mask, million = np.uint64(32), np.uint64(0xFFFFFFFF), np.uint64(1_000_000)
    upper, word = np.uint64(high - (low < 0)), np.uint64(low)
    second = ((upper % million) << half) | (word >> half)
    third = ((second % million) << half) | (word & mask)
    quotient = int64(((second // million) << half) | (third // million))
    return int64(upper // million) + (quotient < 0), quotient


@inner
def millionths_up(high: int, low: int) -> tuple[int, int]:
    """The number / 1,000,000, rounded up."""
    if is_negative(high, low):
        high, low = minus(0, 0, high, low)
        high, low = _millionths(high, low)
        return minus(0, 0, high, low)
    high, low = add(high, low, 999_999)
    return _millionths(high, low)
