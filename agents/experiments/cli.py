"""`serl experiment`: market-design experiments."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from serl.agents.traders.builtin import EXPERIMENT
from serl.cluster import LOCAL, check_alone, on_option

if TYPE_CHECKING:
    from serl.agents.experiments.experiment import Experiment
    from serl.agents.experiments.store import Results, RunFile


@click.command(epilog="Example: serl experiment tick-size --seeds 10 --until 10:30 --output runs/tick-size")
@click.argument("file", type=EXPERIMENT)
@click.option("--seeds", type=click.IntRange(1), help="Number of seeds, instead of those in FILE.")
@click.option("--until", help="Time of day at which every run ends, instead of that in FILE.")
@click.option("--threads", type=click.IntRange(1), help="Runs at a time; one per core by default.")
@on_option("Run on this machine, or on a Ray cluster.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Folder of the results  [default: runs/NAME]")
@click.option("--resume", is_flag=True, help="Continue the experiment in the folder.")
@click.option("--json", "as_json", is_flag=True, help="Print all numbers as JSON instead of a table.")
def experiment(
    file: str, seeds: int | None, until: str | None, threads: int | None, on: str | None, output: Path | None, resume: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Compare variants of a simulated market, the arms in FILE (a YAML file, or tick-size, latency-advantage, ...).

    Every arm is simulated with the same seeds. Prints the mean of each measure and its difference from the baseline, with intervals over
    seeds, and writes a page, JSON and a picture to OUTPUT. Ctrl-C loses no finished run; --resume continues, also with more seeds.
    """
    from serl.extras import require_reports

    require_reports()
    import json

    from rich.console import Console

    from serl.agents.experiments.experiment import load_experiment
    from serl.agents.experiments.report import experiment_origin, numbers, summary_table, write_report
    from serl.agents.experiments.store import RunFile
    from serl.agents.experiments.summary import summarise

    check_alone(on, "--threads", threads)
    found = load_experiment(file, seeds, until)
    folder = output or Path("runs") / found.name
    kept = RunFile(folder, found, resume=resume)
    try:
        results = _run(found, kept, threads, on or LOCAL)
    finally:
        kept.close()
    paths = write_report(found, results, folder)
    if as_json:
        click.echo(json.dumps(numbers(found, results, experiment_origin(found))))
        return
    Console().print(summary_table(found, summarise(found, results)))
    click.echo(f"wrote {', '.join(map(str, paths))}")


def _run(found: "Experiment", kept: "RunFile", threads: int | None, on: str) -> "Results":
    """Runs the experiment with a progress bar on stderr; returns the results."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from serl.agents.experiments.run import run_experiment

    total = len(found.arms) * len(found.seeds)
    wanted = {(arm.name, seed) for arm in found.arms for seed in found.seeds}
    done = {key: values for key, values in kept.runs.items() if key in wanted}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(found.name, total=total, completed=len(done))

        def keep(arm: str, seed: int, values: dict[str, float]) -> None:
            kept.append(arm, seed, values)
            progress.update(task, advance=1)

        try:
            return run_experiment(found, done, threads, keep, on)
        except KeyboardInterrupt:
            finished = int(progress.tasks[0].completed)
            click.echo(
                f"stopped after {finished} of {total} runs; continue with the same command and --resume", err=True
            )
            raise
