"""The sandbox: ms from asking for a job to the first line of Python inside, and until an empty job, PyTorch's import or a trial is over.

Medians; the limit on sandbox_start_ms is 150.
"""

from statistics import median
from typing import Any

from serl.researcher.modules.contracts import Kind
from serl.researcher.modules.example import example
from serl.researcher.sandbox.run import Job, run, work_folder
from serl.researcher.validation.validate import try_in

STARTS, IMPORTS = 20, 3


def _verdicts(source: str, count: int) -> list[Any]:
    with work_folder() as folder:
        job = Job("serl.researcher.sandbox.entrypoints:execute", {"source": source})
        return [run(job, folder) for _ in range(count)]


def figures() -> dict[str, float]:
    """Milliseconds."""
    empty, torch = _verdicts("", STARTS), _verdicts("import torch", IMPORTS)
    with work_folder() as folder:
        reports = [try_in(folder, Kind.REWARD, example(Kind.REWARD, "code")) for _ in range(IMPORTS)]
    trials = [report.verdict.wall_s for report in reports if report.verdict and report.ok]
    return {
        "sandbox_start_ms": median(verdict.start_ms for verdict in empty),
        "sandbox_empty_job_ms": 1e3 * median(verdict.wall_s for verdict in empty),
        "sandbox_torch_import_ms": 1e3 * median(verdict.wall_s for verdict in torch),
        "sandbox_reward_trial_ms": 1e3 * median(trials),
    }
