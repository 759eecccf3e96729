"""`serl realism`: how real is a simulated day?"""

from pathlib import Path

import click


@click.command(
    epilog="Example: serl realism GOOG_2012-06-21_10.zip simulated.day --window-real 13:00-16:00 -o report.html"
)
@click.argument("real", type=click.Path(path_type=Path))
@click.argument("simulated", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), default=Path("realism.html"), show_default=True)
@click.option("--window-real", help="Of the real day, like 13:00-16:00; without it all of the day.")
@click.option("--window-simulated", help="Of the simulated day and the baseline; without it that of the real day.")
@click.option("--levels", default=0, help="Levels a side that are looked at; 0: as many as the real day shows.")
@click.option("--symbol", help="Of the simulated day and the baseline, if they have several; without it the first.")
@click.option("--symbol-real", help="Of the real day.")
@click.option(
    "--baseline", type=click.Path(path_type=Path), help="A day to compare with too, such as a Cont-Stoikov-Talreja one."
)
@click.option("--bootstraps", default=100, show_default=True, help="For 95 % intervals; 0: none.")
@click.option("--seed", default=1, show_default=True, help="Of resampling and of training.")
@click.option(
    "--predictive/--no-predictive", default=True, show_default=True, help="The predictive score; it needs PyTorch."
)
def realism(
    real: Path, simulated: Path, output: Path, window_real: str | None, window_simulated: str | None, levels: int,
    symbol: str | None, symbol_real: str | None, baseline: Path | None, bootstraps: int, seed: int, predictive: bool,
) -> None:  # fmt: skip
    """Compares a SIMULATED day with a REAL one: distributions, impact, stylised facts, predictive score.

    Days are day files; REAL may be a LOBSTER zip file.
    """
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn
    from rich.table import Table

    from serl.agents.realism.days import cut_window, load_day, parse_window
    from serl.agents.realism.distances import check_bootstraps
    from serl.agents.realism.measure import measure, steps
    from serl.agents.realism.predictive import import_torch
    from serl.agents.realism.report import write_report

    check_bootstraps(bootstraps)
    window = None if window_real is None else parse_window(window_real)
    other = window if window_simulated is None else parse_window(window_simulated)
    if predictive:
        import_torch()
    console = Console()
    with Progress(
        SpinnerColumn(), *Progress.get_default_columns(), TextColumn("{task.fields[doing]}"), console=console
    ) as bar:
        task = bar.add_task("realism", total=3 + steps(baseline is not None, predictive), doing=f"playing {real.name}")
        one = cut_window(load_day(real), real.name, window, levels, symbol_real)
        bar.update(task, advance=1, doing=f"playing {simulated.name}")
        two = cut_window(load_day(simulated), simulated.name, other, one.tape.levels, symbol)
        bar.update(task, advance=1, doing="")
        three = None
        if baseline is not None:
            three = cut_window(load_day(baseline), baseline.name, other, one.tape.levels, symbol)
        bar.update(task, advance=1)
        measurement = measure(
            one, two, three, bootstraps=bootstraps, seed=seed, predictive=predictive,
            advance=lambda name: bar.update(task, advance=1, doing=name),
        )  # fmt: skip
        html_path, json_path = write_report(measurement, output)
    table = Table(title=f"{simulated.name} against {real.name}")
    for head in ("", "mean L1", "mean W1", "facts shared"):
        table.add_column(head, justify="left" if not head else "right")
    for name in measurement.names:
        means = [distance["mean"].value for distance in measurement.benchmarks[name].summary().values()]
        table.add_row(name, *(f"{mean:.3f}" for mean in means), f"{measurement.agreements(name).count(True)} of 12")
    console.print(table)
    click.echo(f"wrote {html_path} and {json_path}")
