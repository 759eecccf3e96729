"""`serl drop-copy`: the events of a participant or of all, in a file."""

from pathlib import Path

import click

from serl.clients.cli_record import stopped_by_signals


@click.command(epilog="Example: serl drop-copy --participant alice -o alice.csv")
@click.option("--connect", default="tcp://127.0.0.1:5570", show_default=True, help="Orders endpoint of the exchange.")
@click.option("--token", default="", help="An operator's token, where the exchange has tokens.")
@click.option("--participant", default="", help="Whose events. [everybody's]")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="File to go on with or to make: CSV if it ends with .csv, else JSON lines.",
)
@click.option("--every-s", type=click.FloatRange(min=0.01), default=0.5, show_default=True, help="How often to ask.")
@click.option("--once", is_flag=True, help="End with the last event of now. [at Ctrl-C]")
@click.option("--curve", type=click.Path(path_type=Path), help="Key folder of `serl keys new`.")
def drop_copy(
    connect: str, token: str, participant: str, output: Path, every_s: float, once: bool, curve: Path | None
) -> None:
    """Writes events to a file as the exchange journals them, until Ctrl-C; the next time it goes on where the file ends."""
    from serl.clients.drop_copy import drop_copy as copied
    from serl.clients.event_file import EventFile

    file, rows = EventFile(output), 0
    try:
        with (
            stopped_by_signals() as stop,
            copied(connect, token=token, participant=participant, after=file.sequence, curve=curve) as copy,
        ):
            while not stop.is_set():
                for piece in copy.pieces():
                    file.write(piece)
                    rows += len(piece)
                    if stop.is_set():
                        break
                if once:
                    break
                stop.wait(every_s)
    finally:
        file.close()
    click.echo(f"{output}: {rows:,} events more, up to {file.sequence:,}")
