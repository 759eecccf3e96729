"""Features of specifications: which choices they make."""

import json
import math
from collections.abc import Mapping
from typing import Any


def features_of(specs: Mapping[str, str]) -> dict[str, float]:
    """The choices of specifications (JSON texts by kind): how often each value occurs at each place, and numbers as sign · log(1 + |x|)."""
    found: dict[str, float] = {}
    for kind, text in specs.items():
        _collect(json.loads(text), kind, found)
    return found


def _collect(value: Any, place: str, found: dict[str, float]) -> None:
    if isinstance(value, dict):
        for name, part in value.items():
            _collect(part, f"{place}.{name}", found)
    elif isinstance(value, list):
        found[f"{place}.length={len(value)}"] = 1.0
        for part in value:
            _collect(part, f"{place}[]", found)
    else:
        found[f"{place}={value}"] = found.get(f"{place}={value}", 0.0) + 1.0
        if isinstance(value, int | float) and not isinstance(value, bool):
            found[f"{place}#"] = found.get(f"{place}#", 0.0) + math.copysign(math.log1p(abs(value)), value) / 3.0
