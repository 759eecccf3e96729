"""`serl demo`: everything end to end."""

from pathlib import Path

import click

GENERATED = ("DEMO", "sell", 2000, "09:35-09:55", "10:00")
REAL = ("sell", 5000, "10:00-10:30", "10:35")


@click.command(epilog="Example: serl demo --day LOBSTER_SampleFile_AMZN_2012-06-21_5.zip")
@click.option("--day", type=click.Path(path_type=Path), help="A LOBSTER zip or a day file; without it a generated day.")
@click.option("--speed", default="max", show_default=True, help="max (lockstep) or times real time, like 60.")
@click.option("--seed", default=1, show_default=True, help="Of the generated day.")
@click.option("--output", type=click.Path(path_type=Path), default=Path("demo-output"), show_default=True)
def demo(day: Path | None, speed: str, seed: int, output: Path) -> None:
    """Starts an exchange, replays a day into it, and sells a parent order there; ends with what that cost."""
    from serl.agents.execution.demo import run
    from serl.clients.cli_replay import parse_speed
    from serl.exchange.history.day import read_day, write_day
    from serl.exchange.history.generate import generate_day
    from serl.exchange.history.importing import import_day

    parse_speed(speed)
    output.mkdir(parents=True, exist_ok=True)
    if day is None:
        click.echo(f"no --day given: a synthetic day is generated (seed {seed}); it is no real market data")
        history = generate_day(seed)
    else:
        click.echo(f"reading {day}")
        history = read_day(day) if day.suffix not in (".zip", ".csv") and day.is_file() else import_day(day)
    path = output / "demo.day"
    write_day(history, path)
    symbol = history.reference.symbols[0].name
    side, qty, window, stop_at = GENERATED[1:] if day is None else REAL
    for line in run(path, symbol, side, qty, window, speed, output, stop_at):
        click.echo(line)
