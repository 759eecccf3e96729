"""`serl demo`: everything at once, or the shortest chain of it."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from serl.clients.dashboard import PORT

if TYPE_CHECKING:
    from serl.demo.source import Source

SPEED, POPULATION, SEED = "30", "amzn", 1


@click.command(epilog="Example: serl demo --day LOBSTER_SampleFile_AMZN_2012-06-21_5.zip")
@click.option(
    "--day", "--days", "day", type=click.Path(path_type=Path),
    help="A LOBSTER zip or a day file to replay; without it simulated traders make the market (--quick: a generated day).",
)  # fmt: skip
@click.option("--quick", is_flag=True, help="Only an exchange, a replayed day and an execution, in seconds.")
@click.option(
    "--speed", default=None, help=f"Times real time, like 60 [{SPEED}]; with --quick max (lockstep) is the default."
)
@click.option("--population", help=f"Who trades: a YAML file, or the name of one that comes with serl [{POPULATION}].")
@click.option("--seed", type=click.IntRange(0), help=f"Of the traders, or of the generated day [{SEED}].")
@click.option("--researcher/--no-researcher", default=True, help="A language model designs learning algorithms.")
@click.option("--dashboard/--no-dashboard", default=True, help="The page to watch.")
@click.option("--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="Of the page.")
@click.option("--output", type=click.Path(path_type=Path), default=Path("demo-output"), show_default=True)
def demo(
    day: Path | None, quick: bool, speed: str | None, population: str | None, seed: int | None, researcher: bool, dashboard: bool, port: int,
    output: Path,
) -> None:  # fmt: skip
    """Starts an exchange, a market in it, a page to watch it, an executor and the researcher; ends with what came out.

    Ctrl-C ends all of it at any moment.
    """
    from serl.clients.cli_replay import parse_speed

    _check_use(day, quick, population, seed)
    pace = speed or ("max" if quick else SPEED)
    rate = parse_speed(pace)
    if rate is None and not quick:
        raise click.UsageError("--speed max is for --quick: what is to be watched needs a number, like 30")
    if dashboard and not quick:
        from serl.clients.dashboard.server import bind

        bind("127.0.0.1", port).close()  # a port that is taken is told now, not when the exchange has compiled
    if researcher and not quick:
        from serl.demo.research import require_packages

        require_packages()
    output.mkdir(parents=True, exist_ok=True)
    source = _source(day, quick, population or POPULATION, SEED if seed is None else seed, output / "demo.day")
    if rate is None or quick:  # only --quick goes without a rate
        from serl.demo import quick as chain

        for line in chain.run(source, pace, output):
            click.echo(line)
        return
    from serl.demo.full import Plan
    from serl.demo.show import show

    show(Plan(source, rate, output, port if dashboard else None, researcher))


def _check_use(day: Path | None, quick: bool, population: str | None, seed: int | None) -> None:
    """Options that would change nothing are refused."""
    if population is not None and (quick or day is not None):
        raise click.UsageError("--population is of simulated traders: leave --day and --quick out, or --population")
    if seed is not None and day is not None:
        raise click.UsageError("--seed is of simulated traders or a generated day: nothing is drawn with --day")


def _source(day: Path | None, quick: bool, population: str, seed: int, path: Path) -> "Source":
    from serl.demo import source

    if day is not None:
        click.echo(f"reading {day}")
        return source.given(day, path)
    if quick:
        click.echo(f"no --day given: a synthetic day is generated (seed {seed}); it is no real market data")
        return source.generated(seed, path)
    return source.simulated(population, seed)
