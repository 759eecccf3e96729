"""`serl realism`: compares a simulated day with a real one."""

from pathlib import Path

import click


@click.command(
    epilog="Example: serl realism GOOG_2012-06-21_10.zip simulated.day --window-real 13:00-16:00 -o report.html"
)
@click.argument("real", type=click.Path(path_type=Path))
@click.argument("simulated", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), default=Path("realism.html"), show_default=True)
@click.option("--window-real", help="Window of the real day, like 13:00-16:00; by default the whole day.")
@click.option(
    "--window-simulated",
    help="Window of the simulated day and the baseline; by default that of --window-real, without it the whole day.",
)
@click.option("--levels", default=0, help="Levels per side to compare; 0: as many as the real day shows.")
@click.option("--symbol", help="Symbol of the simulated day and the baseline; by default the first.")
@click.option("--symbol-real", help="Symbol of the real day; by default the first.")
@click.option(
    "--baseline",
    type=click.Path(path_type=Path),
    help="Another simulated day to compare, such as a zero-intelligence one.",
)
@click.option("--bootstraps", default=100, show_default=True, help="Bootstraps for 95 % intervals; 0: none.")
@click.option(
    "--seed", default=1, show_default=True, type=click.IntRange(0), help="Seed of resampling and of training."
)
@click.option(
    "--predictive/--no-predictive",
    default=True,
    show_default=True,
    help="Compute the predictive score (needs PyTorch).",
)
def realism(
    real: Path, simulated: Path, output: Path, window_real: str | None, window_simulated: str | None, levels: int,
    symbol: str | None, symbol_real: str | None, baseline: Path | None, bootstraps: int, seed: int, predictive: bool,
) -> None:  # fmt: skip
    """Compare a SIMULATED day with a REAL one: distributions, impact, stylised facts, predictive score.

    Days are day files or LOBSTER zip files.
    """
    from serl.extras import require_reports

    require_reports(*("torch",) * predictive)
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn
    from rich.table import Table

    from serl.agents.pages.page import check_path
    from serl.agents.realism.days import cut_window, load_day, parse_window
    from serl.agents.realism.distances import check_bootstraps
    from serl.agents.realism.facts import shared_text
    from serl.agents.realism.measure import count_steps, measure
    from serl.agents.realism.report import write_report

    check_path(output, real, simulated, baseline)
    check_bootstraps(bootstraps)
    real_times = None if window_real is None else parse_window(window_real, "--window-real")
    simulated_times = real_times if window_simulated is None else parse_window(window_simulated, "--window-simulated")
    console = Console()
    with Progress(
        SpinnerColumn(), *Progress.get_default_columns(), TextColumn("{task.fields[doing]}"), console=console
    ) as progress:
        steps = 3 + count_steps(baseline is not None, predictive)
        task = progress.add_task("realism", total=steps, doing=f"replaying {real.name}")
        real_window = cut_window(load_day(real), real.name, real_times, levels, symbol_real)
        shown = real_window.tape.levels
        progress.update(task, advance=1, doing=f"replaying {simulated.name}")
        simulated_window = cut_window(load_day(simulated), simulated.name, simulated_times, shown, symbol)
        progress.update(task, advance=1, doing="")
        baseline_window = None
        if baseline is not None:
            baseline_window = cut_window(load_day(baseline), baseline.name, simulated_times, shown, symbol)
        progress.update(task, advance=1)
        measurement = measure(
            real_window, simulated_window, baseline_window, bootstraps=bootstraps, seed=seed, predictive=predictive,
            on_step=lambda name: progress.update(task, advance=1, doing=name),
        )  # fmt: skip
        html_path, json_path = write_report(measurement, output)
    table = Table(title=f"{simulated.name} against {real.name}")
    for head in ("", "mean L1", "mean W1", "facts shared"):
        table.add_column(head, justify="left" if not head else "right")
    for name in measurement.names:
        means = [distance["mean"].value for distance in measurement.benchmarks[name].summary().values()]
        table.add_row(name, *(f"{mean:.3f}" for mean in means), shared_text(measurement.agreements(name)))
    console.print(table)
    click.echo(f"wrote {html_path} and {json_path}")
