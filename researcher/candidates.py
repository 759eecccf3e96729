"""What the researcher searches among: candidates, sets of modules, and what became of them."""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from serl.researcher.modules.contracts import Form, Kind


@dataclasses.dataclass(frozen=True)
class Module:
    """The text of a module."""

    form: Form
    text: str


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A learning algorithm: one module of each kind that it changes; kinds left out are the defaults of training."""

    modules: Mapping[Kind, Module]

    @property
    def key(self) -> str:
        """Names the content; the same modules have the same key."""
        content = {kind.value: [one.form, one.text] for kind, one in sorted(self.modules.items())}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


@dataclasses.dataclass(frozen=True)
class Budget:
    """What the training of one candidate may cost."""

    static_steps: int = 200_000
    dynamic_steps: int = 20_000
    seed: int = 0
    wall_s: float = 600.0


@dataclasses.dataclass(frozen=True)
class Score:
    """Measured by episodes on a served exchange in lockstep."""

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
    """PA of each order, in the order of the episodes: paired comparisons of candidates."""


@dataclasses.dataclass(frozen=True)
class Result:
    """What became of a candidate."""

    stage: str
    """`reading`, `trial`, `training`, `halved` (stopped early as hopeless), `scoring`, or `done`."""
    reason: str
    """Why it ended before `done`: a sentence that can be given to a language model."""
    score: Score | None
    policy: str | None
    """File of the trained policy."""
    facts: Mapping[str, Any]
    """Learning curves, seconds by stage, steps."""
