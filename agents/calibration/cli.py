"""`serl calibrate`: fits a population to a real day."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from serl.cluster import LOCAL, on_option

if TYPE_CHECKING:
    from serl.agents.calibration.costs import ExecutionCosts
    from serl.agents.calibration.score import HeldOutScores


ROWS = {"floor": "real against real", "ceiling": "training hours"}


@click.command(epilog="Example: serl calibrate GOOG_2012-06-21_10.zip -o goog.yaml --trials 100")
@click.argument("days", metavar="DAY...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The population to write (YAML).")
@click.option("--train", default="10:00-13:00", show_default=True, help="Training hours.")
@click.option(
    "--score", default="13:00-16:00", show_default=True, help="Held-out hours for the score; never used in the fit."
)
@click.option(
    "--trials",
    default=100,
    show_default=True,
    type=click.IntRange(1),
    help="Total complete trials of the search, including resumed ones.",
)
@click.option(
    "--seed", default=1, show_default=True, type=click.IntRange(0, 1000), help="Seed of the search and all simulations."
)
@click.option(
    "--score-seeds", default=5, show_default=True, type=click.IntRange(1), help="Number of simulations for the score."
)
@click.option(
    "--test-day", "test_days", multiple=True, type=click.Path(path_type=Path),
    help="A day to score in the same hours, never used in the fit; repeat it for several.",
)  # fmt: skip
@on_option("Where the days of the trials are simulated: this machine (the default), or a Ray cluster.")
@click.option("--resume", is_flag=True, help="Continue the trials in OUTPUT.trials.")
@click.option("--symbol", help="Symbol of the day; by default the first.")
@click.option(
    "--levels", default=0, type=click.IntRange(0, 10), help="Levels per side; 0: as many as the day shows, at most 10."
)
@click.option("--touch-only", is_flag=True, help="Also fit a day that shows only the touch (the best bid and ask).")
@click.option(
    "--baseline-output",
    type=click.Path(path_type=Path),
    help="Also write the Cont-Stoikov-Talreja population to this file.",
)
def calibrate(
    days: tuple[Path, ...], output: Path, train: str, score: str, trials: int, seed: int, score_seeds: int,
    test_days: tuple[Path, ...], on: str | None, resume: bool, symbol: str | None, levels: int, touch_only: bool, baseline_output: Path | None,
) -> None:  # fmt: skip
    """Fit a population to the training hours of one or more days (day files or LOBSTER zip files) and score it on held-out hours.

    Writes OUTPUT, OUTPUT.json with all numbers, and OUTPUT.trials with every trial. Ctrl-C loses no finished trial; --resume continues.
    """
    from serl.extras import require

    require("calibration", "optuna", "pyarrow", "scipy", "torch", extra="calibrate")
    from rich.console import Console
    from rich.progress import Progress, TextColumn

    from serl.agents.calibration.calibrate import (
        Calibration,
        CalibrationPlan,
        write_json,
        write_population,
    )
    from serl.agents.calibration.calibrate import calibrate as fit
    from serl.agents.calibration.days import NamedDay
    from serl.agents.calibration.errors import CalibrationError
    from serl.agents.calibration.search import Trial
    from serl.agents.realism.days import load_day, parse_window
    from serl.exchange.atomic_file import require_other_file

    require_other_file(output, *days, *test_days)
    numbers, journal = (output.with_name(output.name + suffix) for suffix in (".json", ".trials"))
    if baseline_output is not None:
        require_other_file(baseline_output, *days, *test_days)
        if baseline_output.resolve() in {one.resolve() for one in (output, numbers, journal)}:
            raise CalibrationError(
                f"--baseline-output: expected another file than {output} and the two beside it, got {baseline_output}; give another name"
            )
    plan = CalibrationPlan(
        population_name(output),
        parse_window(train, "--train"),
        parse_window(score, "--score"),
        trials,
        seed,
        score_seeds=score_seeds,
        touch_only=touch_only,
    )
    console = Console()
    columns = (*Progress.get_default_columns(), TextColumn("{task.fields[doing]}"))
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("calibrate", total=trials, doing="replaying the days")
        best_loss = float("inf")

        def on_trial(trial: Trial) -> None:
            nonlocal best_loss
            best_loss = min(best_loss, trial.loss)
            text = f"loss {trial.loss:.3f}, best since start {best_loss:.3f}"
            progress.update(task, completed=trial.number, doing=text)

        fitted, tests = ([NamedDay(path.name, load_day(path)) for path in paths] for paths in (days, test_days))
        found: Calibration = fit(
            fitted, plan, journal, tests=tests, resume=resume, symbol=symbol, levels=levels, on_trial=on_trial,
            on_score=lambda name: progress.update(task, completed=trials, doing=f"simulating {score}: {name}"), on=on or LOCAL,
        )  # fmt: skip
    notes = found.caveats
    # A population of one day is written as before several days were possible.
    sources = [f"fitted to {train} of {found.sources}"] if len(found.days) > 1 else []
    write_population(found.population, output, [*sources, *notes])
    write_json(found, numbers)
    if baseline_output is not None:
        write_population(found.baseline, baseline_output)
    _print_scores(console, found, score)
    for note in notes:
        console.print(f"caveat: {note}", style="yellow", markup=False)
    click.echo(f"wrote {output}, {output.name}.json and {journal.name}")


def population_name(output: Path) -> str:
    """A valid population name from the file's name."""
    name = "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in output.stem)
    return name[:48] or "calibrated"


def _print_scores(console: object, found: object, hours: str) -> None:
    from rich.console import Console
    from rich.table import Table

    from serl.agents.calibration.calibrate import Calibration
    from serl.agents.calibration.score import SeedSample

    assert isinstance(console, Console) and isinstance(found, Calibration)

    def cell(sample: SeedSample) -> str:
        half_width = sample.interval[1] - sample.mean
        return f"{sample.mean:.3f}" + (f" ± {half_width:.3f}" if half_width == half_width else "")

    best, plan = found.best, found.plan
    console.print(f"best of {plan.trials} trials: number {best.number}, mean L1 {best.mean_l1:.3f} in training")
    names = [day.name for day in found.fitted]
    title = names[0] if len(names) == 1 else f"mean of {len(names)} days"
    table = Table(title=f"{title}, {hours}, {plan.score_seeds} simulations")
    for head in ("", "mean L1", "mean W1", "facts of 11", "signs"):
        table.add_column(head, justify="left" if not head else "right", no_wrap=True)
    for label, scored in found.scored.items():
        row = ROWS.get(label, label)
        table.add_row(
            row,
            cell(scored.mean_l1),
            cell(scored.mean_wasserstein),
            scored.facts_text,
            f"{scored.signs_shared.mean:.1f}",
        )
    console.print(table)
    if len(found.days) > 1:
        _print_days(console, found, hours)
    _print_gaps(console, found.scored)
    _print_costs(console, found.costs, hours)


def _print_days(console: object, found: object, hours: str) -> None:
    from rich.console import Console
    from rich.table import Table

    from serl.agents.calibration.calibrate import Calibration

    assert isinstance(console, Console) and isinstance(found, Calibration)
    table = Table(title=f"mean L1 by day, {hours}")
    for head in ("", *(ROWS.get(name, name) for name in found.scored)):
        table.add_column(head, justify="left" if not head else "right")
    rows = [
        (day.name + (" (test day)" if day.train is None else ""), scored)
        for day, scored in zip(found.days, found.scored_days, strict=True)
    ]
    rows += [("mean", found.scored)] + ([("mean of the test days", found.tested)] if found.tested else [])
    for label, scored in rows:
        table.add_row(label, *(f"{one.mean_l1.mean:.3f}" for one in scored.values()))
    console.print(table)


def _print_gaps(console: object, scored: "dict[str, HeldOutScores]") -> None:
    from rich.console import Console
    from rich.table import Table

    assert isinstance(console, Console)
    table = Table(title="left out of the scores, as shares of the time")
    for head in ("", "without a side", "levels missing"):
        table.add_column(head, justify="left" if not head else "right")
    for label, one in scored.items():
        shares = (one.one_sided_share, one.levels_missing_share)
        table.add_row(ROWS.get(label, label), *(f"{share.mean:.2%}" for share in shares))
    console.print(table)


def _print_costs(console: object, costs: "dict[str, ExecutionCosts]", hours: str) -> None:
    from rich.console import Console
    from rich.table import Table

    from serl.agents.calibration.costs import COSTS
    from serl.agents.learning.table import estimate_text

    assert isinstance(console, Console)
    rows = {"train": "training hours, answering", "real": f"{hours}, answering"}
    table = Table(title="costs of execution, bps")
    for head in ("", *(cost.name for cost in COSTS)):
        table.add_column(head, justify="left" if not head else "right")
    for name, found in costs.items():
        cells = [estimate_text(one).replace("[", r"\[") for one in (found.estimates[cost.name] for cost in COSTS)]
        table.add_row(rows.get(name, name), *cells)
    console.print(table)
