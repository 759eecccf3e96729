"""Rules: functions from a decision's inputs to what to trade, stored as data in a policy file. A policy follows a rule without training.

A rule maps (N, d) inputs, the observations followed by the number of decisions left, to (N, 3) outputs: what crosses the book now and what rests,
in even slices (remaining quantity over remaining decisions), and the offset of what rests, from -1 to 1. Rules are Terms, which a specification
describes, or graphs (graphs.py), which are traced from code.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from serl.agents.execution.policies.policy import Floats

OUTPUTS = ("take", "rest", "offset")
STEPS_LEFT = "steps_left"
"""The input after the observations: the number of decisions left, including this one."""
SIGNED = ("imbalance", "drift", "return", "signed", "gap")
"""Observations with the sign of a price move; terms use them with the sign of a gain for the order."""
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
        """Maps (N, d) inputs to (N, 3) outputs."""

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
    """A rule made of constants, a catch-up for late orders, and terms.

    Of the quantity behind an even schedule, what exceeds `late_share` of the order crosses at once. In the last `finish_share` of the window, even
    slices cross and the rest of the order rests.
    """

    names: tuple[str, ...]
    """Names of the inputs."""
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
        slice_share = np.maximum(columns["inventory"], 1e-9) / steps_left  # share of the parent order
        late = np.maximum(0.0, columns["behind_schedule"] - self.late_share) / slice_share
        finishing = columns["time_left"] <= self.finish_share + 1e-9
        outputs[:, 0] = np.where(finishing, np.maximum(outputs[:, 0], 1.0), np.maximum(outputs[:, 0], 0.0)) + late
        outputs[:, 1] = np.where(finishing, steps_left, outputs[:, 1])
        return outputs

    def to_json(self) -> dict[str, Any]:
        """See Rule."""
        return dataclasses.asdict(self)


def input_names(observations: Sequence[str]) -> tuple[str, ...]:
    """Names of a rule's inputs, for observations with these names."""
    return (*observations, STEPS_LEFT)
