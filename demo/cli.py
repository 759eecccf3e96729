"""`serl demo`: the full demo, or the quick one."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from serl.agents.traders.builtin import POPULATIONS, BuiltinFile
from serl.clients.dashboard import PORT

if TYPE_CHECKING:
    from serl.demo.source import Source

SPEED, POPULATION, SEED = "30", "liquid", 1


@click.command(epilog="Example: serl demo --day LOBSTER_SampleFile_AMZN_2012-06-21_5.zip")
@click.option(
    "--day", "--days", "day", type=click.Path(path_type=Path),
    help="LOBSTER zip or day file to replay  [default: simulated traders; with --quick a generated day]",
)  # fmt: skip
@click.option("--quick", is_flag=True, help="Run only an exchange, a replayed day and an execution, in seconds.")
@click.option(
    "--speed", default=None, help=f"Multiple of real time, like 60  [default: {SPEED}; with --quick max, in lockstep]"
)
@click.option(
    "--population",
    type=BuiltinFile("population", POPULATIONS),
    help=f"Population of traders: a YAML file, or the name of a shipped one  [default: {POPULATION}]",
)
@click.option("--seed", type=click.IntRange(0), help=f"Seed of the traders, or of the generated day  [default: {SEED}]")
@click.option("--researcher/--no-researcher", default=True, help="Let a language model design learning algorithms.")
@click.option("--dashboard/--no-dashboard", default=True, help="Serve the dashboard.")
@click.option("--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="Port of the dashboard.")
@click.option("--output", type=click.Path(path_type=Path), default=Path("demo-output"), show_default=True)
def demo(
    day: Path | None, quick: bool, speed: str | None, population: str | None, seed: int | None, researcher: bool, dashboard: bool, port: int,
    output: Path,
) -> None:  # fmt: skip
    """Run an exchange, a market, a dashboard, an executor and the researcher.

    A report is written after the first execution, and again at the end. Then the market and the dashboard stay until Ctrl-C, unless
    --no-dashboard or --quick is given. Ctrl-C stops everything at any time.
    """
    from serl.clients.cli_replay import parse_speed
    from serl.extras import require_reports

    _check_options(day, quick, population, seed)
    pace = speed or ("max" if quick else SPEED)
    rate = parse_speed(pace)
    if rate is None and not quick:
        raise click.UsageError("--speed: expected a number without --quick, got max; use one like 30")
    if dashboard and not quick:
        from serl.clients.dashboard.server import bind

        bind("127.0.0.1", port).close()  # fail now if the port is taken, not after the exchange has compiled
    if researcher and not quick:
        from serl.demo.research import require_packages

        require_packages()
    require_reports()
    output.mkdir(parents=True, exist_ok=True)
    from serl.exchange.code_cache import precompiling

    with precompiling(*(["book"] if quick or day else [])):  # on a new machine, while the day is read or generated
        source = _source(day, quick, population or POPULATION, SEED if seed is None else seed, output / "demo.day")
        if rate is None or quick:  # without --quick there is always a rate
            from serl.demo import quick as quick_demo

            for line in quick_demo.run(source, pace, output):
                click.echo(line)
            return
        from serl.demo.full import Plan
        from serl.demo.show import show

        show(Plan(source, rate, output, port if dashboard else None, researcher))


def _check_options(day: Path | None, quick: bool, population: str | None, seed: int | None) -> None:
    """Reject options without effect."""
    if population is not None and (quick or day is not None):
        raise click.UsageError(
            "--population: expected simulated traders, got --day or --quick; omit these, or omit --population"
        )
    if seed is not None and day is not None:
        raise click.UsageError("--seed: expected none with --day, in which nothing is random; omit it")


def _source(day: Path | None, quick: bool, population: str, seed: int, path: Path) -> "Source":
    from serl.demo import source

    if day is not None:
        click.echo(f"reading {day}")
        return source.replayed(day, path)
    if quick:
        click.echo(f"no --day given: generating a synthetic day (seed {seed}); it is not real market data")
        return source.generated(seed, path)
    return source.simulated(population, seed)
