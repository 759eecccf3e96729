"""Specifications drawn uniformly from their schema: the proposal that knows nothing, and the exploration of the one that learns."""

import json
import math
from typing import Any

import numpy as np

from serl.researcher.modules.contracts import Kind
from serl.researcher.modules.specs import json_schema


def draw(kind: Kind, rng: np.random.Generator) -> str:
    """A specification: every length of a list and every choice equally probable. The text is laid out as the embedded endpoint does it."""
    schema = json_schema(kind)
    return json.dumps(_draw(schema, schema.get("$defs", {}), rng))


def log_p(kind: Kind, text: str) -> float:
    """Logarithm of the probability with which `draw` gives a specification."""
    schema = json_schema(kind)
    return _log_p(schema, schema.get("$defs", {}), json.loads(text))


def _resolved(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = definitions[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    return found


def _draw(schema: dict[str, Any], definitions: dict[str, Any], rng: np.random.Generator) -> Any:
    schema = _resolved(schema, definitions)
    if "enum" in schema:
        return schema["enum"][rng.integers(len(schema["enum"]))]
    if schema["type"] == "array":
        length = rng.integers(schema.get("minItems", 0), schema["maxItems"] + 1)
        return [_draw(schema["items"], definitions, rng) for _ in range(length)]
    return {name: _draw(field, definitions, rng) for name, field in schema["properties"].items()}


def _log_p(schema: dict[str, Any], definitions: dict[str, Any], value: Any) -> float:
    schema = _resolved(schema, definitions)
    if "enum" in schema:
        return -math.log(len(schema["enum"]))
    if schema["type"] == "array":
        lengths = schema["maxItems"] + 1 - schema.get("minItems", 0)
        return -math.log(lengths) + sum(_log_p(schema["items"], definitions, item) for item in value)
    return sum(_log_p(field, definitions, value[name]) for name, field in schema["properties"].items())
