"""`serl ranking`: measures whether a population ranks execution policies as a real day does."""

from pathlib import Path

import click

from serl.agents.traders.builtin import POPULATION


@click.command(epilog="Example: serl ranking AMZN_2012-06-21_5.zip amzn --hours 13:00-16:00 -o ranking.html")
@click.argument("day", type=click.Path(path_type=Path))
@click.argument("population", type=POPULATION)
@click.option("-o", "--output", type=click.Path(path_type=Path), default=Path("ranking.html"), show_default=True)
@click.option("--hours", default="13:00-16:00", show_default=True, help="Hours of the day, and of the simulated days.")
@click.option("--seeds", default=10, show_default=True, type=click.IntRange(2), help="Simulated days.")
@click.option("--seed", default=1, show_default=True, type=click.IntRange(0), help="Seed of the first of them.")
@click.option("--symbol", help="Symbol of the day; by default the first.")
@click.option(
    "--answering", type=click.Choice(["fitted", "square_root"]),
    help="Let the day give way to the orders, as the population does, with the impact fitted on the day or that of the square-root law.",
)  # fmt: skip
def ranking(
    day: Path, population: str, output: Path, hours: str, seeds: int, seed: int, symbol: str | None, answering: str | None
) -> None:  # fmt: skip
    """Work the same orders with eleven fixed policies in a replay of DAY and in simulated days of POPULATION.

    A policy that is learnt or chosen in a population is useful in the market only if both rank policies alike. Shows the
    price advantage (PA) of each in both, the rank correlation, and the differences, with 95 % intervals.

    Writes an .html, .json and .png file with the name of OUTPUT.
    """
    from serl.extras import require_reports

    require_reports()
    from rich.console import Console
    from rich.progress import Progress, TextColumn

    from serl.agents.calibration.ranking import POLICIES, rank
    from serl.agents.calibration.ranking_report import sentences, summary_table, write_ranking
    from serl.agents.execution.answering.model import NONE
    from serl.agents.pages.page import check_path
    from serl.agents.realism.days import day_origin, load_day, parse_window
    from serl.agents.traders.population import load_population
    from serl.agents.traders.simulate import fingerprint
    from serl.history.day import select_symbol

    check_path(output.with_suffix(".html"), day, population)
    start_ns, end_ns = parse_window(hours, "--hours")
    history, config = load_day(day), load_population(population)
    one_symbol = select_symbol(history, symbol or history.reference.symbols[0].name)
    console = Console()
    with Progress(
        *Progress.get_default_columns(), TextColumn("{task.fields[doing]}"), console=console, transient=True
    ) as progress:
        task = progress.add_task("ranking", total=2 * len(POLICIES), doing=f"replaying {day.name}")
        found = rank(
            one_symbol, config, start_ns, end_ns, range(seed, seed + seeds),
            on_policy=lambda name: progress.update(task, advance=1, doing=name), answers=answering or NONE,
        )  # fmt: skip
    title = f"{day.name}{f' answering ({answering})' if answering else ''} and {config.name}, {hours}"
    data = f"{day_origin(history)}; population {config.name} sha256 {fingerprint(config)[:16]}"
    written = write_ranking(found, data, title, seed, output)
    console.print(summary_table(found, title))
    for sentence in sentences(found):
        click.echo(sentence)
    click.echo(f"wrote {', '.join(map(str, written))}")
