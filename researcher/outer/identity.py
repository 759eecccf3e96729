"""When two modules count as the same: by their normalised text, and for rules and rewards by what they do on fixed inputs.

Evaluating a near-duplicate costs a training and teaches nothing (Lange et al. 2025, arXiv 2509.19349, reject them before evaluation).
"""

import ast
import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from typing import Any

import numpy as np

from serl.agents.learning.rule import STEPS_LEFT
from serl.researcher.candidates import Candidate, Module
from serl.researcher.modules import build, specs
from serl.researcher.modules.build import RULE_NAMES
from serl.researcher.modules.contracts import Floats, Kind
from serl.researcher.validation.recorded import load

LEFT = (1.0, 0.8, 0.6, 0.4, 0.25, 0.1, 0.05, 0.02)
LATENESS = (-0.3, -0.1, 0.01, 0.03, 0.07, 0.15, 0.3, 0.6)
"""Shares of the window left, and of the order behind an even schedule, of the inputs that rules are compared on."""
STEPS = 50
DIGITS = 6


def text_identity(candidate: Candidate) -> str:
    """Hash of the normalised modules: equal for texts that differ in layout, comments, names of variables or the order of terms."""
    return _hash({kind.value: normalised(kind, module) for kind, module in candidate.modules.items()})


def behaviour_identity(candidate: Candidate) -> str:
    """Hash of what the modules do where that is cheap to find out (specifications of rules and rewards), and of their normalised text elsewhere."""
    return _hash({kind.value: _behaviour(kind, module) for kind, module in candidate.modules.items()})


def _hash(parts: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


@lru_cache(4096)
def normalised(kind: Kind, module: Module) -> str:
    """A module's text in a normal form."""
    if module.form == "spec":
        return json.dumps(_sorted(json.loads(module.text)), sort_keys=True)
    try:
        return _normalised_code(module.text)
    except RecursionError:  # deeper than validation now allows; an earlier version accepted it
        return hashlib.sha256(module.text.encode()).hexdigest()


def _sorted(value: Any) -> Any:
    """The value in a normal form: lists of objects are sums or sets, so they are sorted; the order of other lists matters."""
    if isinstance(value, dict):
        return {name: _sorted(item) for name, item in value.items()}
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        return sorted(value, key=lambda item: json.dumps(item, sort_keys=True))
    return value


def _normalised_code(text: str) -> str:
    """The syntax tree without docstrings, with variables numbered by their first appearance. A number cannot clash with a name in Python.
    Parameters and functions keep their names, which tell them apart."""
    tree = ast.parse(text)
    own = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    own -= set(_other_names(tree))
    number = {name: f"<{place}>" for place, name in enumerate(name for name in _names(tree) if name in own)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            node.id = number.get(node.id, node.id)
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and _is_docstring(body[0]):
            node.body = body[1:]  # pyrefly: ignore[missing-attribute]
    return ast.dump(tree, annotate_fields=False)


def _names(tree: ast.AST) -> list[str]:
    return list(dict.fromkeys(node.id for node in ast.walk(tree) if isinstance(node, ast.Name)))


def _other_names(tree: ast.AST) -> Iterator[str]:
    """Names of parameters, functions, classes, imports, and variables of other scopes."""
    for node in ast.walk(tree):
        yield from getattr(node, "names", ()) if isinstance(node, ast.Global | ast.Nonlocal) else ()
        yield from filter(None, (getattr(node, field, None) for field in ("arg", "name", "asname")))


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


@lru_cache(4096)
def _behaviour(kind: Kind, module: Module) -> str:
    if module.form == "code" or kind not in (Kind.POLICY, Kind.REWARD):
        return normalised(kind, module)
    function = build.build(specs.parse(kind, module.text))
    if kind is Kind.REWARD:
        outputs = np.stack([function(step) for step in load().steps])
    else:
        outputs = actions(np.asarray(function(rule_inputs()), np.float64))
    return hashlib.sha256((np.round(outputs, DIGITS) + 0.0).tobytes()).hexdigest()


def actions(outputs: Floats) -> Floats:
    """(n, 3) actions for a rule's outputs on `rule_inputs`, clipped as a policy clips them."""
    steps_left = rule_inputs()[:, RULE_NAMES.index(STEPS_LEFT)]
    shares = np.clip(outputs[:, :2] / steps_left[:, None], 0.0, 1.0)
    return np.concatenate([shares, np.clip(outputs[:, 2:], -1.0, 1.0)], axis=1)


@cache
def rule_inputs() -> Floats:
    """(n, d) inputs of rules: the recorded observations for both sides, early and late in the window, ahead of and behind the schedule."""
    observed = load().observations
    states = np.array(list(itertools.product(LEFT, LATENESS, (-1.0, 1.0))))
    states = states[states[:, 0] + states[:, 1] > 0]
    left, late, sign = (np.repeat(column, len(observed)) for column in states.T)
    inputs = np.concatenate([np.tile(observed, (len(states), 1)), np.ceil(left * STEPS)[:, None]], axis=1)
    inventory = np.minimum(left + late, 1.0)
    for name, values in (
        ("time_left", left),
        ("inventory", inventory),
        ("behind_schedule", inventory - left),
        ("sign", sign),
    ):
        inputs[:, RULE_NAMES.index(name)] = values
    inputs.flags.writeable = False
    return inputs
