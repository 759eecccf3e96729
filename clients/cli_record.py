"""`serl record`: records a running exchange as a day file."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from serl.exchange.cli_login import curve_option, token_options
from serl.exchange.config import time_of_day_text
from serl.ranges import FloatRange

if TYPE_CHECKING:
    from serl.history.tape import Tape


@contextmanager
def stop_on_signals() -> Iterator[threading.Event]:
    """Yields an event that SIGINT and SIGTERM set, so that they do not end the program between two writes. Ignored signals stay ignored."""
    stop = threading.Event()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in (number for number, handler in before.items() if handler != signal.SIG_IGN):
        signal.signal(number, lambda *_: stop.set())
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@click.command(epilog="Example: serl record --connect tcp://127.0.0.1:5570 -o session.parquet")
@click.option("--connect", default="tcp://127.0.0.1:5570", show_default=True, help="Orders endpoint of the exchange.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), required=True, help="Day file to write."
)
@click.option("--symbols", help="Symbols to record, separated by commas. [all]")
@click.option(
    "--seconds",
    type=FloatRange(min=0, min_open=True),
    default=float("inf"),
    help="Real time to record for. [until Ctrl-C]",
)
@curve_option
@click.option(
    "--accounts",
    is_flag=True,
    help="Record every command of every participant since the exchange started, as an operator: auctions and all order types included. "
    "[the public feed, from now on, in continuous trading]",
)
@token_options("Token of a participant that may read data, with --accounts an operator's")
def record(
    connect: str, output: Path, symbols: str | None, seconds: float, curve: Path | None, accounts: bool, token: str
) -> None:
    """Record a running exchange to a day file, until Ctrl-C or until the exchange stops."""
    if accounts and symbols:
        raise click.UsageError(
            "--accounts always records all symbols, because account limits span them; omit --symbols"
        )
    if accounts:
        _record_accounts(connect, output, seconds, curve, token)
    else:
        _record_feed(connect, output, tuple(symbols.split(",")) if symbols else (), seconds, curve, token)


def _record_accounts(connect: str, output: Path, seconds: float, curve: Path | None, token: str) -> None:
    from rich.console import Console

    from serl.clients.errors import RequestRejected
    from serl.clients.record_accounts import accounts_recorder
    from serl.history.day import day_writer

    console = Console()
    refusal = None
    with (
        day_writer(output, accounts=True) as writer,
        stop_on_signals() as stop,
        accounts_recorder(connect, writer, token, curve) as recorder,
        console.status("recording") as status,
    ):
        recorder.copy_batch()  # first, so that a refusal is reported before "recording" is printed
        _announce(connect, recorder.has_news)
        try:
            outcome = recorder.run(
                stop,
                lambda now: status.update(f"{time_of_day_text(now.time_ns)}, {writer.commands:,} commands"),
                seconds,
            )
        except RequestRejected as error:  # the exchange was restarted with another journal
            if not writer.commands:
                raise
            outcome, refusal = "cut short", error
        recorder.finish()
    _print_summary(output, outcome, writer.commands, recorder.tape)
    if refusal is not None:
        raise refusal


def _announce(endpoint: str, has_news: bool) -> None:
    click.echo(f"recording {endpoint}; Ctrl-C ends the file")
    if not has_news:
        click.echo("note: this exchange is of an earlier version without news; the file will have none")


def _print_summary(output: Path, outcome: str, commands: int, tape: "Tape") -> None:
    click.echo(f"{output}: {outcome}; {commands:,} commands, {tape.rows:,} events, tape {tape.hexdigest()[:16]}")


def _record_feed(
    connect: str, output: Path, symbols: tuple[str, ...], seconds: float, curve: Path | None, token: str
) -> None:
    from rich.console import Console

    from serl.clients.errors import FeedGap
    from serl.clients.record import Recorder
    from serl.history.day import day_writer

    console = Console()
    gap = None
    with day_writer(output) as writer, stop_on_signals() as stop:
        recorder = Recorder(connect, writer, symbols, curve, token)
        _announce(connect, recorder.has_news)
        try:
            with console.status("recording") as status:
                outcome = recorder.run(
                    stop,
                    lambda now: status.update(f"{time_of_day_text(now.time_ns)}, {now.tape.rows:,} events"),
                    seconds,
                )
        except FeedGap as error:
            outcome, gap = "cut short", error
        finally:
            recorder.close()
        recorder.finish()
    _print_summary(output, outcome, writer.commands, recorder.tape)
    if gap is not None:
        raise gap
