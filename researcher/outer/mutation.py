"""Changes of specifications without a model: mutation to neighbouring choices, and crossing of two specifications.

Both read the JSON schema of a kind, so they know all its fields. A number moves to a neighbour in its list of choices, a word becomes any other
word, a list gains or loses an item.
"""

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from serl.researcher.modules.contracts import Kind
from serl.researcher.modules.specs import json_schema
from serl.researcher.outer.uniform import Path, choices, drawn, resolved, uniformly

TWO_CHANGES_SHARE = 0.3
"""Share of mutations that change two choices instead of one."""
Change = tuple[Path, Callable[[np.random.Generator], Any]]
"""(path, function that draws the new value at the path)."""


def mutate(kind: Kind, text: str, rng: np.random.Generator) -> str:
    """The specification with one or two choices changed."""
    schema = json_schema(kind)
    value = json.loads(text)
    for _ in range(1 + (rng.random() < TWO_CHANGES_SHARE)):
        changes = list(_changes(schema, schema.get("$defs", {}), value, ()))
        path, make = changes[rng.integers(len(changes))]
        value = _with(value, path, make(rng))
    return json.dumps(value)


def cross(kind: Kind, one: str, other: str, rng: np.random.Generator) -> str:
    """Each field from either specification; lists of objects draw their items from both."""
    schema = json_schema(kind)
    return json.dumps(_crossed(schema, schema.get("$defs", {}), json.loads(one), json.loads(other), rng))


def _changes(schema: dict[str, Any], definitions: dict[str, Any], value: Any, path: Path) -> Iterator[Change]:
    schema = resolved(schema, definitions)
    options = choices(schema)
    if options is not None:
        near = neighbours(options, value)
        if near:
            yield path, lambda rng: near[rng.integers(len(near))]
    elif schema["type"] == "array":
        for index, item in enumerate(value):
            yield from _changes(schema["items"], definitions, item, (*path, index))
        if len(value) < schema["maxItems"]:
            yield path, lambda rng: [*value, drawn(schema["items"], definitions, uniformly(rng))]
        if len(value) > schema.get("minItems", 0):
            yield path, lambda rng: _without(value, int(rng.integers(len(value))))
    else:
        for name, field in schema["properties"].items():
            if name in value:
                yield from _changes(field, definitions, value[name], (*path, name))


def neighbours(options: list[Any], value: Any) -> list[Any]:
    """The next smaller and the next larger number in a list of choices; for a word, all other words."""
    if all(isinstance(option, int | float) and not isinstance(option, bool) for option in options):
        ordered = sorted(options)
        place = ordered.index(value)
        return [ordered[index] for index in (place - 1, place + 1) if 0 <= index < len(ordered)]
    return [option for option in options if option != value]


def _without(value: list[Any], index: int) -> list[Any]:
    return value[:index] + value[index + 1 :]


def _with(value: Any, path: Path, new: Any) -> Any:
    """A copy with the value at a path replaced."""
    if not path:
        return new
    changed = copy.copy(value)
    changed[path[0]] = _with(value[path[0]], path[1:], new)
    return changed


def _crossed(schema: dict[str, Any], definitions: dict[str, Any], one: Any, other: Any, rng: np.random.Generator) -> Any:  # fmt: skip
    schema = resolved(schema, definitions)
    if choices(schema) is not None:
        return one if rng.random() < 0.5 else other
    if schema["type"] == "array":
        if choices(resolved(schema["items"], definitions)) is not None:  # an order, such as the layers of a network
            return one if rng.random() < 0.5 else other
        items = [item for item in one if item in other]
        rest = [item for item in (*one, *other) if item not in items]
        items += [item for item in rest if rng.random() < 0.5]
        return (items or rest[: schema.get("minItems", 0)])[: schema["maxItems"]]
    return {
        name: _crossed(field, definitions, one.get(name, other.get(name)), other.get(name, one.get(name)), rng)
        for name, field in schema["properties"].items()
        if name in one or name in other
    }
