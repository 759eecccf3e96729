"""`serl drop-copy`: writes the events of a participant, or of all, to a file."""

import os
from pathlib import Path

import click

from serl.clients.cli_record import stop_on_signals
from serl.exchange.cli_login import curve_option, token_options
from serl.exchange.errors import SerlError
from serl.ranges import FloatRange


@click.command(epilog="Example: serl drop-copy --participant alice -o alice.csv")
@click.option("--connect", default="tcp://127.0.0.1:5570", show_default=True, help="Orders endpoint of the exchange.")
@token_options("Token of a participant with the permission drop_copy")
@click.option("--participant", default="", help="Participant whose events to write. [all]")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="File to create or continue: CSV if it ends with .csv, else JSON lines.",
)
@click.option("--every-s", type=FloatRange(min=0.01), default=0.5, show_default=True, help="Time between two requests.")
@click.option("--once", is_flag=True, help="Stop at the journal's current end. [at Ctrl-C]")
@curve_option
def drop_copy(
    connect: str, token: str, participant: str, output: Path, every_s: float, once: bool, curve: Path | None
) -> None:
    """Write events to a file as the exchange journals them, until Ctrl-C. Started again, it continues where the file ends."""
    from serl.clients.drop_copy import drop_copy as open_drop_copy
    from serl.clients.event_file import EventFile

    created = not os.path.lexists(output)
    file, rows = EventFile(output), 0
    try:
        with (
            stop_on_signals() as stop,
            open_drop_copy(connect, token=token, participant=participant, curve=curve) as copy,
        ):
            if file.last:
                copy.continue_after(file.last)
            while not stop.is_set():
                for batch in copy.batches():
                    file.write(batch)
                    rows += len(batch)
                    if stop.is_set():
                        break
                if once:
                    break
                stop.wait(every_s)
    except SerlError:
        if created and not file.sequence:
            output.unlink()
        raise
    finally:
        file.close()
    click.echo(f"{output}: {rows:,} events added, up to {file.sequence:,}")
