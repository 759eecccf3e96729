"""`serl nautilus`: days for the backtest of NautilusTrader."""

from pathlib import Path
from typing import Literal

import click


@click.group(epilog="Example: serl nautilus export amzn.day catalog")
def nautilus() -> None:
    """Use serl with NautilusTrader: its backtest on a day of serl. Live trading is set up in Python, docs/gateways/nautilus.md."""


@nautilus.command(epilog="Example: serl nautilus export amzn.day catalog --time-zone America/New_York")
@click.argument("day", type=click.Path(path_type=Path, dir_okay=False))
@click.argument("catalog", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--book", type=click.Choice(["l2", "l3"]), default="l3", show_default=True, help="Deltas of price levels, or of single orders."
)  # fmt: skip
@click.option("--symbol", help="Symbol to export. [all]")
@click.option("--date", default="", help="YYYY-MM-DD, if the day has none. [2000-01-03]")
@click.option("--time-zone", default="UTC", show_default=True, help="Time zone of the day's times.")
@click.option("--currency", default="USD", show_default=True, help="Currency of the prices; pairs like BTC-USDT have their own.")  # fmt: skip
def export(
    day: Path, catalog: Path, book: Literal["l2", "l3"], symbol: str | None, date: str, time_zone: str, currency: str
) -> None:
    """Write DAY, a day file or a recorded session, to the folder CATALOG, a catalogue of NautilusTrader's backtest."""
    from serl.gateways.nautilus.catalog import export_day

    exported = export_day(day, catalog, book=book, symbol=symbol, date=date, time_zone=time_zone, currency=currency)
    for one in exported:
        click.echo(
            f"{catalog}: {one.instrument.id}, {one.deltas:,} {book} deltas, {one.quotes:,} quotes, {one.trades:,} trades, "
            f"{one.statuses:,} status changes"
        )
