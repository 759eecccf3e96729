"""`serl day`: import, export, inspect, verify and generate day files."""

import re
import sys
import time
from collections.abc import Iterable
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING

import click

from serl.history.count_labels import LABELS, label
from serl.ranges import FloatRange

if TYPE_CHECKING:
    from serl.exchange.table import Table
    from serl.history.day import Day, Reference

FILE = click.Path(path_type=Path, dir_okay=False)
SOURCE = click.Path(path_type=Path)
TABLES = ("orders", "events", "trades", "quotes", "book")
"""Functions of serl.history.tables."""


@click.group(epilog="Example: serl day import LOBSTER_SampleFile_AMZN_2012-06-21_5.zip -o amzn.parquet")
def day() -> None:
    """Trading days as files: import, export, inspect, verify, generate."""


def _print_table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    """Prints a table on a terminal, tab-separated lines elsewhere."""
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
    if reference.participants:
        rows.append(("participants", ", ".join(reference.participants)))
    rows += [("file", f"{file.name} sha256 {file.sha256}") for file in reference.files]
    rows += [(name, str(value)) for name, value in reference.parameters.items()]
    for name, count in reference.counts.items():
        rows.append((f"{label(name)} ({name})" if name in LABELS else label(name), f"{count:,}"))
    return rows


@day.command("import", epilog="Example: serl day import LOBSTER_SampleFile_AMZN_2012-06-21_5.zip -o amzn.parquet")
@click.argument("source", type=SOURCE)
@click.option(
    "-o", "--output", type=FILE, help="File to write. [SYMBOL_DATE_LEVELS.parquet, or the name of SOURCE with .parquet]"
)
@click.option(
    "--symbols", help="Symbols to import, separated by commas; or the name, if SOURCE does not contain it. [all]"
)
@click.option("--tick-size", default="", help="Decimal, if SOURCE does not contain it. [the format's]")
@click.option("--lot-size", default="", help="Decimal, if SOURCE does not contain it. [the format's]")
@click.option("--date", default="", help="YYYY-MM-DD, if SOURCE does not contain it.")
@click.option("--time-zone", default="", help="For bars with UTC times: the time zone to convert them to. [UTC]")
@click.option(
    "--allow-rejected", is_flag=True, help="Write the day even if a market rejects more than 1 % of its commands."
)
def import_(
    source: Path, output: Path | None, symbols: str | None, tick_size: str, lot_size: str, date: str, time_zone: str,
    allow_rejected: bool,
) -> None:  # fmt: skip
    """Convert SOURCE to a day file: LOBSTER, NASDAQ ITCH 5.0, Databento MBO, Tardis, CoinAPI, IEX DEEP, Cboe PITCH, an event CSV or depth
    diffs. Then a market replays it, and the printed verdict says what the market accepted. Bars are converted to the table that `serl train` reads."""
    from serl.extras import require_day_files

    require_day_files()
    from serl.exchange.atomic_file import require_other_file
    from serl.history.bars import import_bars
    from serl.history.importing import import_file, is_bars_source
    from serl.history.source import Options

    options = Options(tuple(symbols.split(",")) if symbols else (), tick_size, lot_size, date, time_zone)
    if output is not None:
        require_other_file(output, source)
    started_s = time.perf_counter()
    if is_bars_source(source):
        path = output or Path(f"{source.name.split('.')[0]}.parquet")
        if output is None and path.exists():
            raise _exists(path)
        counts = import_bars(source, path, options)
        summary = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in counts.items())
        click.echo(f"{path}: {summary}; use it with `serl train`, `serl evaluate` and `serl data`")
        return
    reference, verdict = import_file(source, output or _day_path, options, allow_rejected=allow_rejected)
    path = output or _day_path(reference)
    counts = reference.counts
    click.echo(
        f"{path}: {verdict.commands:,} commands of {reference.source_rows:,} rows in {time.perf_counter() - started_s:.1f} s; "
        + (
            f"{counts['refresh_adds'] + counts['refresh_cuts']:,} levels refreshed as they came into view, {counts['unexplained']:,} changes unexplained"
            if "unexplained" in counts
            else ", ".join(f"{label(name)} {count:,}" for name, count in counts.items() if count)
        )
    )
    for line in verdict.lines():
        click.echo(line)


def _day_path(reference: "Reference") -> Path:
    """The output file if --output is not given. Raises UsageError if it exists, unless it is a day file, which a new import may replace."""
    from serl.history.importing import is_day_file

    symbol = re.sub(r"[/\\\0\ud800-\udfff]", "-", reference.symbols[0].name)
    path = Path(f"{symbol}_{reference.date}_{reference.levels}.parquet")
    if path.exists() and not is_day_file(path):
        raise _exists(path)
    return path


def _exists(path: Path) -> click.UsageError:
    return click.UsageError(f"--output: expected a name, as {path} exists already; give -o FILE")


@day.command(epilog="Example: serl day export amzn.parquet --table trades -o trades.csv")
@click.argument("file", type=FILE)
@click.option(
    "-o", "--output", type=FILE, required=True,
    help="NAME.itch or NAME.itch.gz: ITCH 5.0; NAME.zip: LOBSTER; with --table NAME.parquet, .csv, .arrow or .feather.",
)  # fmt: skip
@click.option("--table", "kind", type=click.Choice(TABLES), help="Write this table instead of a market data format.")
@click.option(
    "--levels",
    type=click.IntRange(1, 1000),
    default=10,
    show_default=True,
    help="Levels per side of a LOBSTER order book, or of the table book.",
)
@click.option("--every", type=FloatRange(0, min_open=True), help="Table book: one row every so many seconds. [after each change]")  # fmt: skip
@click.option("--symbol", help="Symbol to export; LOBSTER has one only. [all]")
def export(file: Path, output: Path, kind: str | None, levels: int, every: float | None, symbol: str | None) -> None:
    """Export the day FILE, or a recorded session, as ITCH 5.0 or LOBSTER, or as a table: its orders, events, trades, quotes or books."""
    from serl.exchange.atomic_file import require_other_file
    from serl.history.day import read_day, select_symbol

    if every is not None and kind != "book":
        raise click.UsageError(f"--every: expected with --table book, got it with {kind or 'a market data format'}; leave it out")  # fmt: skip
    _check_ending(output, kind)
    require_other_file(output, file)
    made = read_day(file, accounts=True)
    if kind is not None:
        table = _table(made, kind, symbol, levels, every)
        table.write(output)
        click.echo(f"{output}: {kind}, {len(table):,} rows of {len(table.columns)} columns")
        return
    accounts = bool(made.reference.participants)
    if symbol and not accounts:
        made, symbol = select_symbol(made, symbol), None
    if output.suffix == ".zip":
        from serl.history.lobster_export import write_lobster

        rows = write_lobster(made, output, levels, symbol)
        click.echo(f"{output}: LOBSTER, {rows:,} rows of {levels} levels")
        return
    from serl.history.itch.accounts import write_itch_of_accounts
    from serl.history.itch.writer import write_itch

    size = write_itch_of_accounts(made, output, symbol) if accounts else write_itch(made, output)
    click.echo(f"{output}: ITCH 5.0, {size:,} bytes of messages")


def _check_ending(output: Path, kind: str | None) -> None:
    """UsageError for a file name that does not fit what is exported."""
    table_endings = (".parquet", ".csv", ".arrow", ".feather")
    if kind is not None and output.suffix not in table_endings:
        raise click.UsageError(f"--output: expected a name that ends in {' or '.join(table_endings)} for a table, got {output}")  # fmt: skip
    if kind is None and not output.name.endswith((".itch", ".itch.gz", ".zip")):
        advice = "; say with --table which table to write" if output.suffix in table_endings else ""
        raise click.UsageError(
            f"--output: expected a name that ends in .itch, .itch.gz (ITCH 5.0) or .zip (LOBSTER), got {output}{advice}"
        )


def _table(day: "Day", kind: str, symbol: str | None, levels: int, every_s: float | None) -> "Table":
    from serl.history import tables

    if kind == "book":
        return tables.book(day, levels, symbol, every_s)
    table: Table = getattr(tables, kind)(day, symbol)
    return table


@day.command(epilog="Example: serl day info amzn.parquet")
@click.argument("file", type=FILE)
def info(file: Path) -> None:
    """Print the reference data of a day file and how often each rule of its reader applied."""
    from serl.history.day import read_news, read_reference

    reference, commands = read_reference(file)
    rows, news = _describe(reference, commands), read_news(file)
    _print_table(("", ""), [*rows, ("news", f"{len(news):,}")] if news else rows)


def _name(kind: type[IntEnum], number: int) -> str:
    """The name of a number, or the number if it has none. A market rejects such commands, and the number shows why."""
    return next((known.name for known in kind if known == number), str(number))


@day.command(epilog="Example: serl day head amzn.parquet -n 20")
@click.argument("file", type=FILE)
@click.option("-n", "count", type=click.IntRange(min=1), default=10, show_default=True, help="Commands to print.")
def head(file: Path, count: int) -> None:
    """Print the first commands of a day file."""
    from serl.exchange.records import ALL_SYMBOLS, CommandKind, Side, TimeInForce
    from serl.history.day import read_day

    made = read_day(file, accounts=True)
    header = ("time", "row", "command", "kind", "order", "symbol", "side", "lots", "ticks")
    names = {number: symbol.name for number, symbol in enumerate(made.reference.symbols)} | {ALL_SYMBOLS: "all"}
    rows = []
    for command, row in zip(made.commands[:count], made.rows[:count], strict=True):
        tif = f" {_name(TimeInForce, command['time_in_force'])}" if command["kind"] == CommandKind.NEW else ""
        number = int(command["symbol"])
        rows.append((
            _time(int(command["time_ns"])), str(row), str(command["command_id"]), _name(CommandKind, command["kind"]) + tif,
            str(command["order_id"]), names.get(number, str(number)), _name(Side, command["side"]), str(command["qty_lots"]),
            str(command["price_ticks"]),
        ))  # fmt: skip
    _print_table(header, rows)


@day.command(epilog="Example: serl day verify amzn.parquet LOBSTER_SampleFile_AMZN_2012-06-21_5.zip")
@click.argument("file", type=FILE)
@click.argument("source", type=SOURCE, required=False)
def verify(file: Path, source: Path | None) -> None:
    """Replay FILE through the market and compare: the book after every row with the LOBSTER or depth SOURCE that it was imported from,
    or the tape of a recording (without SOURCE). Fails if they differ."""
    from serl.history.accounts import verify_accounts
    from serl.history.day import read_day
    from serl.history.verify import verify_source, verify_tape

    if source is None:
        made = read_day(file, accounts=True)
        recorded, replayed = verify_accounts(made) if made.reference.participants else verify_tape(made)
        click.echo(f"tape recorded {recorded}\ntape replayed {replayed}")
        sys.exit(0 if recorded == replayed else 1)
    result = verify_source(read_day(file), source)
    click.echo(
        f"{result.differing:,} of {result.rows:,} rows differ ({result.commands:,} commands, "
        f"{result.rejected:,} rejected, {result.unexplained:,} level changes unexplained, {result.seconds:.2f} s)"
    )
    first = result.first_difference
    if first is not None:
        for at, name in enumerate(("bids", "asks")):
            click.echo(f"row {first.row} {name}: expected {first.expected[at]}, got {first.actual[at]}")
        sys.exit(1)


@day.command(epilog="Example: serl day generate -o demo.parquet --seed 7 --start 09:30 --end 10:30")
@click.option("-o", "--output", type=FILE, required=True, help="Day file to write.")
@click.option("--seed", type=click.IntRange(min=0), required=True, help="The same seed generates the same day.")
@click.option("--symbol", default="DEMO", show_default=True)
@click.option("--start", default="09:30", show_default=True, help="Time of the first command.")
@click.option("--end", default="16:00", show_default=True, help="End of the day: every command arrives before it.")
@click.option("--rate", default=8.0, show_default=True, help="Mean number of commands per second, 09:30 to 16:00.")
def generate(output: Path, seed: int, symbol: str, start: str, end: str, rate: float) -> None:
    """Generate a synthetic day from a seed."""
    from serl.exchange.config import time_of_day_ns
    from serl.exchange.errors import ConfigError
    from serl.exchange.invalid import ASSET_NAME
    from serl.extras import require_day_files
    from serl.history.day import write_day
    from serl.history.generate import generate_day

    require_day_files()
    if not re.fullmatch(ASSET_NAME, symbol):
        raise ConfigError(
            f"--symbol: expected 1 to 32 letters, digits, '.', '_' or '-', as exchanges do, got {symbol[:80]!r}"
        )
    start_ns, end_ns = time_of_day_ns(start, "--start"), time_of_day_ns(end, "--end")
    if end_ns <= start_ns:
        raise ConfigError(f"--end: expected a time after --start {start}, got {end}; give a later one")
    made = generate_day(seed, symbol, start_ns=start_ns, end_ns=end_ns, commands_per_s=rate)
    write_day(made, output)
    click.echo(f"{output}: {len(made):,} commands of {symbol}, {start} to {end}, seed {seed}")
