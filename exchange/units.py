"""Parses sizes and durations with units, and time zones, in settings."""

import re
from functools import cache
from zoneinfo import available_timezones

SIZES = {"kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}
DURATIONS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
time_zones = cache(available_timezones)
"""The names of all time zones, read only once, because they are hundreds of files."""


def size_bytes(text: str) -> float:
    """Converts a text like '200 GB' to bytes. Raises ValueError for anything else."""
    return _with_unit(text, SIZES)


def duration_s(text: str) -> float:
    """Converts a text like '30 d' to seconds. Raises ValueError for anything else."""
    return _with_unit(text, DURATIONS)


def _with_unit(text: str, units: dict[str, float]) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?) *([A-Za-z]+)", text)
    if not match or match[2] not in units:
        raise ValueError(f"expected a number with a unit ({', '.join(units)}), got {text!r}")
    return float(match[1]) * units[match[2]]
