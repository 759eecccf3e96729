"""`serl simulate`: simulates a population's day in process."""

from dataclasses import replace
from pathlib import Path

import click

from serl.agents.traders.builtin import FORECASTER, POPULATION
from serl.ranges import SEED_MAX


@click.command(epilog="Example: serl simulate rmsc04 -o simulated.day --seed 7 --until 10:30")
@click.argument("population", type=POPULATION)
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The day file to write.")
@click.option("--seed", type=click.IntRange(0, SEED_MAX), default=1, show_default=True)
@click.option("--until", default=None, help="Time of day to stop at; the population's close by default.")
@click.option(
    "--news",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File of news, as for `serl news send`: messages of kind value move the fundamental value. The day file contains all of them.",
)
@FORECASTER
def simulate(
    population: str, output: Path, seed: int, until: str | None, news: Path | None, forecaster: Path | None
) -> None:
    """Simulate a day of POPULATION (a YAML file, or rmsc04, small, ...) and write it as a day file.

    Ctrl-C stops early and writes the day so far.
    """
    from serl.extras import require_day_files

    require_day_files()  # now, not after the simulation
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from serl.agents.traders.errors import PopulationError
    from serl.agents.traders.forecasters import load_with_forecaster
    from serl.agents.traders.simulate import Simulation
    from serl.agents.traders.value_news import ValueNews, read_day_news
    from serl.exchange.atomic_file import require_other_file
    from serl.exchange.config import time_of_day_ns
    from serl.history.day import write_day

    require_other_file(output, *(Path(each) for each in (population, news, forecaster) if each is not None))
    config = load_with_forecaster(population, forecaster)
    until_ns = config.close_ns if until is None else time_of_day_ns(until, "--until")
    if not config.open_ns < until_ns <= config.close_ns:
        raise PopulationError(
            f"--until: expected a time after {config.open} and up to {config.close}, got {until}; give another"
        )
    messages = () if news is None else read_day_news(news, config, until_ns)
    simulation = Simulation(config, seed)
    values = ValueNews(config, simulation.crowd.traders.value)
    for message in messages:
        values.add(message)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[commands]:,} commands"))
    with Progress(*columns, TimeRemainingColumn(), transient=True) as progress:
        task = progress.add_task(config.name, total=until_ns - config.open_ns, commands=0)
        step_ns = max(1, (until_ns - config.open_ns) // 200)
        try:
            while simulation.time_ns < until_ns:
                values.advance(simulation.time_ns, min(until_ns, simulation.time_ns + step_ns), simulation.advance)
                progress.update(task, completed=simulation.time_ns - config.open_ns, commands=simulation.count)
        except KeyboardInterrupt:
            progress.console.print("stopped early; the day so far is written")
    day = replace(simulation.day(), news=tuple(each for each in messages if each.time_ns < simulation.time_ns))
    write_day(day, output)
    counts = day.reference.counts
    click.echo(
        f"{config.name}, {config.traders:,} trader{'s' if config.traders > 1 else ''}, seed {seed}: {len(day):,} commands, written to {output}"
    )
    for side in ("bid", "ask"):
        if counts[f"empty_side_{side}"]:
            click.echo(f"note: the {side} side is empty at the end; no trader of this population quotes there")
    if counts["requests_dropped"]:
        click.echo(f"note: {counts['requests_dropped']:,} requests beyond 128 at one wake-up were dropped")
