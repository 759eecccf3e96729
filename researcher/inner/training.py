"""Training jobs: where they run, and a policy out of what they leave."""

import dataclasses
import math
import tempfile
import threading
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from serl.agents.execution.environment.interface import Interface
from serl.agents.execution.environment.observation import Layout, Scales
from serl.agents.execution.environment.vector import ACTIONS
from serl.agents.learning.messages import messages_from_json
from serl.agents.learning.policy import Policy, load_network
from serl.agents.learning.team import Messages
from serl.exchange.errors import SerlError
from serl.researcher.candidates import Budget, Candidate, Module
from serl.researcher.errors import ResearcherError
from serl.researcher.inner import job
from serl.researcher.inner.settings import Settings
from serl.researcher.inner.worker import work
from serl.researcher.modules.contracts import MESSAGE_MAX, Kind
from serl.researcher.modules.example import example
from serl.researcher.sandbox import returned
from serl.researcher.sandbox.bubblewrap import FOLDER, INPUTS
from serl.researcher.sandbox.limits import MIB, Limits
from serl.researcher.sandbox.run import Job, run
from serl.researcher.sandbox.verdict import Verdict

MEMORY_BYTES = 6144 * MIB
CLAIMED_STEPS_MAX = 10**12
LOCK = threading.Lock()
"""What is made once is made by one thread while others wait."""


class UnusableError(ResearcherError):
    """What a job left is no policy."""


def has_code(candidate: Candidate) -> bool:
    """Whether it must stay in the sandbox."""
    return any(module.form == "code" for module in candidate.modules.values())


def train(candidate: Candidate, settings: Settings, budget: Budget, share: float, folder: Path) -> Verdict:
    """The job of job.py in `folder`, which is made; SandboxUnavailableError where code cannot be confined."""
    folder.mkdir(mode=0o700, exist_ok=True)
    inputs = {f"data{place}{path.suffix}": path for place, path in enumerate(settings.market.data)}
    inside = has_code(candidate)
    data = [f"{INPUTS}/{name}" for name in inputs] if inside else [str(path.resolve()) for path in inputs.values()]
    values = settings.model_dump(mode="json")
    values["market"]["data"] = data
    arguments = {
        "candidate": dataclasses.asdict(candidate), "settings": values, "budget": dataclasses.asdict(budget), "share": share,
        "folder": FOLDER if inside else str(folder.resolve()),
    }  # fmt: skip
    if not inside:
        return work({"entry": job.ENTRY, "arguments": arguments, "compiled": False}, folder, budget.wall_s)
    with LOCK:
        _warm(settings.model_dump_json(), budget.static_steps > 0, budget.dynamic_steps > 0)
    limits = Limits(wall_s=budget.wall_s, cpu_s=math.ceil(2 * budget.wall_s), memory_bytes=MEMORY_BYTES)
    return run(Job(job.ENTRY, arguments, compiled=True, inputs=inputs), folder, limits)


@lru_cache(maxsize=8)
def _warm(text: str, static: bool, dynamic: bool) -> None:
    """Compiles what jobs in the sandbox load, by a job outside of it with the same stages; ResearcherError if these settings cannot be trained with."""
    settings = Settings.model_validate_json(text)
    kinds = (Kind.REWARD, Kind.IMAGINE) if settings.market.data else (Kind.REWARD,)
    trusted = Candidate({kind: Module("spec", example(kind, "spec")) for kind in kinds})
    with tempfile.TemporaryDirectory(prefix="serl-warm-") as folder:
        verdict = train(trusted, settings, Budget(int(static), int(dynamic)), 1.0, Path(folder) / "job")
    if not verdict.ok:
        raise ResearcherError(f"these settings cannot be trained with: {verdict.text}")


def _team_of(candidate: Candidate, settings: Settings, claimed: dict[str, Any]) -> tuple[int, Messages] | None:
    """Who talks to whom: of a specification as it says, of code the operations that the job read off."""
    module = candidate.modules.get(Kind.COMMUNICATE)
    if module is None:
        return None
    if module.form == "spec":
        return settings.agents, job.built(Kind.COMMUNICATE, module.text, settings)
    names = Layout(settings.market.levels).names
    team = messages_from_json({**claimed["messages"], "agents": settings.agents}, len(names))
    if team is None or not 1 <= team[1].size <= MESSAGE_MAX:
        raise UnusableError(f"messages of 1 to {MESSAGE_MAX} numbers are due")
    return team


def policy_of(verdict: Verdict, candidate: Candidate, settings: Settings, budget: Budget, folder: Path) -> Policy:
    """The policy of a job that ended well; UnusableError if what it left is none. Only numbers and known operations are taken from it."""
    try:
        claimed, tensors = verdict.value, returned.read_tensors(folder, job.NETWORK)
        interface = _interface(settings, claimed["scales"])
        team = _team_of(candidate, settings, claimed)
        described: dict[str, Any] = {"network": settings.network.model_dump()}
        if "graph" in claimed["network"]:
            described["graph"] = claimed["network"]["graph"]
        numbers = {key: torch.from_numpy(values.copy()) for key, values in tensors.items()}
        network = load_network(described, numbers, interface, team)
        steps = min(int(claimed["steps"]), CLAIMED_STEPS_MAX)
    except SerlError as error:
        raise UnusableError(str(error)) from None
    except (KeyError, TypeError, ValueError, RuntimeError, AttributeError) as error:
        raise UnusableError(f"what training left is no policy: {type(error).__name__}: {str(error)[:300]}") from None
    facts = {
        "name": candidate.key,
        "seed": budget.seed,
        "steps": steps,
        "market": settings.market.model_dump(mode="json"),
    }
    return Policy(network, interface, facts, candidate.key, team)


def _interface(settings: Settings, scales: Any) -> Interface:
    """What policies of these settings see and do, in claimed units."""
    market = settings.market
    units = {key: float(scales[key]) for key in (field.name for field in dataclasses.fields(Scales))}
    if not all(math.isfinite(value) and value > 0 for value in units.values()):
        raise UnusableError(f"positive units of the observations are due, got {units}")
    low = [0.0] * ACTIONS[market.actions]
    if market.actions != "market":
        low[-1] = -1.0
    return Interface(
        Layout(market.levels).names, units, market.actions, tuple(low), (1.0,) * len(low), offset_ticks=market.offset_ticks,
        offset_bps=market.offset_bps, levels=market.levels,
    )  # fmt: skip
