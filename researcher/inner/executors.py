"""Executors of training: this machine (`local`) or tasks on a Ray cluster. Scoring always runs on this machine."""

from collections.abc import Callable
from pathlib import Path

from serl.cluster import LOCAL, ray_at, ray_result
from serl.researcher.candidates import Budget, Candidate
from serl.researcher.inner import training
from serl.researcher.inner.settings import Settings
from serl.researcher.sandbox.job_result import JobResult

Train = Callable[[Candidate, Settings, Budget, float, Path], JobResult]
"""See training.train."""


def trainer(on: str) -> Train:
    """`training.train` on this executor (`serl.cluster.check_place`). MissingPackageError if Ray is not installed, ClusterError if it does not
    start."""
    return training.train if on == LOCAL else _on_ray(on)


def _on_ray(on: str) -> Train:
    """An executor that trains as Ray tasks. All machines must see the run's folder and the data under the same paths. If a machine is lost, its
    task restarts from its checkpoint."""
    ray = ray_at(on)
    task = ray.remote(num_cpus=1)(training.train)

    def train(candidate: Candidate, settings: Settings, budget: Budget, share: float, folder: Path) -> JobResult:
        """See training.train; ClusterError if the cluster fails."""
        absolute = settings.model_copy(update={"market": settings.market.absolute()})
        result: JobResult = ray_result(
            task.remote(candidate, absolute, budget, share, folder.resolve()), "continue with --resume"
        )
        return result

    return train
