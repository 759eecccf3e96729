"""The sandbox: ms from the call to the first line of Python inside, and until an empty job, an import of PyTorch or a dry run has ended.

Medians; the limit on sandbox_start_ms is 150.
"""

from statistics import median
from typing import Any

from serl.researcher.modules.contracts import Kind
from serl.researcher.modules.example import example
from serl.researcher.sandbox.run import Job, run, work_folder
from serl.researcher.validation.validate import dry_run_in_sandbox

STARTS, IMPORTS = 20, 3


def _run_jobs(source: str, count: int) -> list[Any]:
    with work_folder() as folder:
        job = Job("serl.researcher.sandbox.entrypoints:execute", {"source": source})
        return [run(job, folder) for _ in range(count)]


def figures() -> dict[str, float]:
    """Milliseconds."""
    empty, torch = _run_jobs("", STARTS), _run_jobs("import torch", IMPORTS)
    with work_folder() as folder:
        reports = [dry_run_in_sandbox(folder, Kind.REWARD, example(Kind.REWARD, "code")) for _ in range(IMPORTS)]
    trials = [report.sandbox_result.wall_s for report in reports if report.sandbox_result and report.ok]
    return {
        "sandbox_start_ms": median(result.start_ms for result in empty),
        "sandbox_empty_job_ms": 1e3 * median(result.wall_s for result in empty),
        "sandbox_torch_import_ms": 1e3 * median(result.wall_s for result in torch),
        "sandbox_reward_trial_ms": 1e3 * median(trials),
    }
