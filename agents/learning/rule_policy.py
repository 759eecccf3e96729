"""Policies that follow a rule (rule.py), saved as files."""

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from serl.agents.execution.environment.interface import Interface
from serl.agents.execution.environment.layout import Layout
from serl.agents.execution.environment.vector import ExecutionVectorEnv
from serl.agents.execution.policies.policy import Floats
from serl.agents.learning import files
from serl.agents.learning.errors import LearningError
from serl.agents.learning.graphs import Graph
from serl.agents.learning.rule import OUTPUTS, SHAPES, Rule, Term, Terms, input_names

KIND = "rule"
ROWS = 3
"""Number of rows in the trial run of a graph."""


@dataclasses.dataclass(frozen=True)
class GraphRule:
    """A rule computed by a graph."""

    graph: Graph

    def __call__(self, inputs: Floats) -> Floats:
        """See Rule."""
        with torch.inference_mode():
            outputs = self.graph(torch.as_tensor(np.asarray(inputs, np.float32)))[0]
        return np.asarray(outputs.numpy(), np.float64)

    def to_json(self) -> dict[str, Any]:
        """See Rule."""
        return self.graph.to_json()


def graph_rule(graph: Graph, inputs: int) -> GraphRule:
    """The rule of a graph. Raises NotExportableError unless it returns (N, 3) finite numbers for N rows of `inputs` numbers."""
    graph.require_few_constants("rule")
    graph.check(ROWS, inputs, (ROWS, len(OUTPUTS)))
    return GraphRule(graph)


def rule_from_json(values: dict[str, Any], names: Sequence[str]) -> Rule:
    """The rule from the JSON of `Rule.to_json`, for inputs with these names. Raises LearningError or NotExportableError if it does not fit."""
    if "graph" in values:
        return graph_rule(Graph.from_json(values), len(names))
    try:
        tuples: dict[str, Any] = {
            "names": tuple(values["names"]),
            "terms": tuple(Term(**term) for term in values["terms"]),
        }
        terms = Terms(**{**values, **tuples})
        known = all(
            term.output in OUTPUTS and term.shape in SHAPES and 0 <= term.column < len(names) for term in terms.terms
        )
        numbers = all(map(_is_number, (terms.take, terms.rest, terms.offset, terms.late_share, terms.finish_share)))
        whole = all(type(term.column) is int and _is_number(term.weight) for term in terms.terms)
    except (TypeError, KeyError) as error:
        raise LearningError(f"rule: expected constants and terms, got {values} ({error})") from None
    if not numbers or not whole:
        raise LearningError(
            f"rule: expected finite numbers as constants and weights, and columns that are integers, got {values}"
        )
    if terms.names != tuple(names) or not known:
        raise LearningError(f"rule: expected terms of the inputs {', '.join(names)}, got {values}")
    return terms


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def rule_inputs(env: ExecutionVectorEnv) -> Floats:
    """(N, d) inputs of a rule for the current decision of an environment."""
    steps_left = env.accounts.episodes["steps"] - env.accounts.parents["step"]
    observed = env.observer.observe_all(env.market.frames, env.market.fills, env.accounts)
    return np.concatenate((observed, steps_left[:, None]), axis=1, dtype=np.float64)


def rule_names(levels: int) -> tuple[str, ...]:
    """Names of a rule's inputs for `levels` observed price levels. A rule sees all observations, including those left out for a network."""
    return input_names(Layout(levels).names)


def rule_outputs(env: ExecutionVectorEnv, rule: Rule, name: str) -> Floats:
    """(N, 3) outputs of a rule for the current decision. Raises LearningError unless they are finite."""
    outputs = rule(rule_inputs(env))
    if outputs.shape != (env.num_envs, len(OUTPUTS)) or not np.isfinite(outputs).all():
        raise LearningError(f"{name}: expected finite outputs ({env.num_envs}, 3), got shape {outputs.shape}")
    return outputs


def shares_of(env: ExecutionVectorEnv, outputs: Floats) -> Floats:
    """(N, 3) actions of mode `hybrid` for the outputs of a rule: shares of the remaining quantity, and the offset."""
    steps_left = np.maximum(env.accounts.episodes["steps"] - env.accounts.parents["step"], 1)
    take = np.clip(outputs[:, 0] / steps_left, 0.0, 1.0)
    rest = np.clip(outputs[:, 1] / steps_left, 0.0, 1.0)
    return np.stack((take, rest, np.clip(outputs[:, 2], -1.0, 1.0)), axis=1)


@dataclasses.dataclass
class RulePolicy:
    """A policy that follows a rule. See execution's Policy."""

    rule: Rule
    interface: Interface
    metadata: dict[str, Any]
    name: str = KIND

    def __post_init__(self) -> None:
        self.modes = (self.interface.actions,)

    def actions(self, env: ExecutionVectorEnv) -> Floats:
        """See execution's Policy. Raises LayoutMismatchError for other observations or actions, LearningError for outputs that are not finite."""
        self.interface.require(Interface.from_env(env))
        return shares_of(env, rule_outputs(env, self.rule, self.name))

    def save(self, path: Path) -> None:
        """Writes the whole policy to a file."""
        files.write(
            path,
            KIND,
            {},
            {"rule": self.rule.to_json(), "interface": dataclasses.asdict(self.interface), **self.metadata},
        )

    @classmethod
    def from_file(cls, metadata: dict[str, Any], name: str) -> "RulePolicy":
        """Builds the policy from a file's metadata."""
        interface = Interface.from_json(metadata["interface"])
        metadata = {"seed": 0, **metadata}  # earlier files have none, because a rule is not trained
        return cls(rule_from_json(metadata["rule"], rule_names(interface.levels)), interface, metadata, name)
