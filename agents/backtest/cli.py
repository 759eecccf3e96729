"""`serl backtest`: runs a strategy file in process, on a recorded day or among simulated traders."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from serl.cluster import LOCAL, check_alone, on_option
from serl.ranges import FloatRange

if TYPE_CHECKING:
    from serl.agents.backtest.load import Loaded
    from serl.agents.backtest.result import Result
    from serl.agents.backtest.seeds import Job
    from serl.exchange.latency import Delays


@click.command(epilog="Example: serl backtest mybot.py --population liquid --seeds 20 --window 09:30-10:30")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--strategy", "name", help="Name of the strategy, if FILE has several.")
@click.option("--population", help="Trade among these simulated traders: a YAML file, or a name that comes with serl.")
@click.option("--day", type=click.Path(path_type=Path), help="Trade in this recorded day instead (see `serl day`).")
@click.option(
    "--answering", type=click.Choice(["fitted", "square_root"]),
    help="Let the day give way to the strategy, with the impact fitted on the day or that of the square-root law.",
)  # fmt: skip
@click.option(
    "--forecaster", type=click.Path(path_type=Path),
    help="A file of `serl signals train`, whose forecasts a strategy in Python sees.",
)  # fmt: skip
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="First seed of the population.")
@click.option(
    "--seeds", type=click.IntRange(1), default=1, show_default=True, help="Number of seeds of the population."
)
@click.option("--workers", type=click.IntRange(1), help="Processes for several seeds; one per core by default.")
@on_option("Run the seeds on this machine, or on a Ray cluster.")
@click.option("--window", help="When the strategy trades, like 10:00-11:00; all of the day by default.")
@click.option(
    "--config", type=click.Path(path_type=Path), help="Configuration of an exchange; only its latency is used."
)
@click.option(
    "--name", "participant", default="strategy", show_default=True, help="Account of --config whose latency is used."
)
@click.option(
    "--latency-us", type=FloatRange(0, 60e6), help="Constant latency of the strategy's commands in microseconds."
)
@click.option("-o", "--output", type=click.Path(path_type=Path), default=Path("backtest.html"), show_default=True)
def backtest(
    file: Path, name: str | None, population: str | None, day: Path | None, answering: str | None, forecaster: Path | None, seed: int, seeds: int,
    workers: int | None, on: str | None, window: str | None, config: Path | None, participant: str, latency_us: float | None, output: Path,
) -> None:  # fmt: skip
    """Backtest the strategy in FILE: a subclass of serl.Strategy, or a compiled kind of trader.

    The fills are the same as with `serl run` on a served lockstep exchange. Writes an .html, .json and .png file with the name of OUTPUT.
    """
    from serl.extras import require_reports

    require_reports()
    from serl.agents.backtest.load import load_strategy
    from serl.agents.backtest.report import lines, summary, write_report
    from serl.agents.backtest.seeds import Job
    from serl.agents.execution.answering.model import NONE
    from serl.agents.pages.page import check_path
    from serl.agents.realism.days import parse_window
    from serl.agents.traders.population import load_population

    if (population is None) == (day is None):
        got = "neither" if day is None else "both"
        raise click.UsageError(f"expected either --population or --day, got {got}; give one of them")
    if day is not None and seeds > 1:
        raise click.UsageError(
            "expected --seeds with --population only, got it with --day; leave it out: a replay has no seed"
        )
    if answering is not None and day is None:
        raise click.UsageError(
            "expected --answering with --day only, got it with --population; leave it out: simulated traders react"
        )
    check_alone(on, "--workers", workers)
    check_path(output.with_suffix(".html"), file, population, day, forecaster, config)
    loaded = load_strategy(file, name)
    delays, compiled_latency_us = _latency(loaded, config, participant, latency_us)
    settings = None if population is None else load_population(population).model_dump()
    window_ns = None if window is None else parse_window(window, "--window")
    jobs = [
        Job(
            file.resolve(),
            loaded.name,
            settings,
            day,
            one,
            window_ns,
            delays,
            compiled_latency_us,
            answering or NONE,
            forecaster and forecaster.resolve(),
        )
        for one in range(seed, seed + seeds)
    ]
    results = (
        [_run_one(jobs[0], loaded)] if seeds == 1 else _run_seeds(jobs, workers or os.cpu_count() or 1, on or LOCAL)
    )
    where = population or str(day)
    _show(
        f"{loaded.name}, {where}, {results[0].settings['window']}",
        lines(results[0]) if seeds == 1 else summary(results),
    )
    paths = write_report(results, output)
    click.echo(f"wrote {', '.join(map(str, paths))}")


def _latency(
    loaded: "Loaded", config: Path | None, participant: str, latency_us: float | None
) -> tuple["Delays | None", float]:  # fmt: skip
    """Returns (delays of a Python strategy, latency of a compiled one)."""
    from serl.agents.backtest.errors import BacktestError
    from serl.exchange.config import load_config
    from serl.exchange.latency import Constant, Delays, Latencies

    if config is not None and latency_us is not None:
        raise click.UsageError("expected --config or --latency-us, got both; leave one out")
    if loaded.is_compiled:
        if config is not None or latency_us == 0:
            got = "--config" if config is not None else "--latency-us 0"
            raise BacktestError(
                f"expected --latency-us above 0 for a compiled strategy, got {got}; a compiled trader always has a latency, so give one"
            )
        return None, 1.0 if latency_us is None else latency_us
    if latency_us is not None:
        return (
            Delays(Constant(kind="constant", delay_us=latency_us), 0, "orders", participant) if latency_us else None
        ), 1.0
    if config is None:
        return None, 1.0
    settings = load_config(config)
    latencies = Latencies(settings.latency, settings.latencies)
    if latencies.feed(participant) is not None:
        raise BacktestError(
            f"{config}: expected no feed latency for {participant!r}, got one; in process only orders have a latency, so give the account "
            "`latency: {orders: ...}`"
        )
    return latencies.orders(participant), 1.0


def _run_one(job: "Job", loaded: "Loaded") -> "Result":
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from serl.exchange.config import time_of_day_text

    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, transient=True) as progress:
        task = progress.add_task(
            job.strategy, total=None if job.window_ns is None else job.window_ns[1] - job.window_ns[0]
        )

        def report(time_ns: int) -> None:
            completed = None if job.window_ns is None else time_ns - job.window_ns[0]
            progress.update(task, completed=completed, description=f"{job.strategy} {time_of_day_text(time_ns)}")

        return job.run(loaded, report)


def _run_seeds(jobs: "list[Job]", workers: int, on: str) -> "list[Result]":
    """Returns the results in the order of the seeds."""
    from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from serl.agents.backtest.seeds import run_jobs

    results: list[Result] = []
    columns: Any = (TextColumn("{task.description}"), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, transient=True) as progress:
        task = progress.add_task("seeds", total=len(jobs))
        for result in run_jobs(jobs, workers, on):
            results.append(result)
            progress.update(task, completed=len(results))
    return sorted(results, key=lambda result: int(result.settings["seed"]))


def _show(title: str, rows: list[tuple[str, str]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, show_header=False)
    for row in rows:
        table.add_row(*row)
    Console().print(table)
