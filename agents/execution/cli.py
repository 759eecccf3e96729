"""`serl execute`: work a parent order on a running exchange."""

from pathlib import Path

import click


@click.group()
def execute() -> None:
    """Works a parent order on a running exchange and reports what it cost."""


@execute.command(
    epilog="Example: serl execute twap --symbol AMZN --side sell --qty 5000 --window 10:00-10:30 --day amzn.day"
)
@click.option("--symbol", required=True, help="What to trade.")
@click.option("--side", required=True, type=click.Choice(["buy", "sell"]), help="Which way.")
@click.option("--qty", required=True, type=int, help="Lots in all.")
@click.option("--window", required=True, help="Exchange time, like 10:00-10:30.")
@click.option("--interval", default=30.0, show_default=True, help="Seconds between child orders.")
@click.option("--connect", default="tcp://127.0.0.1:5570", show_default=True, help="Orders endpoint of the exchange.")
@click.option("--name", default="executor", show_default=True, help="Participant name.")
@click.option("--token", default="", help="Its login token.")
@click.option("--day", type=click.Path(path_type=Path), help="The day file that is replayed: for PA_twap.")
@click.option("--report", type=click.Path(path_type=Path), default=Path("reports"), show_default=True, help="Folder.")
def twap(
    symbol: str, side: str, qty: int, window: str, interval: float, connect: str, name: str, token: str,
    day: Path | None, report: Path,
) -> None:  # fmt: skip
    """Equal slices by market order over the window; the rest is forced at its end."""
    from rich.console import Console
    from rich.table import Table

    from serl.agents.execution import report as reports
    from serl.agents.execution.inprocess import replay_with_twap
    from serl.agents.execution.order import ParentOrder
    from serl.agents.execution.twap import TwapExecutor
    from serl.clients.blocking import connect as log_in
    from serl.exchange.config import time_of_day_ns
    from serl.exchange.history.day import read_day
    from serl.exchange.records import Side

    start, _, end = window.partition("-")
    order = ParentOrder(
        symbol, Side[side.upper()], qty, time_of_day_ns(start), time_of_day_ns(end), round(interval * 1_000_000_000)
    )
    benchmark = None
    if day is not None:
        history = read_day(day)
        files = ", ".join(f"{file.name} sha256 {file.sha256[:16]}" for file in history.reference.files)
        origin = files or f"generated {history.reference.parameters}"
        benchmark = reports.Benchmark(replay_with_twap(history, order), origin)
    with log_in(connect, name, token) as client:
        click.echo(f"{name}: waiting for {window} to {side} {qty:,} {symbol}")
        tick_size = float(client.instrument(symbol).tick_size)
        execution = TwapExecutor(client, order).run()
    summary = reports.summarise(execution, benchmark)
    json_path, png_path = reports.write_report(execution, summary, tick_size, report)
    table = Table(title=f"TWAP {side} {qty:,} {symbol}, {window}", show_header=False)
    for row in reports.lines(summary, tick_size):
        table.add_row(*row)
    Console().print(table)
    click.echo(f"wrote {json_path} and {png_path}")
