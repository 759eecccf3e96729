"""Progress of a run: a bar over its candidates, a line per iteration, and TensorBoard curves; without a terminal, a line per event."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from torch.utils.tensorboard import SummaryWriter

from serl.researcher.candidates import Result, Score
from serl.researcher.outer.config import OuterConfig
from serl.researcher.outer.database import Database
from serl.researcher.outer.loop import Callbacks
from serl.researcher.outer.records import Draft, Proposal

UNANSWERED_TOLD = 4
"""Requests in a row without an answer from the language model after which the user is told, and told again after as many more."""

VERDICT_CHARS_MAX = 1000
"""Characters of a verdict that are shown: what came, and the advice after it."""


@contextmanager
def show_progress(config: OuterConfig, folder: Path, database: Database) -> Iterator[Callbacks]:
    """Callbacks that display a run's progress for the duration of the context."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    writer = SummaryWriter(str(folder / "tensorboard"), purge_step=database.iterations_done + 1)
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:

        def print_line(text: str) -> None:
            console.print(text, markup=False, highlight=False, soft_wrap=True)

        def log(text: str) -> None:
            if not console.is_terminal:
                print_line(text)

        finished, scored = database.iterations_done * config.candidates, set[str]()
        task = progress.add_task(config.name, total=config.iterations * config.candidates, completed=finished)

        def step(text: str) -> None:
            completed = finished + min(len(scored), config.candidates)  # the incumbent and earlier candidates race too
            progress.update(task, description=text, completed=completed)
            log(text)

        def on_proposing(iteration: int, slot: int) -> None:
            step(f"iteration {iteration} of {config.iterations}: proposing candidate {slot + 1}")

        unanswered = 0

        def on_proposed(iteration: int, slot: int, proposal: Proposal) -> None:
            nonlocal unanswered
            for verdict in (each for draft in proposal.drafts if draft.origin == "model" for each in draft.verdicts):
                unanswered = unanswered + 1 if verdict.stage == "endpoint" else 0
                if unanswered and unanswered % UNANSWERED_TOLD == 0:
                    print_line(
                        f"the language model has not answered the last {unanswered} requests ({verdict.text[:VERDICT_CHARS_MAX]}); candidates are drawn without it"
                    )
            log(f"iteration {iteration}, slot {slot}: {proposal_line(proposal)}")

        def on_evaluated(iteration: int, slot: int, result: Result) -> None:
            log(f"iteration {iteration}, slot {slot}: {result_line(result)}")

        def on_stage(key: str, stage: str) -> None:
            if stage == "scoring":
                scored.add(key)
            step(f"candidate {key[:6]}: {stage}")

        def on_iteration(row: dict[str, Any]) -> None:
            nonlocal finished
            print_line(iteration_line(row))
            for name, value in row.items():
                if isinstance(value, int | float) and name != "iteration" and math.isfinite(value):
                    writer.add_scalar(f"researcher/{name}", value, row["iteration"])
            writer.flush()
            finished = row["iteration"] * config.candidates
            scored.clear()
            progress.update(task, completed=finished)

        try:
            yield Callbacks(on_proposing, on_proposed, on_stage, on_evaluated, on_iteration)
        finally:
            writer.close()


def proposal_line(proposal: Proposal) -> str:
    """A proposal in one line: the candidate's key and the last verdict on each module."""
    name = "rejected" if proposal.candidate is None else f"proposed {proposal.candidate.key[:6]}"
    return f"{name}; {', '.join(map(_draft_text, proposal.drafts)) or 'default modules'}"


def _draft_text(draft: Draft) -> str:
    last = draft.verdicts[-1]
    return f"{draft.kind.value} {last.stage} {last.reason}"


def result_line(result: Result) -> str:
    """The result of a candidate in one line."""
    reason = f", {' '.join(result.reason.split())[:200]}" if result.reason else ""
    score = f", PA {result.score.pa_bps:+.2f} bps{_twap_text(result.score)}" if result.score else ""
    if found := result.paired:
        seeds = f"{found.seeds} seed{'s' if found.seeds > 1 else ''}"
        score += f", {found.difference_bps:+.2f} [{found.low_bps:+.2f}, {found.high_bps:+.2f}] against the incumbent, {seeds}"
    return f"{result.stage}{score}{reason}"


def _twap_text(score: Score) -> str:
    """PA of a TWAP on the same orders."""
    return "" if score.twap_bps is None else f" (TWAP {score.twap_bps:+.2f})"


def iteration_line(row: dict[str, Any]) -> str:
    """The figures of an iteration in one line."""
    if row["pa_bps"] is None:
        return f"iteration {row['iteration']}: no candidate was trained and scored to the end, {row['seconds']:.0f} s"
    return f"iteration {row['iteration']}: PA {row['pa_bps']:+.2f} bps, moving average of PA {row['ema_bps']:+.2f}, {row['seconds']:.0f} s"
