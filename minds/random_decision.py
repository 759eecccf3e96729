"""Decisions without a model: zero intelligence within a budget, as in Gode and Sunder, Allocative efficiency of markets with zero-intelligence
traders (1993), but over all that a mind can do."""

import json
from decimal import Decimal
from typing import Any

import numpy as np

from serl.researcher.llm.answers import Answer


def random_decision(schema: dict[str, Any], random: np.random.Generator) -> Answer:
    """An alternative of an `exact_schema` and each of its values, drawn uniformly. Texts are empty."""
    choices = schema["anyOf"]
    properties = choices[int(random.integers(len(choices)))]["properties"]
    return Answer(json.dumps({name: _value(one, random) for name, one in properties.items()}), "stop")


def _value(schema: dict[str, Any], random: np.random.Generator) -> Any:
    if "enum" in schema:
        return schema["enum"][int(random.integers(len(schema["enum"])))]
    if schema["type"] == "string":
        return ""
    step = schema.get("multipleOf", 1)
    low, high = round(schema["minimum"] / step), round(schema["maximum"] / step)
    value = int(random.integers(low, high + 1)) * Decimal(str(step))  # as floats, high prices would leave the grid
    return float(value) if schema["type"] == "number" else int(value)
