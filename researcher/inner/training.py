"""Start training jobs, and build a policy from the untrusted files they leave."""

import dataclasses
import math
import tempfile
import threading
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from serl.agents.learning.policy import Policy, load_network
from serl.agents.learning.residual import ResidualPolicy, load_residual
from serl.exchange.errors import SerlError
from serl.researcher.candidates import Budget, Candidate, Module
from serl.researcher.errors import ResearcherError
from serl.researcher.inner import claim_checks, job, training_data
from serl.researcher.inner.candidate_settings import designed, interface_of
from serl.researcher.inner.errors import UnusableError
from serl.researcher.inner.settings import Settings
from serl.researcher.inner.versions import versions_of
from serl.researcher.inner.worker import run_job
from serl.researcher.modules.contracts import Kind
from serl.researcher.modules.example import example
from serl.researcher.sandbox import returned
from serl.researcher.sandbox.bubblewrap import INPUTS
from serl.researcher.sandbox.job_folder import FOLDER
from serl.researcher.sandbox.job_result import JobResult, Outcome
from serl.researcher.sandbox.limits import MIB, Limits
from serl.researcher.sandbox.run import Job, run

MEMORY_BYTES = 6144 * MIB
LOCK = threading.Lock()
"""Lets one thread compile while others wait."""


def has_code(candidate: Candidate) -> bool:
    """Whether any module is code, which must run in the sandbox."""
    return any(module.form == "code" for module in candidate.modules.values())


def train(candidate: Candidate, settings: Settings, budget: Budget, share: float, folder: Path) -> JobResult:
    """Run the job of job.py in `folder`, which is created. SandboxUnavailableError if code cannot be sandboxed here, ResearcherError if the disk is
    full."""
    folder.mkdir(mode=0o700, exist_ok=True)
    sandboxed = has_code(candidate)
    data = training_data.file_of(settings.market, versions_of(settings)) if settings.market.data else None
    inputs = {training_data.NAME: data} if sandboxed and data else {}
    path = f"{INPUTS}/{training_data.NAME}" if inputs else data and str(data)
    arguments = {
        "candidate": dataclasses.asdict(candidate), "settings": _settings_of_job(settings), "budget": dataclasses.asdict(budget), "share": share,
        "folder": FOLDER if sandboxed else str(folder.resolve()), "data": path,
    }  # fmt: skip
    if not sandboxed:
        result = run_job({"entry": job.ENTRY, "arguments": arguments, "compiled": False}, folder, budget.wall_s)
        if result.outcome is Outcome.FOLDER:  # outside the sandbox, only the disk limits the folder
            raise ResearcherError(
                f"{folder}: training cannot write its files ({result.text}); free disk space, then continue with --resume"
            )
        return result
    with LOCK:
        _compile_outside(settings.model_dump_json(), budget.static_steps > 0, budget.dynamic_steps > 0)
    limits = Limits(wall_s=budget.wall_s, cpu_s=math.ceil(2 * budget.wall_s), memory_bytes=MEMORY_BYTES)
    return run(Job(job.ENTRY, arguments, compiled=True, inputs=inputs), folder, limits)


def _settings_of_job(settings: Settings) -> dict[str, Any]:
    """The settings that a job gets. Its training hours come in a file of their own; it learns neither the data files nor the fold that is
    scored."""
    values: dict[str, Any] = settings.training.model_dump(mode="json")
    if settings.market.data:
        values["market"] |= {"data": [], "fold": None}
    return values


@lru_cache(maxsize=8)
def _compile_outside(text: str, static: bool, dynamic: bool) -> None:
    """Fill numba's cache for sandboxed jobs: run a trusted job with the same stages outside. ResearcherError if it fails with these settings."""
    settings = Settings.model_validate_json(text)
    kinds = (Kind.IMAGINE,) if settings.market.data else ()
    trusted = Candidate({kind: Module("spec", example(kind, "spec")) for kind in kinds})
    with tempfile.TemporaryDirectory(prefix="serl-warm-") as folder:
        result = train(trusted, settings, Budget(int(static), int(dynamic)), 1.0, Path(folder) / "job")
    if not result.ok:
        raise ResearcherError(f"training with these settings fails: {result.text}")


def policy_of(result: JobResult, candidate: Candidate, settings: Settings, budget: Budget, folder: Path) -> Policy:
    """The policy of a successful job. UnusableError if its output is invalid. Only numbers and known operations are taken from it."""
    try:
        settings = designed(candidate, settings)
        claims, tensors = result.value, returned.read_tensors(folder, job.NETWORK)
        interface = interface_of(settings.market, claim_checks.scales(claims["scales"]))
        rule = claim_checks.rule(candidate, settings, claims)
        team = claim_checks.team(candidate, settings, claims)
        steps = claim_checks.steps(claims["steps"], settings, budget)
        described: dict[str, Any] = {"network": settings.network.model_dump()}
        if "graph" in claims["network"]:
            described["graph"] = claims["network"]["graph"]
        numbers = {key: torch.from_numpy(values.copy()) for key, values in tensors.items()}
        network = (load_network if rule is None else load_residual)(described, numbers, interface, team)
    except SerlError as error:
        raise UnusableError(str(error)) from None
    except Exception as error:  # what PyTorch raises for hostile data is not listed anywhere
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
