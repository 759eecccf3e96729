"""Candidates (sets of modules), the budget of their training, and their results."""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from serl.researcher.modules.contracts import Form, Kind


@dataclasses.dataclass(frozen=True)
class Module:
    """A module as text."""

    form: Form
    text: str


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A learning algorithm: at most one module of each kind. Missing kinds use the default."""

    modules: Mapping[Kind, Module]

    @property
    def key(self) -> str:
        """Hash of the content: equal modules have equal keys."""
        content = {kind.value: [one.form, one.text] for kind, one in sorted(self.modules.items())}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


@dataclasses.dataclass(frozen=True)
class Budget:
    """Limits on the training of one candidate."""

    static_steps: int = 200_000
    dynamic_steps: int = 20_000
    seed: int = 0
    wall_s: float = 600.0


@dataclasses.dataclass(frozen=True)
class Score:
    """The measured performance of a policy, from episodes on a served exchange in lockstep."""

    pa_bps: float
    low_bps: float
    high_bps: float
    pa_twap_bps: float
    orders: int
    pa_std_bps: float
    unfilled: float
    """AFI."""
    impact_bps: float
    advantages_bps: tuple[float, ...] = ()
    """PA of each order, in the order of the episodes, for paired comparisons of candidates."""
    behaviour: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """What the policy does and where it gains; see inner/behaviour.py. Empty for scores of older runs."""


@dataclasses.dataclass(frozen=True)
class Result:
    """The outcome of evaluating a candidate."""

    stage: str
    """Last stage: `static check`, `dry run`, `training`, `scoring`, `halved` (stopped early by successive halving) or `done`."""
    reason: str
    """Why the candidate ended before `done`, as a sentence for a language model."""
    score: Score | None
    policy: str | None
    """Path of the trained policy."""
    facts: Mapping[str, Any]
    """Learning curves, seconds by stage, steps."""


_FORMER_STAGES = {"reading": "static check", "read": "static check", "trial": "dry run"}


def current_stage(stage: str) -> str:
    """The present name of a stage that a run database or a result file holds: older ones have other names of the stages of validation."""
    return _FORMER_STAGES.get(stage, stage)
