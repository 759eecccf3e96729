"""`serl record`: a running exchange as a day file."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from serl.exchange.config import time_of_day_text


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
def record(connect: str, output: Path, symbols: str | None, seconds: float, curve: Path | None) -> None:
    """Writes what happens on a running exchange to a day file, until Ctrl-C or until the exchange is gone."""
    from rich.console import Console

    from serl.clients.errors import FeedGap
    from serl.clients.record import Recorder
    from serl.exchange.history.day import day_writer

    console = Console()
    gap = None
    with day_writer(output) as writer, stopped_by_signals() as stop:
        recorder = Recorder(connect, writer, tuple(symbols.split(",")) if symbols else (), curve)
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
    click.echo(
        f"{output}: {why}; {writer.commands:,} commands, {recorder.tape.rows:,} events, tape {recorder.tape.hexdigest()[:16]}"
    )
    if gap is not None:
        raise gap
