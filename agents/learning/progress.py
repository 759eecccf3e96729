"""A training run with a progress bar, TensorBoard logs and Ctrl-C."""

import math
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text
from torch.utils.tensorboard import SummaryWriter

from serl.agents.learning.baseline_training import BaselineTraining
from serl.agents.learning.training import CHECKPOINT, POLICY, Training


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(f"{task.speed or 0:,.0f} steps/s")


def run_with_progress(training: Training | BaselineTraining) -> None:
    """Runs the training to the end. Ctrl-C stops it and prints how to continue."""
    learner, folder = training.learner, training.folder
    total = training.config.learner.steps
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), _Rate(), TimeRemainingColumn(),
        TextColumn("return {task.fields[mean]}"),
    )  # fmt: skip
    # a resumed run logs again what it logged after its checkpoint, but not what it logged at the checkpoint
    writer = SummaryWriter(str(folder), purge_step=learner.steps + 1)
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(training.config.name, total=total, completed=learner.steps, mean="")

        def report(statistics: dict[str, Any]) -> None:
            mean = statistics["return"]
            fields: dict[str, Any] = {} if math.isnan(mean) else {"mean": f"{mean:.3g}"}
            progress.update(task, completed=min(total, learner.steps), **fields)
            _log(writer, statistics)

        try:
            training.run(report)
        except KeyboardInterrupt:
            told = f"; the policy so far is in {folder / POLICY}"
            if isinstance(training, BaselineTraining) and not training.has_learnt:
                told = ", before the policy learnt anything; none is written"
            resume = f"continue from {folder / CHECKPOINT} with: serl train --resume {folder}"
            click.echo(f"stopped at step {learner.steps:,}{told}; {resume}", err=True)
            raise
        finally:
            writer.close()
    chosen = ""
    if isinstance(training, Training) and training.stopping:
        chosen = f"; kept: the policy of step {training.stopping.best_steps:,}, best on validation with PA {training.stopping.best_bps:.2f} bps"
    click.echo(f"wrote {folder / POLICY} after {learner.steps:,} steps{chosen}")


def _log(writer: SummaryWriter, statistics: dict[str, Any]) -> None:
    for name, value in statistics.items():
        for index, number in enumerate(np.atleast_1d(value)):
            label = f"training/{name}" if np.ndim(value) == 0 else f"training/{name}_{index}"
            if math.isfinite(number):
                writer.add_scalar(label, number, statistics["steps"])
