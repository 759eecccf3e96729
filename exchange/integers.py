"""Integers given by callers: checked, never rounded, wrapped or truncated."""

import operator
from typing import Any, SupportsIndex

import numpy as np

from serl.exchange.errors import ConfigError

Integer = SupportsIndex
"""An int or a numpy integer; a bool is refused."""
Symbol = Integer | str
"""A symbol's number or name."""

INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1


def integer(name: str, value: Any, least: int = INT64_MIN) -> int:
    """Converts an int or a numpy integer to an int. Raises ConfigError for any other value, and for one beyond 64 bits or below `least`."""
    if isinstance(value, bool | np.bool_):
        raise ConfigError(f"{name}: expected an integer, got {value!r}; pass an int")
    try:
        number = operator.index(value)
    except TypeError:
        advice = "round it to whole units" if isinstance(value, float | np.floating) else "pass an int"
        raise ConfigError(f"{name}: expected an integer, got {value!r} ({type(value).__name__}); {advice}") from None
    if not INT64_MIN <= number <= INT64_MAX:
        raise ConfigError(f"{name}: expected an integer that fits in 64 bits, got {number}; check its unit")
    if number < least:
        raise ConfigError(f"{name}: expected an integer from {least}, got {number}")
    return number
