"""What a search must beat: simple rules without training, and rules that know the future of the market without our orders."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.ceiling_orders import Floats, Orders
from serl.agents.execution.policies.policy import Policy
from serl.agents.execution.policies.schedules import Schedule
from serl.agents.execution.policies.volume import Vwap
from serl.agents.learning.residual import MODE
from serl.exchange.records import Rows
from serl.researcher.candidates import Candidate, Module
from serl.researcher.inner.rules import rule_policy
from serl.researcher.inner.settings import Settings
from serl.researcher.modules.contracts import Kind

SIMPLE: dict[str, dict[str, Any]] = {
    "twap": {"take_percent": 100, "rest_percent": 0, "late_percent": 100, "finish_percent": 0},
    "resting twap": {"take_percent": 0, "rest_percent": 100, "late_percent": 0, "finish_percent": 0},
    "passive": {"take_percent": 0, "rest_percent": 3000, "late_percent": 100, "finish_percent": 20},
    "patience": {"take_percent": 0, "rest_percent": 400, "late_percent": 10, "finish_percent": 0},
}
"""Specifications. Patience rests four slices and crosses what is over three slices of thirty late."""


def rule(spec: dict[str, Any], settings: Settings) -> Policy:
    """The policy of a specification of kind `policy`; what it leaves out is neutral."""
    text = json.dumps({"offset_percent": 0, "terms": [], **spec})
    candidate = Candidate({Kind.POLICY: Module("spec", text)})
    return rule_policy(candidate, settings, Path())  # specifications leave no files


def simple_rules(settings: Settings, orders: Orders) -> dict[str, tuple[Policy, str]]:
    """Policies and their action modes; vwap where the training days have a volume curve."""
    found: dict[str, tuple[Policy, str]] = {name: (rule(spec, settings), MODE) for name, spec in SIMPLE.items()}
    curve = orders.scenario.source.volume_curve()
    return found | ({"vwap": (Vwap(curve), "hybrid")} if curve else {})


@dataclasses.dataclass(frozen=True)
class Clairvoyant(Schedule):
    """A schedule that knows the future of every order's window."""

    shares: dict[bytes, Floats]
    """By order: share of its quantity after 0, 1 ... steps."""
    name = "clairvoyant"

    def target_share(self, episodes: Rows, step: Any) -> Any:
        """See Schedule."""
        return np.array([self.shares[row.tobytes()][index] for row, index in zip(episodes, step, strict=True)])


def clairvoyant_rules(orders: Orders) -> dict[str, tuple[Policy, str]]:
    """Slices as large as the coming volume; and double slices at the better half of the coming mids. Both without our own impact, so they are bounds
    of foresight only where we have none."""
    known, episodes = orders.foresight(), orders.episodes
    volume = known.lots + 1e-9
    ranks = (episodes["sign"][:, None] * known.mids[:, :-1]).argsort(1).argsort(1)
    best = (ranks >= ranks.shape[1] // 2).astype(float)
    return {
        "foresight of volume": (_schedule(episodes, volume), "hybrid"),
        "foresight of price": (_schedule(episodes, best), "market"),
    }


def _schedule(episodes: Rows, weights: Floats) -> Clairvoyant:
    shares = np.pad(np.cumsum(weights, 1) / weights.sum(1, keepdims=True), ((0, 0), (1, 0)))
    return Clairvoyant({row.tobytes(): share for row, share in zip(episodes, shares, strict=True)})
