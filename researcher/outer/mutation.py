"""Changes of specifications without a model: a mutation to neighbouring choices, and a crossing of two.

Both read the JSON schema of a kind, so they know every field that the schema has. A number moves to a neighbour in its list of choices, a
word becomes any other, a list gains or loses an item.
"""

import json
from typing import Any

import numpy as np

from serl.researcher.modules.contracts import Kind
from serl.researcher.modules.specs import json_schema
from serl.researcher.outer.uniform import choices, drawn, resolved, uniformly

TWO_CHANGES_SHARE = 0.3
"""Share of mutations that change two choices instead of one."""


def mutate(kind: Kind, text: str, rng: np.random.Generator) -> str:
    """The specification with one or two choices changed.

    At each level one part is chosen uniformly: a field of an object; an item of a list, or its length. So a long list, whose fields outnumber
    all others, gets no more changes than a single number, and a new item is as probable as a change of an old one.
    """
    schema = json_schema(kind)
    value = json.loads(text)
    for _ in range(1 + (rng.random() < TWO_CHANGES_SHARE)):
        value = _changed(schema, schema.get("$defs", {}), value, rng)
    return json.dumps(value)


def cross(kind: Kind, one: str, other: str, rng: np.random.Generator) -> str:
    """Each field from either specification; lists of objects draw their items from both."""
    schema = json_schema(kind)
    return json.dumps(_crossed(schema, schema.get("$defs", {}), json.loads(one), json.loads(other), rng))


def _changed(schema: dict[str, Any], definitions: dict[str, Any], value: Any, rng: np.random.Generator) -> Any:
    """The value with one choice changed; itself where there is no other choice."""
    schema = resolved(schema, definitions)
    options = choices(schema)
    if options is not None:
        near = neighbours(options, value)
        return near[int(rng.integers(len(near)))] if near else value
    if schema["type"] == "array":
        return _changed_list(schema, definitions, value, rng)
    names = [name for name, field in schema["properties"].items() if name in value and _can_change(field, definitions)]
    name = names[int(rng.integers(len(names)))]
    return {**value, name: _changed(schema["properties"][name], definitions, value[name], rng)}


def _can_change(schema: dict[str, Any], definitions: dict[str, Any]) -> bool:
    options = choices(resolved(schema, definitions))
    return options is None or len(options) > 1


def _changed_list(schema: dict[str, Any], definitions: dict[str, Any], value: list[Any], rng: np.random.Generator) -> list[Any]:  # fmt: skip
    """A list with an item more, an item less, or one changed, each as probable where it is possible."""
    ways = ["more"] * (len(value) < schema["maxItems"]) + ["less"] * (len(value) > schema.get("minItems", 0))
    ways += ["changed"] * bool(value)
    way, place = ways[int(rng.integers(len(ways)))], int(rng.integers(len(value))) if value else 0
    if way == "more":
        return [*value, drawn(schema["items"], definitions, uniformly(rng))]
    changed = [_changed(schema["items"], definitions, value[place], rng)] if way == "changed" else []
    return value[:place] + changed + value[place + 1 :]


def neighbours(options: list[Any], value: Any) -> list[Any]:
    """The next smaller and the next larger number of a list of choices; any other word."""
    if all(isinstance(option, int | float) and not isinstance(option, bool) for option in options):
        ordered = sorted(options)
        place = ordered.index(value)
        return [ordered[index] for index in (place - 1, place + 1) if 0 <= index < len(ordered)]
    return [option for option in options if option != value]


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
