"""`serl day`: make day files, look into them, check them."""

import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from serl.exchange.history.day import Reference

FILE = click.Path(path_type=Path, dir_okay=False)
SOURCE = click.Path(path_type=Path)


@click.group(epilog="Example: serl day import LOBSTER_SampleFile_AMZN_2012-06-21_5.zip -o amzn.parquet")
def day() -> None:
    """Trading days as files: import, look, verify, generate."""


def _print_table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    """A rich table on a terminal; elsewhere tab-separated lines."""
    if not sys.stdout.isatty():
        for row in (header, *rows) if any(header) else rows:
            click.echo("\t".join(row))
        return
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, show_header=any(header), padding=(0, 1, 0, 0), pad_edge=False)
    for name in header:
        table.add_column(name, no_wrap=any(header))
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def _time(time_ns: int) -> str:
    from serl.exchange.config import time_of_day_text

    return f"{time_of_day_text(time_ns)}.{time_ns % 1_000_000_000:09}"


def _describe(reference: "Reference", commands: int) -> list[tuple[str, str]]:
    rows = [
        ("symbols", ", ".join(f"{s.name} (tick {s.tick_size}, lot {s.lot_size})" for s in reference.symbols)),
        ("date", reference.date or "-"),
        ("source", reference.source),
        ("commands", f"{commands:,}"),
        ("source rows", f"{reference.source_rows:,}"),
        ("levels", str(reference.levels or "all")),
        ("first", _time(reference.first_time_ns)),
        ("last", _time(reference.last_time_ns)),
    ]
    rows += [("file", f"{file.name} sha256 {file.sha256}") for file in reference.files]
    rows += [(name, str(value)) for name, value in reference.parameters.items()]
    rows += [(name.replace("_", " "), f"{count:,}") for name, count in reference.counts.items()]
    return rows


@day.command("import", epilog="Example: serl day import LOBSTER_SampleFile_AMZN_2012-06-21_5.zip -o amzn.parquet")
@click.argument("source", type=SOURCE)
@click.option("-o", "--output", type=FILE, help="Day file to write. [SYMBOL_DATE_LEVELS.parquet]")
def import_(source: Path, output: Path | None) -> None:
    """Makes a day file of SOURCE: a LOBSTER zip file, a folder with its two CSV files, or the message file."""
    from serl.exchange.history.day import write_day
    from serl.exchange.history.importing import import_day

    began = time.perf_counter()
    made = import_day(source)
    reference = made.reference
    path = output or Path(f"{reference.symbols[0].name}_{reference.date}_{reference.levels}.parquet")
    write_day(made, path)
    counts = reference.counts
    click.echo(
        f"{path}: {len(made):,} commands of {reference.source_rows:,} rows in {time.perf_counter() - began:.1f} s; "
        f"refreshed {counts['refresh_adds'] + counts['refresh_cuts']:,} levels that came into view, "
        f"unexplained {counts['unexplained']:,}"
    )


@day.command(epilog="Example: serl day info amzn.parquet")
@click.argument("file", type=FILE)
def info(file: Path) -> None:
    """Prints the reference data of a day file and how often each rule of its reader applied."""
    from serl.exchange.history.day import read_reference

    reference, commands = read_reference(file)
    _print_table(("", ""), _describe(reference, commands))


@day.command(epilog="Example: serl day head amzn.parquet -n 20")
@click.argument("file", type=FILE)
@click.option("-n", "count", type=click.IntRange(min=1), default=10, show_default=True, help="Commands to print.")
def head(file: Path, count: int) -> None:
    """Prints the first commands of a day file."""
    from serl.exchange.history.day import read_day
    from serl.exchange.records import CommandKind, Side, TimeInForce

    made = read_day(file)
    header = ("time", "row", "command", "kind", "order", "symbol", "side", "lots", "ticks")
    names = [symbol.name for symbol in made.reference.symbols]
    rows = []
    for command, row in zip(made.commands[:count], made.rows[:count], strict=True):
        kind = CommandKind(int(command["kind"]))
        in_force = f" {TimeInForce(int(command['time_in_force'])).name}" if kind == CommandKind.NEW else ""
        rows.append((
            _time(int(command["time_ns"])), str(row), str(command["command_id"]), kind.name + in_force, str(command["order_id"]),
            names[int(command["symbol"])], Side(int(command["side"])).name, str(command["qty_lots"]),
            str(command["price_ticks"]),
        ))  # fmt: skip
    _print_table(header, rows)


@day.command(epilog="Example: serl day verify amzn.parquet LOBSTER_SampleFile_AMZN_2012-06-21_5.zip")
@click.argument("file", type=FILE)
@click.argument("source", type=SOURCE)
def verify(file: Path, source: Path) -> None:
    """Plays FILE through the market and compares its book with that of SOURCE after every row; fails if one differs."""
    from serl.exchange.history.day import read_day
    from serl.exchange.history.verify import verify_source

    result = verify_source(read_day(file), source)
    click.echo(
        f"{result.differing:,} of {result.rows:,} rows differ ({result.commands:,} commands, "
        f"{result.rejected:,} rejected, {result.unexplained:,} level changes unexplained, {result.seconds:.2f} s)"
    )
    first = result.first_difference
    if first is not None:
        for at, name in enumerate(("bids", "asks")):
            click.echo(f"row {first.row} {name}: {first.expected[at]} is due, the book has {first.actual[at]}")
        sys.exit(1)


@day.command(epilog="Example: serl day generate -o demo.parquet --seed 7 --start 09:30 --end 10:30")
@click.option("-o", "--output", type=FILE, required=True, help="Day file to write.")
@click.option("--seed", type=click.IntRange(min=0), required=True, help="The same seed makes the same day.")
@click.option("--symbol", default="DEMO", show_default=True)
@click.option("--start", default="09:30", show_default=True, help="Time of the first command.")
@click.option("--end", default="16:00", show_default=True, help="Time before which the last one comes.")
@click.option("--rate", default=8.0, show_default=True, help="Commands per second, mean of 09:30 to 16:00.")
def generate(output: Path, seed: int, symbol: str, start: str, end: str, rate: float) -> None:
    """Makes a synthetic day from a seed, for those who have no data."""
    from serl.exchange.config import time_of_day_ns
    from serl.exchange.history.day import write_day
    from serl.exchange.history.generate import generate_day

    made = generate_day(seed, symbol, start_ns=time_of_day_ns(start), end_ns=time_of_day_ns(end), commands_per_s=rate)
    write_day(made, output)
    click.echo(f"{output}: {len(made):,} commands of {symbol}, {start} to {end}, seed {seed}")
