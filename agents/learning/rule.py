"""Rules: functions of a decision's inputs that say what to trade, as data in a policy file; a policy follows one without any training.

A rule maps (N, d) inputs, the observations followed by the number of decisions left, to (N, 3) outputs: what crosses the book now and what rests,
in even slices (remaining quantity over remaining decisions), and the offset of what rests, from -1 to 1. Terms are made of choices that a
specification gives; a graph (graphs.py) is traced from code.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from serl.agents.execution.policies.policy import Floats

OUTPUTS = ("take", "rest", "offset")
STEPS_LEFT = "steps_left"
"""The input that follows the observations: decisions left, this one included."""
SIGNED = ("imbalance", "drift", "return", "signed", "gap")
"""Observations that are signed like a price; terms take them with the sign of a gain for the order."""
SHAPES: dict[str, Callable[[Floats], Floats]] = {
    "linear": lambda values: values,
    "positive": lambda values: np.maximum(values, 0.0),
    "negative": lambda values: np.minimum(values, 0.0),
    "tanh": np.tanh,
    "square": np.square,
}


class Rule(Protocol):
    """See the module."""

    def __call__(self, inputs: Floats, /) -> Floats:
        """(N, d) inputs to (N, 3) outputs."""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON; see `rule_from_json`."""


@dataclasses.dataclass(frozen=True)
class Term:
    """weight x shape(input), added to an output."""

    output: str
    column: int
    shape: str
    weight: float


@dataclasses.dataclass(frozen=True)
class Terms:
    """Constants, a catch-up for orders that are late, and terms.

    What the order is behind an even schedule by more than `late_share` of its quantity crosses at once; in the last `finish_share` of the
    window even slices cross and the rest of the order rests.
    """

    names: tuple[str, ...]
    """Of the inputs."""
    take: float
    rest: float
    offset: float
    late_share: float
    finish_share: float
    terms: tuple[Term, ...] = ()

    def __call__(self, inputs: Floats) -> Floats:
        """See Rule."""
        columns = dict(zip(self.names, inputs.T, strict=True))
        sign, steps_left = columns["sign"], columns[STEPS_LEFT]
        outputs = np.repeat([[self.take, self.rest, self.offset]], len(inputs), axis=0)
        for term in self.terms:
            values = inputs[:, term.column]
            if self.names[term.column].partition("_")[0] in SIGNED:
                values = values * sign
            outputs[:, OUTPUTS.index(term.output)] += term.weight * SHAPES[term.shape](values)
        slice_share = np.maximum(columns["inventory"], 1e-9) / steps_left  # of the parent order
        late = np.maximum(0.0, columns["behind_schedule"] - self.late_share) / slice_share
        finishing = columns["time_left"] <= self.finish_share + 1e-9
        outputs[:, 0] = np.where(finishing, np.maximum(outputs[:, 0], 1.0), np.maximum(outputs[:, 0], 0.0)) + late
        outputs[:, 1] = np.where(finishing, steps_left, outputs[:, 1])
        return outputs

    def to_json(self) -> dict[str, Any]:
        """See Rule."""
        return dataclasses.asdict(self)


def input_names(observations: Sequence[str]) -> tuple[str, ...]:
    """Names of a rule's inputs, for observations of these names."""
    return (*observations, STEPS_LEFT)
