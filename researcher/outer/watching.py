"""A run that is watched: a bar (in a log, lines), a line an iteration, curves for TensorBoard."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from serl.agents.learning.errors import require_learning
from serl.researcher.outer.config import OuterConfig
from serl.researcher.outer.database import Database
from serl.researcher.outer.loop import Watch


@contextmanager
def watched(config: OuterConfig, folder: Path, database: Database) -> Iterator[Watch]:
    """The watch of a run, for as long as the context lasts."""
    require_learning()
    from torch.utils.tensorboard import SummaryWriter

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    writer = SummaryWriter(str(folder / "tensorboard"), purge_step=database.iterations_done + 1)
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(config.name, total=config.candidates)

        def step(text: str, completed: int | None = None, advance: int | None = None) -> None:
            progress.update(task, description=text, completed=completed, advance=advance)
            if not progress.console.is_terminal:  # where no bar is drawn
                progress.console.print(text, highlight=False, soft_wrap=True)

        def began(iteration: int, slot: int) -> None:
            step(f"iteration {iteration} of {config.iterations}: proposing candidate {slot + 1}", completed=slot)

        def staged(key: str, stage: str) -> None:
            step(f"candidate {key[:6]}: {stage}", advance=int(stage in ("done", "halved")))

        def finished(row: dict[str, Any]) -> None:
            progress.console.print(line(row))
            for name, value in row.items():
                if isinstance(value, int | float) and name != "iteration" and math.isfinite(value):
                    writer.add_scalar(f"researcher/{name}", value, row["iteration"])
            writer.flush()
            progress.update(task, completed=0)

        try:
            yield Watch(began, staged, finished)
        finally:
            writer.close()


def line(row: dict[str, Any]) -> str:
    """An iteration in a line."""
    if row["pa_bps"] is None:
        return f"iteration {row['iteration']}: no candidate has a score, {row['seconds']:.0f} s"
    return f"iteration {row['iteration']}: PA {row['pa_bps']:+.2f} bps, mean so far {row['ema_bps']:+.2f}, {row['seconds']:.0f} s"
