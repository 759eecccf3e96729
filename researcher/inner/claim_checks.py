"""Checks of what a training job claims about its policy. The job's code may have written anything, so each claim is checked or rebuilt from
trusted parts."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from serl.agents.execution.environment.observation import Scales
from serl.agents.learning.messages import messages_from_json
from serl.agents.learning.rule import Rule
from serl.agents.learning.rule_policy import rule_from_json, rule_names
from serl.agents.learning.team import Messages
from serl.researcher.candidates import Budget, Candidate
from serl.researcher.inner import job
from serl.researcher.inner.candidate_settings import layout_of
from serl.researcher.inner.errors import UnusableError
from serl.researcher.inner.settings import Settings
from serl.researcher.modules.contracts import MESSAGE_MAX, Kind

NUMBER_MAX = 2.0**63


def number(value: Any, what: str) -> float:
    """A finite number of at least 0. UnusableError for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < NUMBER_MAX:
        raise UnusableError(f"{what}: expected a finite number from 0 on, got {str(value)[:50]}")
    return float(value)


def steps(value: Any, settings: Settings, budget: Budget) -> int:
    """The number of training steps. UnusableError if this training cannot have taken so many; the last update may exceed the budget."""
    market, dynamic = (one.environments + settings.agents for one in (settings.market, settings.dynamic))
    most = budget.static_steps + budget.dynamic_steps + settings.ppo.rollout_steps * (market + dynamic)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise UnusableError(f"steps: expected 0 to {most:,}, the budget, got {str(value)[:50]}")
    return value


def scales(value: Any) -> Scales:
    """Units of observations. UnusableError unless all are positive."""
    units = {key: number(value[key], key) for key in (field.name for field in dataclasses.fields(Scales))}
    if not all(unit > 0 for unit in units.values()):
        raise UnusableError(f"expected positive units of the observations, got {units}")
    return Scales(**units)


def team(candidate: Candidate, settings: Settings, claims: Mapping[str, Any]) -> tuple[int, Messages] | None:
    """The number of agents and their messages: built from a specification, or from the operations that the job traced from code."""
    module = candidate.modules.get(Kind.COMMUNICATE)
    if module is None:
        return None
    if module.form == "spec":
        return settings.agents, job.spec_function(Kind.COMMUNICATE, module.text, settings)
    size = layout_of(settings.market).size
    found = messages_from_json({**claims["messages"], "agents": settings.agents}, size)
    if found is None or not 1 <= found[1].size <= MESSAGE_MAX:
        raise UnusableError(f"expected messages of 1 to {MESSAGE_MAX} numbers, got another size")
    return found


def rule(candidate: Candidate, settings: Settings, claims: Mapping[str, Any]) -> Rule | None:
    """The rule that the policy corrects, if any: built from a specification, or from the operations that the job traced from code."""
    module = candidate.modules.get(Kind.POLICY)
    if module is None:
        return None
    if module.form == "spec":
        found: Rule = job.spec_function(Kind.POLICY, module.text, settings)
        return found
    return rule_from_json(claims["rule"], rule_names(settings.market.levels))


def facts(value: Mapping[str, Any]) -> dict[str, Any]:
    """Learning curve and seconds. UnusableError unless their names and numbers are valid."""
    curve = value.get("curve")
    if not isinstance(curve, list) or len(curve) > 2 * job.CURVE_POINTS:
        raise UnusableError(f"curve: expected at most {2 * job.CURVE_POINTS} points, got {str(curve)[:50]}")
    return {
        "curve": [_point(each) for each in curve],
        **{name: number(value.get(name), name) for name in ("ready_s", "train_s")},
    }


def _point(value: Any) -> dict[str, float | None]:
    if not isinstance(value, dict) or set(value) != set(job.CURVE):
        raise UnusableError(f"curve: expected points of {', '.join(job.CURVE)}, got {str(value)[:50]}")
    for name, each in value.items():
        if each is not None and (isinstance(each, bool) or not isinstance(each, int | float)):
            raise UnusableError(f"curve: expected numbers, got {name} {str(each)[:50]}")
    return value
