"""Integers that callers give: checked, never rounded, wrapped or cut."""

import operator
from typing import Any

import numpy as np

from serl.exchange.errors import ConfigError

INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1


def integer(name: str, value: Any, least: int = INT64_MIN) -> int:
    """The value as an int, numpy's integers too; ConfigError for all else, and beyond 64 bits or below `least`."""
    if isinstance(value, bool | np.bool_):
        raise ConfigError(f"{name}: expected an integer, got {value!r}; say how many")
    try:
        number = operator.index(value)
    except TypeError:
        kind = type(value).__name__
        raise ConfigError(
            f"{name}: expected an integer, got {value!r} ({kind}); round it to whole units first"
        ) from None
    if not INT64_MIN <= number <= INT64_MAX:
        raise ConfigError(f"{name}: expected an integer that fits in 64 bits, got {number}; check its unit")
    if number < least:
        raise ConfigError(
            f"{name}: expected an integer from {least}, got {number}; leave it out to go on from the last"
        )
    return number
