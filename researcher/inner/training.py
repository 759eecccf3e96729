"""Start training jobs, and build a policy from the untrusted files they leave."""

import dataclasses
import math
import tempfile
import threading
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from serl.agents.execution.environment.observation import Scales
from serl.agents.learning.messages import messages_from_json
from serl.agents.learning.policy import Policy, load_network
from serl.agents.learning.residual import ResidualPolicy, load_residual
from serl.agents.learning.rule import Rule
from serl.agents.learning.rule_policy import rule_from_json, rule_names
from serl.agents.learning.team import Messages
from serl.exchange.errors import SerlError
from serl.researcher.candidates import Budget, Candidate, Module
from serl.researcher.errors import ResearcherError
from serl.researcher.inner import job
from serl.researcher.inner.designed import designed, interface_of, layout_of
from serl.researcher.inner.settings import Settings
from serl.researcher.inner.worker import run_job
from serl.researcher.modules.contracts import MESSAGE_MAX, Kind
from serl.researcher.modules.example import example
from serl.researcher.sandbox import returned
from serl.researcher.sandbox.bubblewrap import FOLDER, INPUTS
from serl.researcher.sandbox.job_result import JobResult
from serl.researcher.sandbox.limits import MIB, Limits
from serl.researcher.sandbox.run import Job, run

MEMORY_BYTES = 6144 * MIB
CLAIMED_STEPS_MAX = 10**12
LOCK = threading.Lock()
"""Lets one thread compile while others wait."""


class UnusableError(ResearcherError):
    """A job's output is not a valid policy."""


def has_code(candidate: Candidate) -> bool:
    """Whether any module is code, which must run in the sandbox."""
    return any(module.form == "code" for module in candidate.modules.values())


def train(candidate: Candidate, settings: Settings, budget: Budget, share: float, folder: Path) -> JobResult:
    """Run the job of job.py in `folder`, which is created. SandboxUnavailableError if code cannot be sandboxed here."""
    folder.mkdir(mode=0o700, exist_ok=True)
    inputs = {f"data{place}{path.suffix}": path for place, path in enumerate(settings.market.data)}
    sandboxed = has_code(candidate)
    data = [f"{INPUTS}/{name}" for name in inputs] if sandboxed else [str(path.resolve()) for path in inputs.values()]
    values = settings.model_dump(mode="json")
    values["market"]["data"] = data
    arguments = {
        "candidate": dataclasses.asdict(candidate), "settings": values, "budget": dataclasses.asdict(budget), "share": share,
        "folder": FOLDER if sandboxed else str(folder.resolve()),
    }  # fmt: skip
    if not sandboxed:
        return run_job({"entry": job.ENTRY, "arguments": arguments, "compiled": False}, folder, budget.wall_s)
    with LOCK:
        _compile_outside(settings.model_dump_json(), budget.static_steps > 0, budget.dynamic_steps > 0)
    limits = Limits(wall_s=budget.wall_s, cpu_s=math.ceil(2 * budget.wall_s), memory_bytes=MEMORY_BYTES)
    return run(Job(job.ENTRY, arguments, compiled=True, inputs=inputs), folder, limits)


@lru_cache(maxsize=8)
def _compile_outside(text: str, static: bool, dynamic: bool) -> None:
    """Fill numba's cache for sandboxed jobs by a trusted job outside, with the same stages. ResearcherError if it fails with these settings."""
    settings = Settings.model_validate_json(text)
    kinds = (Kind.IMAGINE,) if settings.market.data else ()
    trusted = Candidate({kind: Module("spec", example(kind, "spec")) for kind in kinds})
    with tempfile.TemporaryDirectory(prefix="serl-warm-") as folder:
        result = train(trusted, settings, Budget(int(static), int(dynamic)), 1.0, Path(folder) / "job")
    if not result.ok:
        raise ResearcherError(f"training with these settings fails: {result.text}")


def _claimed_team(candidate: Candidate, settings: Settings, claims: dict[str, Any]) -> tuple[int, Messages] | None:
    """The number of agents and their messages: built from a specification, or from the operations that the job traced from code."""
    module = candidate.modules.get(Kind.COMMUNICATE)
    if module is None:
        return None
    if module.form == "spec":
        return settings.agents, job.spec_function(Kind.COMMUNICATE, module.text, settings)
    size = layout_of(settings.market).size
    team = messages_from_json({**claims["messages"], "agents": settings.agents}, size)
    if team is None or not 1 <= team[1].size <= MESSAGE_MAX:
        raise UnusableError(f"expected messages of 1 to {MESSAGE_MAX} numbers, got another size")
    return team


def policy_of(result: JobResult, candidate: Candidate, settings: Settings, budget: Budget, folder: Path) -> Policy:
    """The policy of a successful job. UnusableError if its output is invalid. Only numbers and known operations are taken from it."""
    try:
        settings = designed(candidate, settings)
        claims, tensors = result.value, returned.read_tensors(folder, job.NETWORK)
        interface = interface_of(settings.market, _claimed_scales(claims["scales"]))
        rule = _claimed_rule(candidate, settings, claims)
        team = _claimed_team(candidate, settings, claims)
        described: dict[str, Any] = {"network": settings.network.model_dump()}
        if "graph" in claims["network"]:
            described["graph"] = claims["network"]["graph"]
        numbers = {key: torch.from_numpy(values.copy()) for key, values in tensors.items()}
        network = (load_network if rule is None else load_residual)(described, numbers, interface, team)
        steps = min(int(claims["steps"]), CLAIMED_STEPS_MAX)
    except SerlError as error:
        raise UnusableError(str(error)) from None
    except (KeyError, TypeError, ValueError, RuntimeError, AttributeError) as error:
        raise UnusableError(
            f"the output of training is not a policy: {type(error).__name__}: {str(error)[:300]}"
        ) from None
    facts = {
        "name": candidate.key,
        "seed": budget.seed,
        "steps": steps,
        "market": settings.market.model_dump(mode="json"),
    }
    if rule is not None:
        return ResidualPolicy(network, interface, facts, candidate.key, team, rule=rule)
    return Policy(network, interface, facts, candidate.key, team)


def _claimed_rule(candidate: Candidate, settings: Settings, claims: dict[str, Any]) -> Rule | None:
    """The rule that the policy corrects, if any: built from a specification, or from the operations that the job traced from code."""
    module = candidate.modules.get(Kind.POLICY)
    if module is None:
        return None
    if module.form == "spec":
        rule: Rule = job.spec_function(Kind.POLICY, module.text, settings)
        return rule
    return rule_from_json(claims["rule"], rule_names(settings.market.levels))


def _claimed_scales(claimed: Any) -> Scales:
    """Units of observations. UnusableError unless all are positive."""
    units = {key: float(claimed[key]) for key in (field.name for field in dataclasses.fields(Scales))}
    if not all(math.isfinite(value) and value > 0 for value in units.values()):
        raise UnusableError(f"expected positive units of the observations, got {units}")
    return Scales(**units)
