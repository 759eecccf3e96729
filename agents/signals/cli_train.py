"""`serl signals train`."""

from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.progress import Progress

from serl.agents.realism.days import day_origin, load_day, parse_window
from serl.agents.signals import attention_training
from serl.agents.signals.errors import SignalError
from serl.agents.signals.evaluation import evaluate
from serl.agents.signals.forecaster import MODELS, Forecaster, check_horizons
from serl.agents.signals.grid import build_grid, check_different, check_sizes
from serl.agents.signals.network import EPOCHS_MAX
from serl.agents.signals.report import hours_text
from serl.agents.signals.samples import Samples, cut_samples, join
from serl.agents.signals.training import train_forecaster
from serl.exchange.atomic_file import require_other_file


def train_days(
    days: Sequence[Path], output: Path, hours: str, horizons: str, symbol: str | None, seed: int
) -> Forecaster:
    """Trains on the hours of the days, writes the forecaster and prints a description of it."""
    window, seconds = parse_window(hours, "--hours"), parse_horizons(horizons)
    require_other_file(output, *days)
    with Progress(console=Console(stderr=True), transient=True) as progress:
        reading = progress.add_task("days", total=len(days))
        parts, origins, dates, seen, first = [], [], [], set[bytes](), None
        for number, path in enumerate(days):
            day = load_day(path)
            check_different(day, seen, path.name)
            grid = build_grid(day, symbol)
            symbol, first = grid.symbol, first or grid
            check_sizes(first, grid, path.name)
            parts.append(cut_samples(grid, window, seconds, number, path.name))
            origins.append(day_origin(day))
            dates.append(day.reference.date)
            progress.advance(reading)
        assert first is not None  # there is at least one day
        sizes = first.reference.tick_size, first.reference.lot_size
        samples = join(parts)
        task = progress.add_task("training", total=len(seconds) + EPOCHS_MAX + attention_training.EPOCHS_MAX)
        trained = train_forecaster(
            samples, str(symbol), seconds, window, origins, seed, lambda: progress.advance(task), dates=dates, sizes=sizes
        )  # fmt: skip
        trained.training.scores.extend(_scores(trained, samples))
    trained.write(output)
    fitted, calibrated = trained.training.samples
    click.echo(f"{symbol}, {hours_text(window)}: fitted {fitted:,} samples, calibrated with {calibrated:,}")
    losses = ", ".join(f"{name} {trained.training.log_loss[name]:.4f}" for name in MODELS)
    click.echo(f"log loss on what calibrated: {losses}; `serl signals publish` takes the {trained.model}")
    click.echo(f"wrote {output}")
    return trained


def _scores(trained: Forecaster, samples: Samples) -> list[dict[str, float | str]]:
    """The scores in the training hours, without intervals."""
    found = evaluate(trained, samples, 2, 0, blocks_min=1)
    return [
        {"forecast": target.name, "horizon_s": trained.horizons_s[horizon], "model": name}
        | dict(zip(target.measures, one.values.round(6).tolist(), strict=True))
        for (target, horizon, name), one in found.scores.items()
    ]


def parse_horizons(text: str) -> tuple[float, ...]:
    """Parses seconds like '1,10,60'. Raises SignalError for anything else."""
    try:
        horizons = [float(part) for part in text.split(",")]
    except ValueError:
        raise SignalError(
            f"--horizons: expected seconds separated by commas, got {text[:80]!r}; give some like 1,10,60"
        ) from None
    return check_horizons(horizons)
