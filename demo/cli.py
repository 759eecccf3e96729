"""`serl demo`: everything at once, or the shortest chain of it."""

from pathlib import Path

import click

from serl.demo.order import DemoOrder

GENERATED = DemoOrder("DEMO", "sell", 2000, "09:35-09:55", 30, "10:00")
REAL = ("sell", 5000, "10:00-10:30", 30, "10:35")
SIMULATED = DemoOrder("SIM", "sell", 5000, "09:32-09:47", 10, "16:00")


@click.command(epilog="Example: serl demo --day LOBSTER_SampleFile_AMZN_2012-06-21_5.zip")
@click.option(
    "--day", "--days", "day", type=click.Path(path_type=Path),
    help="A LOBSTER zip or a day file to replay; without it simulated traders make the market (--quick: a generated day).",
)  # fmt: skip
@click.option("--quick", is_flag=True, help="Only an exchange, a replayed day and an execution, in seconds.")
@click.option(
    "--speed", default=None, help="Times real time, like 60 [30]; with --quick max (lockstep) is the default."
)
@click.option("--seed", default=1, show_default=True, help="Of the generated day.")
@click.option("--researcher/--no-researcher", default=True, help="A language model designs learning algorithms.")
@click.option("--dashboard/--no-dashboard", default=True, help="The page to watch.")
@click.option("--port", type=click.IntRange(0, 65535), default=8700, show_default=True, help="Of the page.")
@click.option("--output", type=click.Path(path_type=Path), default=Path("demo-output"), show_default=True)
def demo(
    day: Path | None, quick: bool, speed: str | None, seed: int, researcher: bool, dashboard: bool, port: int, output: Path
) -> None:  # fmt: skip
    """Starts an exchange, a market in it, a page to watch it, an executor and the researcher; ends with what came out.

    Ctrl-C ends all of it at any moment.
    """
    from serl.clients.cli_replay import parse_speed

    pace = speed or ("max" if quick else "30")
    rate = parse_speed(pace)
    output.mkdir(parents=True, exist_ok=True)
    if quick:
        _quick(day, pace, seed, output)
        return
    if rate is None:
        raise click.UsageError("--speed max is for --quick: what is to be watched needs a number, like 30")
    if dashboard:
        from serl.clients.dashboard.server import bind

        bind("127.0.0.1", port).close()  # a port that is taken is told now, not when the exchange has compiled
    from serl.demo.full import Plan
    from serl.demo.show import show

    path = None if day is None else output / "demo.day"
    order = SIMULATED if path is None or day is None else _read(day, path)
    show(Plan(order, path, rate, output, port if dashboard else None, researcher))


def _quick(day: Path | None, speed: str, seed: int, output: Path) -> None:
    from serl.demo import quick
    from serl.exchange.history.day import write_day
    from serl.exchange.history.generate import generate_day

    path = output / "demo.day"
    if day is None:
        click.echo(f"no --day given: a synthetic day is generated (seed {seed}); it is no real market data")
        write_day(generate_day(seed), path)
    order = GENERATED if day is None else _read(day, path)
    for line in quick.run(path, order, speed, output):
        click.echo(line)


def _read(day: Path, path: Path) -> DemoOrder:
    """Writes a day file of the history that was given: the order to work in it."""
    from serl.agents.realism.days import load_day
    from serl.exchange.history.day import write_day

    click.echo(f"reading {day}")
    history = load_day(day)
    write_day(history, path)
    return DemoOrder(history.reference.symbols[0].name, *REAL)
