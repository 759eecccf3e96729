"""`serl record`: a running exchange as a day file."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from serl.exchange.config import time_of_day_text

if TYPE_CHECKING:
    from serl.history.tape import Tape


@contextmanager
def stopped_by_signals() -> Iterator[threading.Event]:
    """Set by SIGINT and SIGTERM, which otherwise could end the program between an event and its commands. What is ignored stays so."""
    stop = threading.Event()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in (number for number, way in before.items() if way != signal.SIG_IGN):
        signal.signal(number, lambda *_: stop.set())
    try:
        yield stop
    finally:
        for number, way in before.items():
            signal.signal(number, way)


@click.command(epilog="Example: serl record --connect tcp://127.0.0.1:5570 -o session.parquet")
@click.option("--connect", default="tcp://127.0.0.1:5570", show_default=True, help="Orders endpoint of the exchange.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), required=True, help="Day file to write."
)
@click.option("--symbols", help="Those to record, with commas between. [all]")
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=float("inf"),
    help="Of real time, then end. [until Ctrl-C]",
)
@click.option(
    "--curve", type=click.Path(path_type=Path), help="Key folder of `serl keys new`, for exchanges beyond this machine."
)
@click.option(
    "--accounts",
    is_flag=True,
    help="Every command of everybody, as an operator: with auctions and all kinds of orders, from the exchange's beginning. [the public feed, "
    "from now, in continuous trading]",
)
@click.option("--token", default="", help="With --accounts: an operator's, where the exchange has tokens.")
def record(
    connect: str, output: Path, symbols: str | None, seconds: float, curve: Path | None, accounts: bool, token: str
) -> None:
    """Writes what happens on a running exchange to a day file, until Ctrl-C or until the exchange is gone."""
    if accounts and symbols:
        raise click.UsageError(
            "--accounts records all symbols, since accounts have limits over all of them; leave out --symbols"
        )
    if token and not accounts:
        raise click.UsageError("--token is for --accounts; the public feed needs none")
    if accounts:
        _record_accounts(connect, output, seconds, curve, token)
    else:
        _record_feed(connect, output, tuple(symbols.split(",")) if symbols else (), seconds, curve)


def _record_accounts(connect: str, output: Path, seconds: float, curve: Path | None, token: str) -> None:
    from rich.console import Console

    from serl.clients.record_accounts import accounts_recorder
    from serl.history.day import day_writer

    console = Console()
    with (
        day_writer(output, accounts=True) as writer,
        stopped_by_signals() as stop,
        accounts_recorder(connect, writer, token, curve) as recorder,
        console.status("recording") as status,
    ):
        recorder.take()  # so that it is refused before we say that we record
        click.echo(f"recording {connect}; Ctrl-C ends the file")
        why = recorder.run(
            stop, lambda now: status.update(f"{time_of_day_text(now.time_ns)}, {writer.commands:,} commands"), seconds
        )
        recorder.finish()
    _tell(output, why, writer.commands, recorder.tape)


def _tell(output: Path, why: str, commands: int, tape: "Tape") -> None:
    click.echo(f"{output}: {why}; {commands:,} commands, {tape.rows:,} events, tape {tape.hexdigest()[:16]}")


def _record_feed(connect: str, output: Path, symbols: tuple[str, ...], seconds: float, curve: Path | None) -> None:
    from rich.console import Console

    from serl.clients.errors import FeedGap
    from serl.clients.record import Recorder
    from serl.history.day import day_writer

    console = Console()
    gap = None
    with day_writer(output) as writer, stopped_by_signals() as stop:
        recorder = Recorder(connect, writer, symbols, curve)
        click.echo(f"recording {connect}; Ctrl-C ends the file")
        try:
            with console.status("recording") as status:
                why = recorder.run(
                    stop,
                    lambda now: status.update(f"{time_of_day_text(now.time_ns)}, {now.tape.rows:,} events"),
                    seconds,
                )
        except FeedGap as error:
            why, gap = "cut short", error
        finally:
            recorder.close()
        recorder.finish()
    _tell(output, why, writer.commands, recorder.tape)
    if gap is not None:
        raise gap
