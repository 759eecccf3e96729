"""Specifications drawn from their schema: uniformly, for the random proposer and for exploration in tuning, or by the caller's choices."""

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from serl.researcher.modules.contracts import Kind
from serl.researcher.modules.specs import json_schema, parse

Path = tuple[str | int, ...]
Choose = Callable[[Path, Sequence[Any]], Any]
"""Maps (path, options) to one of the options; for a list the options are its lengths."""


def draw(kind: Kind, rng: np.random.Generator) -> str:
    """Draw a specification: all list lengths and all choices are equally probable. Whitespace is as in answers of the embedded endpoint."""
    return written(chosen(kind, uniformly(rng)))


def written(values: Any) -> str:
    """The text of a specification's plain values."""
    return json.dumps(values)


def chosen(kind: Kind, choose: Choose) -> Any:
    """The plain values of a specification whose fields `choose` chooses."""
    schema = json_schema(kind)
    return drawn(schema, schema.get("$defs", {}), choose)


def uniformly(rng: np.random.Generator) -> Choose:
    """A `Choose` that chooses uniformly."""
    return lambda path, options: options[int(rng.integers(len(options)))]


def log_p(kind: Kind, text: str) -> float:
    """Log-probability of a specification under `draw`, which writes every field; fields that an older one lacks count as written."""
    schema = json_schema(kind)
    return _log_p(schema, schema.get("$defs", {}), parse(kind, text).model_dump(mode="json"))


def resolved(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """The schema that a reference points to, or the schema itself."""
    found: dict[str, Any] = definitions[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    return found


def choices(schema: dict[str, Any]) -> list[Any] | None:
    """The values of a choice; None for lists and objects."""
    return [schema["const"]] if "const" in schema else schema.get("enum")


def drawn(schema: dict[str, Any], definitions: dict[str, Any], choose: Choose, path: Path = ()) -> Any:
    """A value of a schema, composed of choices."""
    schema = resolved(schema, definitions)
    options = choices(schema)
    if options is not None:
        return choose(path, options)
    if schema["type"] == "array":
        length = choose(path, range(schema.get("minItems", 0), schema["maxItems"] + 1))
        return [drawn(schema["items"], definitions, choose, (*path, place)) for place in range(length)]
    return {name: drawn(field, definitions, choose, (*path, name)) for name, field in schema["properties"].items()}


def _log_p(schema: dict[str, Any], definitions: dict[str, Any], value: Any) -> float:
    schema = resolved(schema, definitions)
    options = choices(schema)
    if options is not None:
        return -math.log(len(options))
    if schema["type"] == "array":
        lengths = schema["maxItems"] + 1 - schema.get("minItems", 0)
        return -math.log(lengths) + sum(_log_p(schema["items"], definitions, item) for item in value)
    return sum(_log_p(field, definitions, value[name]) for name, field in schema["properties"].items())
