"""A run that is watched: a bar, a line an iteration, curves for TensorBoard; where there is no terminal, a line for each thing that happens."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from torch.utils.tensorboard import SummaryWriter

from serl.researcher.candidates import Result
from serl.researcher.outer.config import OuterConfig
from serl.researcher.outer.database import Database
from serl.researcher.outer.loop import Watch
from serl.researcher.outer.records import Draft, Proposal


@contextmanager
def watched(config: OuterConfig, folder: Path, database: Database) -> Iterator[Watch]:
    """The watch of a run, for as long as the context lasts."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    writer = SummaryWriter(str(folder / "tensorboard"), purge_step=database.iterations_done + 1)
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:

        def tell(text: str) -> None:
            console.print(text, markup=False, highlight=False, soft_wrap=True)

        def log(text: str) -> None:
            if not console.is_terminal:
                tell(text)

        task = progress.add_task(config.name, total=config.candidates)

        def step(text: str, completed: int | None = None, advance: int | None = None) -> None:
            progress.update(task, description=text, completed=completed, advance=advance)
            log(text)

        def began(iteration: int, slot: int) -> None:
            step(f"iteration {iteration} of {config.iterations}: proposing candidate {slot + 1}", completed=slot)

        def proposed(iteration: int, slot: int, proposal: Proposal) -> None:
            log(f"iteration {iteration}, slot {slot}: {proposal_line(proposal)}")

        def evaluated(iteration: int, slot: int, result: Result) -> None:
            log(f"iteration {iteration}, slot {slot}: {result_line(result)}")

        def staged(key: str, stage: str) -> None:
            step(f"candidate {key[:6]}: {stage}", advance=int(stage in ("done", "halved")))

        def finished(row: dict[str, Any]) -> None:
            tell(line(row))
            for name, value in row.items():
                if isinstance(value, int | float) and name != "iteration" and math.isfinite(value):
                    writer.add_scalar(f"researcher/{name}", value, row["iteration"])
            writer.flush()
            progress.update(task, completed=0)

        try:
            yield Watch(began, proposed, staged, evaluated, finished)
        finally:
            writer.close()


def proposal_line(proposal: Proposal) -> str:
    """A proposal in a line: who it is, and the last verdict on each module."""
    name = "rejected" if proposal.candidate is None else f"proposed {proposal.candidate.key[:6]}"
    return f"{name}; {', '.join(map(_draft_text, proposal.drafts)) or 'the defaults'}"


def _draft_text(draft: Draft) -> str:
    last = draft.verdicts[-1]
    return f"{draft.kind.value} {last.stage} {last.reason}"


def result_line(result: Result) -> str:
    """What became of a candidate, in a line."""
    reason = f", {' '.join(result.reason.split())[:200]}" if result.reason else ""
    return f"{result.stage}{f', PA {result.score.pa_bps:+.2f} bps' if result.score else ''}{reason}"


def line(row: dict[str, Any]) -> str:
    """An iteration in a line."""
    if row["pa_bps"] is None:
        return f"iteration {row['iteration']}: no candidate has a score, {row['seconds']:.0f} s"
    return f"iteration {row['iteration']}: PA {row['pa_bps']:+.2f} bps, mean so far {row['ema_bps']:+.2f}, {row['seconds']:.0f} s"
