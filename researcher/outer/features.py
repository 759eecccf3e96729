"""The choices in a candidate, as short statements such as `policy rest_percent 400`, to relate choices to scores."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from serl.researcher.candidates import Candidate
from serl.researcher.modules.contracts import Kind


def features(candidate: Candidate, kinds: Sequence[Kind]) -> set[str]:
    """The choices in a candidate's specifications, and the kinds that it leaves at the default."""
    found = set[str]()
    for kind in kinds:
        module = candidate.modules.get(kind)
        if module is None:
            found.add(f"{kind.value} default")
        elif module.form == "spec":
            found |= {f"{kind.value} {text}" for text in _choices(json.loads(module.text), "")}
    return found


def _choices(value: Any, name: str) -> Iterator[str]:
    """Each choice with the name of its field; for lists also the length, and for objects in them their words together, without numbers."""
    if isinstance(value, dict):
        for field, item in value.items():
            yield from _choices(item, field)
    elif isinstance(value, list):
        yield f"{name} of length {len(value)}"
        for item in value:
            if isinstance(item, dict):
                yield f"{name} with {' '.join(text for text in item.values() if isinstance(text, str))}"
    else:
        yield f"{name} {value}"
