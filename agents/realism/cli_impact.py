"""`serl impact`: what a metaorder does to the mid of a replayed day."""

from pathlib import Path

import click


@click.command(epilog="Example: serl impact amzn.day --side buy --qty-share .01,.03,.1 --window 10:00-11:00")
@click.argument("day", type=click.Path(path_type=Path))
@click.option("--side", required=True, type=click.Choice(["buy", "sell"]), help="Which way.")
@click.option("--qty-share", default=".01,.03,.1", show_default=True, help="Sizes, in shares of the window's volume.")
@click.option("--window", required=True, help="When it is worked, like 10:00-11:00.")
@click.option("--interval", default=30.0, show_default=True, help="Seconds between child orders.")
@click.option("--grid", default=5.0, show_default=True, help="Seconds between points of the curve.")
@click.option("--symbol", help="Of a day with several; without it the first.")
@click.option("-o", "--output", type=click.Path(path_type=Path), default=Path("impact.json"), show_default=True)
def impact(
    day: Path, side: str, qty_share: str, window: str, interval: float, grid: float, symbol: str | None, output: Path
) -> None:  # fmt: skip
    """Works a TWAP of each size in a replay of DAY; the mid with it less the mid without it.

    Writes .html, .json and .png of OUTPUT's name. Nobody in a replay reacts: the impact is mechanical.
    """
    from rich.console import Console
    from rich.table import Table

    from serl.agents.realism.days import load_day, origin_of, parse_window
    from serl.agents.realism.impact_report import parse_shares, write_impact
    from serl.agents.realism.metaorder import replay_impact
    from serl.exchange.records import Side

    shares, times = parse_shares(qty_share), parse_window(window)
    history = load_day(day)
    found = replay_impact(
        history, Side[side.upper()], shares, times, interval_ns=round(interval * 1e9),
        grid_step_ns=round(grid * 1e9), symbol=symbol,
    )  # fmt: skip
    written = write_impact(found, day.name, origin_of(history), output)
    table = Table(title=f"{side} {found.symbol}, {window}: impact in ticks")
    for head in ("share", "lots", "filled", "after a child", "mean", "at the end"):
        table.add_column(head, justify="right")
    for order in found.orders:
        cells = (f"{order.qty_share:g}", f"{order.qty_lots:,}", f"{order.filled_lots:,}")
        ticks = (order.child_ticks[0], order.mean_ticks, order.at_end_ticks)
        table.add_row(*cells, *(f"{value:+.2f}" for value in ticks))
    Console().print(table)
    click.echo(f"wrote {', '.join(map(str, written))}")
