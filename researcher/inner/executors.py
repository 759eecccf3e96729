"""Executors of training: this machine (`local`) or tasks on a Ray cluster (`ray`). Scoring always runs on this machine."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from serl.extras import require
from serl.researcher.candidates import Budget, Candidate
from serl.researcher.errors import ResearcherError
from serl.researcher.inner import training
from serl.researcher.inner.settings import Settings
from serl.researcher.sandbox.job_result import JobResult

ExecutorName = Literal["local", "ray"]
Train = Callable[[Candidate, Settings, Budget, float, Path], JobResult]
"""See training.train."""


def trainer(on: ExecutorName) -> Train:
    """`training.train` on this executor. MissingPackageError if Ray is not installed, ResearcherError if it does not start."""
    return training.train if on == "local" else _on_ray()


def _on_ray() -> Train:
    """Train as tasks on the cluster that RAY_ADDRESS names, or else on one that Ray starts locally. All machines must see the run's
    folder and the data under the same paths. If a machine is lost, its task restarts from its checkpoint."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    require("training on a cluster", "ray")
    import ray

    try:
        if not ray.is_initialized():
            ray.init(include_dashboard=False, log_to_driver=False)
    except Exception as error:
        raise ResearcherError(f"Ray does not start: {str(error)[:300]}; check RAY_ADDRESS, or omit --on ray") from error
    task = ray.remote(num_cpus=1)(training.train)

    def train(candidate: Candidate, settings: Settings, budget: Budget, share: float, folder: Path) -> JobResult:
        """See training.train; ResearcherError if the cluster fails."""
        market = settings.market.model_copy(update={"data": [path.resolve() for path in settings.market.data]})
        absolute = settings.model_copy(update={"market": market})
        try:
            result: JobResult = ray.get(task.remote(candidate, absolute, budget, share, folder.resolve()))
        except ray.exceptions.RayTaskError as error:
            raise error.cause from error
        except ray.exceptions.RayError as error:
            raise ResearcherError(f"Ray: {str(error)[:300]}; continue with --resume") from error
        return result

    return train
