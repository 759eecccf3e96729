"""Candidates (sets of modules), the budget of their training, and their results."""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

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
    parent: str | None = dataclasses.field(default=None, compare=False)
    """Key of the candidate that it descends from, whose weights it may start from; not part of its own key."""

    @classmethod
    def of_specifications(cls, values: Mapping[Kind, Mapping[str, Any]]) -> "Candidate":
        """A candidate made of specifications, given as plain values by kind."""
        return cls({kind: Module("spec", json.dumps(spec)) for kind, spec in values.items()})

    @property
    def is_rule(self) -> bool:
        """Whether the candidate is a policy without training. With modules that training uses, its rule is what the policy learns to correct."""
        kinds = set(self.modules)
        return Kind.POLICY in kinds and kinds <= {Kind.POLICY, Kind.INTERFACE}

    @property
    def key(self) -> str:
        """Hash of the content: equal modules have equal keys."""
        content = {kind.value: [one.form, one.text] for kind, one in sorted(self.modules.items())}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


@dataclasses.dataclass(frozen=True)
class Budget:
    """Limits on the training of one candidate."""

    static_steps: Annotated[int, Field(ge=0)] = 200_000
    dynamic_steps: Annotated[int, Field(ge=0)] = 20_000
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    wall_s: Annotated[float, Field(gt=0, le=1e7)] = 600.0


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
    """AFI: mean unfilled share of the orders at the end of the window, before forced completion."""
    impact_bps: float
    advantages_bps: tuple[float, ...] = ()
    """PA of each order in whose window the market traded, in the order of the episodes, for paired comparisons of candidates."""
    clusters: tuple[int, ...] = ()
    """Cluster of each of these orders: its date, or its symbol-day or block where there are few dates. Equal numbers mean the same in all scores."""
    controls_bps: tuple[float, ...] = ()
    """Move of the market over the window of each of these orders, without our orders, times the order's sign. Its mean is 0, because sides are
    drawn at random."""
    behaviour: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """What the policy does and where it gains; see inner/behaviour.py. Empty for scores of older runs."""
    twap_bps: float | None = None
    """PA of a TWAP with market orders on the same orders; None for scores of older runs."""
    filled: float | None = None
    """FFR: the share of the orders that was filled, forced completion included; None for scores of older runs."""
    twap_filled: float | None = None
    """FFR of that TWAP."""


NUMBERS_OF_ORDERS = ("advantages_bps", "clusters", "controls_bps", "behaviour")
"""Parts of a score that are too long for a table."""


@dataclasses.dataclass(frozen=True)
class Paired:
    """A candidate's PA minus the incumbent's, on the same orders, days and training seeds (docs/inner.md)."""

    difference_bps: float
    se_bps: float
    """Standard error, clustered by day and, with two seeds or more, by seed."""
    low_bps: float
    high_bps: float
    """Ends of the 95 % t-interval."""
    seeds: int
    """Number of trainings of each of the two, or of batches of orders if neither is trained. The interval of a single training cannot cover the
    spread between trainings."""
    share: float
    """Share of the training steps that these trainings took."""
    orders: int
    controlled: bool
    """Whether the control variate lowered the standard error and was used."""


@dataclasses.dataclass(frozen=True)
class Result:
    """The outcome of evaluating a candidate."""

    stage: str
    """Last stage: `static check`, `dry run`, `training`, `scoring`, `halved` (others were better in the race) or `done`."""
    reason: str
    """Why the candidate ended before `done`, as a sentence for a language model."""
    score: Score | None
    policy: str | None
    """Path of the trained policy."""
    facts: Mapping[str, Any]
    """Learning curves, seconds by stage, steps."""
    paired: Paired | None = None
    """Paired score against the incumbent; None without a score, or if there was no incumbent."""


_FORMER_STAGES = {"reading": "static check", "read": "static check", "trial": "dry run"}


def current_stage(stage: str) -> str:
    """The present name of a stage that is stored in a run database or a result file. Older ones use other names for the stages of validation."""
    return _FORMER_STAGES.get(stage, stage)
