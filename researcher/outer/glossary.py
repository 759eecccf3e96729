"""What the inputs of modules mean, and how large they are, for prompts."""

import ast
import inspect
from functools import cache
from typing import Any

import numpy as np

from serl.agents.execution.environment.layout import Layout
from serl.researcher.modules.contracts import Form, Kind, RewardInputs
from serl.researcher.modules.specs import json_schema
from serl.researcher.outer.uniform import choices, resolved
from serl.researcher.validation.recorded import load

OBSERVATIONS = {
    "time_left": "share of the window that is left, 1 to 0",
    "inventory": "share of the order that is left, 1 to 0",
    "behind_schedule": "inventory - time_left: above 0 is late",
    "resting": "own resting quantity as a share of the order",
    "ahead": "log of what is queued before the own order",
    "sign": "+1 sell, -1 buy",
    "drift": "move of the mid since the start",
    "spread": "ask - bid in typical spreads",
    "imbalance": "(bid - ask) / (bid + ask) lots at the touch, -1 to 1",
    "return": "move of the mid in a past step, _0 the last",
    "volume": "log of the volume of a past step",
    "signed": "bought less sold volume of a past step, -1 to 1",
    "gap": "mid above the VWAP of a past step",
    "bid_distance": "distance of a bid level from the mid",
    "ask_distance": "distance of an ask level from the mid",
    "bid_lots": "log of the quantity of a bid level",
    "ask_lots": "log of the quantity of an ask level",
}
"""The observations by name, without the number of a level or step."""
SPEC_FIELDS = {Kind.REWARD: "feature", Kind.POLICY: "observed", Kind.COMMUNICATE: "observation"}
"""The field of a specification that names an input."""


def glossary(kind: Kind, form: Form) -> list[str]:
    """A line for each input that a module of the kind may use: name, meaning, and its range from the 5th to the 95th percentile of recorded
    inputs; empty for kinds without named inputs."""
    if kind not in SPEC_FIELDS:
        return []
    ranges = _reward_ranges() if kind is Kind.REWARD else _observation_ranges()
    meanings = reward_meanings() if kind is Kind.REWARD else OBSERVATIONS
    names = _choices_of(kind) if form == "spec" else list(ranges)
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(name if name in meanings else name.rpartition("_")[0], []).append(name)
    return [_line(members, meanings[group], ranges) for group, members in groups.items() if group in meanings]


def _line(names: list[str], meaning: str, ranges: dict[str, tuple[float, float]]) -> str:
    known = [ranges[name] for name in names if name in ranges]
    name = names[0] if len(names) == 1 else f"{names[0]} .. {names[-1]}"
    if not known or " to " in meaning or " .. " in meaning:  # the meaning already states the range
        return f"{name}: {meaning}"
    return f"{name}: {meaning} [{min(low for low, _ in known):.2g}, {max(high for _, high in known):.2g}]"


def _choices_of(kind: Kind) -> list[str]:
    """The inputs that the specification of a kind can name."""
    return _search(json_schema(kind), json_schema(kind).get("$defs", {}), SPEC_FIELDS[kind])


def _search(schema: dict[str, Any], definitions: dict[str, Any], field: str) -> list[str]:
    schema = resolved(schema, definitions)
    found = list[str]()
    for name, value in schema.get("properties", {}).items():
        options = choices(resolved(value, definitions))
        found += options if name == field and options else []
        if resolved(value, definitions).get("type") == "array":
            found += _search(value["items"], definitions, field)
    return list(dict.fromkeys(found))


@cache
def _observation_ranges() -> dict[str, tuple[float, float]]:
    low, high = np.percentile(load().observations, (5, 95), axis=0)
    return {name: (float(low[index]), float(high[index])) for index, name in enumerate(Layout().names)}


@cache
def _reward_ranges() -> dict[str, tuple[float, float]]:
    return {
        name: (float(np.percentile(values, 5)), float(np.percentile(values, 95)))
        for name in RewardInputs.__dataclass_fields__
        for values in [np.concatenate([getattr(step, name) for step in load().steps])]
    }


@cache
def reward_meanings() -> dict[str, str]:
    """The documentation of the fields of RewardInputs."""
    (definition,) = ast.parse(inspect.getsource(RewardInputs)).body
    assert isinstance(definition, ast.ClassDef)
    found, name = dict[str, str](), ""
    for node in definition.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            name = node.target.id
        elif name and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            found[name] = " ".join(str(node.value.value).split()).rstrip(".")
    return found
