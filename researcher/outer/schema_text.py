"""The schema of a specification as a short text: its fields and the choices of each."""

import json
from collections.abc import Iterator
from typing import Any

from serl.researcher.modules.contracts import Kind
from serl.researcher.modules.specs import json_schema
from serl.researcher.outer.uniform import choices, resolved


def schema_text(kind: Kind) -> str:
    """One line per field, indented by depth."""
    schema = json_schema(kind)
    return "\n".join(_fields(schema, schema.get("$defs", {}), ""))


def _fields(schema: dict[str, Any], definitions: dict[str, Any], indent: str) -> Iterator[str]:
    for name, field in schema["properties"].items():
        found = resolved(field, definitions)
        about = f" ({field['description']})" if "description" in field else ""
        options = choices(found)
        if options is not None:
            yield f"{indent}{name}{about}: {_joined(options)}"
        elif found["type"] == "array":
            yield from _list(name, about, found, definitions, indent)
        else:
            yield f"{indent}{name}{about}: an object with"
            yield from _fields(found, definitions, indent + "  ")


def _list(name: str, about: str, schema: dict[str, Any], definitions: dict[str, Any], indent: str) -> Iterator[str]:
    items = resolved(schema["items"], definitions)
    count = f"list of {schema.get('minItems', 0)} to {schema['maxItems']}"
    options = choices(items)
    if options is not None:
        yield f"{indent}{name}{about}: {count} of {_joined(options)}"
        return
    yield f"{indent}{name}{about}: {count} objects; {' '.join(items.get('description', '').split())}"
    yield from _fields(items, definitions, indent + "  ")


def _joined(options: list[Any]) -> str:
    return " | ".join(option if isinstance(option, str) else json.dumps(option) for option in options)
