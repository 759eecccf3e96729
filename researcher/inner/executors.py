"""Where candidates train: on this machine (`local`), or as tasks of a Ray cluster (`ray`). Scores are always taken here."""

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

On = Literal["local", "ray"]
Train = Callable[[Candidate, Settings, Budget, float, Path], JobResult]
"""See training.train."""


def trainer(on: On) -> Train:
    """`training.train` as it is done there. MissingPackageError where Ray is not installed, ResearcherError where it does not start."""
    return training.train if on == "local" else _on_ray()


def _on_ray() -> Train:
    """Tasks of the cluster that RAY_ADDRESS names, else of one that Ray starts on this machine. All of its machines must see the run's
    folder and the data under the same paths. A task whose machine was lost is done again, from its checkpoint."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    require("training on a cluster", "ray")
    import ray

    try:
        if not ray.is_initialized():
            ray.init(include_dashboard=False, log_to_driver=False)
    except Exception as error:
        raise ResearcherError(
            f"Ray does not start: {str(error)[:300]}; look at RAY_ADDRESS, or leave --on ray out"
        ) from error
    task = ray.remote(num_cpus=1)(training.train)

    def train(candidate: Candidate, settings: Settings, budget: Budget, share: float, folder: Path) -> JobResult:
        """See training.train; ResearcherError if the cluster fails."""
        market = settings.market.model_copy(update={"data": [path.resolve() for path in settings.market.data]})
        there = settings.model_copy(update={"market": market})
        try:
            verdict: JobResult = ray.get(task.remote(candidate, there, budget, share, folder.resolve()))
        except ray.exceptions.RayTaskError as error:
            raise error.cause from error
        except ray.exceptions.RayError as error:
            raise ResearcherError(f"Ray: {str(error)[:300]}; go on with --resume") from error
        return verdict

    return train
