"""`serl calibrate`: a population that is fitted to a real day."""

from pathlib import Path

import click


@click.command(epilog="Example: serl calibrate GOOG_2012-06-21_10.zip -o goog.yaml --trials 100")
@click.argument("day", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The population to write (YAML).")
@click.option("--train", default="10:00-13:00", show_default=True, help="Hours that it is fitted to.")
@click.option(
    "--score", default="13:00-16:00", show_default=True, help="Hours that it is compared with; never tuned on."
)
@click.option(
    "--trials", default=100, show_default=True, help="Complete trials of the search, those before --resume included."
)
@click.option(
    "--seed", default=1, show_default=True, type=click.IntRange(0, 1000), help="Of the search and all simulations."
)
@click.option("--score-seeds", default=5, show_default=True, type=click.IntRange(1), help="Simulations of the score.")
@click.option("--resume", is_flag=True, help="Go on with the trials beside OUTPUT.")
@click.option("--symbol", help="Of a day with several; without it the first.")
@click.option(
    "--levels", default=0, type=click.IntRange(0, 10), help="Levels looked at; 0: as the day shows, at most 10."
)
@click.option(
    "--baseline-output", type=click.Path(path_type=Path), help="Write the Cont-Stoikov-Talreja population too."
)
def calibrate(
    day: Path, output: Path, train: str, score: str, trials: int, seed: int, score_seeds: int, resume: bool,
    symbol: str | None, levels: int, baseline_output: Path | None,
) -> None:  # fmt: skip
    """Fits a population to DAY (a day file or a LOBSTER zip file) on the training hours, and scores it on others.

    Writes OUTPUT, OUTPUT.json with all numbers, and OUTPUT.trials with every trial: Ctrl-C loses none, --resume goes on.
    """
    from rich.console import Console
    from rich.progress import Progress, TextColumn

    from serl.agents.calibration.calibrate import Calibration, CalibrationPlan, write_json, write_population
    from serl.agents.calibration.calibrate import calibrate as fit
    from serl.agents.calibration.errors import CalibrationError
    from serl.agents.calibration.search import Trial, import_optuna
    from serl.agents.realism.days import load_day, parse_window

    if not output.parent.is_dir():
        raise CalibrationError(f"{output}: there is no folder {output.parent}; make it first")
    import_optuna()  # better now than when the day is measured
    plan = CalibrationPlan(
        _name(output), parse_window(train), parse_window(score), trials, seed, score_seeds=score_seeds
    )
    journal = output.with_name(output.name + ".trials")
    console = Console()
    columns = (*Progress.get_default_columns(), TextColumn("{task.fields[doing]}"))
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("calibrate", total=trials, doing=f"playing {day.name}")
        least = [float("inf")]

        def on_trial(trial: Trial) -> None:
            least[0] = min(least[0], trial.loss)
            bar.update(task, completed=trial.number, doing=f"loss {trial.loss:.3f}, best since start {least[0]:.3f}")

        history = load_day(day)
        found: Calibration = fit(
            history, plan, journal, resume=resume, symbol=symbol, levels=levels, on_trial=on_trial,
            on_score=lambda name: bar.update(task, completed=trials, doing=f"simulating {score}: {name}"),
        )  # fmt: skip
    write_population(found.population, output)
    write_json(found, output.with_name(output.name + ".json"))
    if baseline_output is not None:
        write_population(found.baseline, baseline_output)
    _print(console, found, day.name, score)
    click.echo(f"wrote {output}, {output.name}.json and {journal.name}")


def _name(output: Path) -> str:
    """A name for the population, of what its rules allow."""
    kept = "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in output.stem)
    return kept[:48] or "calibrated"


def _print(console: object, found: object, name: str, hours: str) -> None:
    from rich.console import Console
    from rich.table import Table

    from serl.agents.calibration.calibrate import Calibration
    from serl.agents.calibration.score import SeedSample

    assert isinstance(console, Console) and isinstance(found, Calibration)

    def cell(spread: SeedSample) -> str:
        half = spread.interval[1] - spread.mean
        return f"{spread.mean:.3f}" + (f" ± {half:.3f}" if half == half else "")

    best, plan = found.best, found.plan
    console.print(f"best of {plan.trials} trials: number {best.number}, mean L1 {best.mean_l1:.3f} in training")
    table = Table(title=f"{name}, {hours}, {plan.score_seeds} simulations")
    for head in ("", "mean L1", "mean W1", "facts of 11", "signs"):
        table.add_column(head, justify="left" if not head else "right", no_wrap=True)
    for label, scored in found.scored.items():
        row = "real against real" if label == "floor" else label
        facts = f"{scored.facts_shared.mean:.1f}"
        table.add_row(
            row, cell(scored.mean_l1), cell(scored.mean_wasserstein), facts, f"{scored.signs_shared.mean:.1f}"
        )
    console.print(table)
