"""`serl signals test`."""

import json
from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.progress import Progress

from serl.agents.pages.page import check_path
from serl.agents.realism.days import day_origin, load_day, parse_window
from serl.agents.signals.conclusions import conclusions
from serl.agents.signals.errors import SignalError
from serl.agents.signals.evaluation import SCORES, evaluate
from serl.agents.signals.forecaster import Forecaster
from serl.agents.signals.forecaster_file import read_forecaster
from serl.agents.signals.grid import Grid, build_grid, check_different, check_sizes
from serl.agents.signals.report import hours_text, note, score_tables, share_sentence, to_json, write_report
from serl.agents.signals.samples import cut_samples, join
from serl.history.day import Day

MARKDOWN_COLUMNS = 250
MINUTE_NS = 60 * 10**9


def score_days(
    file: Path, days: Sequence[Path], hours: str | None, output: Path, bootstraps: int, seed: int, as_json: bool, markdown: bool
) -> None:  # fmt: skip
    """Scores a forecaster on the hours of the days; prints and writes the report."""
    check_path(output.with_suffix(".html"), file, *days)
    forecaster = read_forecaster(file)
    window = None if hours is None else parse_window(hours, "--hours")
    with Progress(console=Console(stderr=True), transient=True) as progress:
        reading = progress.add_task("days", total=len(days))
        parts, origins, seen, first = [], [], set[bytes](), None
        for number, path in enumerate(days):
            day = load_day(path)
            check_different(day, seen, path.name)
            grid = build_grid(day, forecaster.symbol)
            first = first or grid
            check_sizes(first, grid, path.name)
            forecaster.require_sizes(grid.reference, path.name)
            if window is None:
                window = _later_hours(forecaster, grid, path.name)
            _check_unseen(forecaster, day, window, path.name)
            parts.append(cut_samples(grid, window, forecaster.horizons_s, number, path.name))
            origins.append(f"{path.name}: {day_origin(day)}")
            progress.advance(reading)
        assert window is not None  # there is at least one day
        scoring = progress.add_task("scores", total=len(forecaster.horizons_s) * SCORES)
        found = evaluate(forecaster, join(parts), bootstraps, seed, on_score=lambda: progress.advance(scoring))
    written = write_report(found, window, "; ".join(origins), seed, output)
    if as_json:
        click.echo(json.dumps(to_json(found, window), allow_nan=False))
        return
    console = Console(width=MARKDOWN_COLUMNS) if markdown else Console()
    for shown in score_tables(found, window, wide=markdown):
        console.print(shown)
    for said in (*conclusions(found), share_sentence(found), note(found), f"wrote {', '.join(map(str, written))}"):
        click.echo(said)


def _later_hours(forecaster: Forecaster, grid: Grid, name: str) -> tuple[int, int]:
    start = forecaster.training.hours[1]
    end = int(grid.time_ns[-1]) // MINUTE_NS * MINUTE_NS if len(grid.time_ns) else 0
    if end <= start:
        raise SignalError(
            f"{name}: expected hours after those of the training ({hours_text(forecaster.training.hours)}), got none; give --hours"
        )
    return start, end


def _check_unseen(forecaster: Forecaster, day: Day, hours: tuple[int, int], name: str) -> None:
    """Raises SignalError if the forecaster was trained on any of the hours."""
    if forecaster.was_trained_on(day, hours):
        raise SignalError(
            f"{name}: expected hours that were not trained on ({hours_text(forecaster.training.hours)}), got {hours_text(hours)}; give other --hours"
        )
