"""`serl journal`: verify, describe and repair the journal of an exchange."""

import os
import signal
import sys
from pathlib import Path

import click

FOLDER = click.Path(path_type=Path)


@click.group(epilog="Example: serl journal verify ./journal")
def journal() -> None:
    """Verify, describe, compress and repair the journal of an exchange."""


@journal.command(epilog="Example: serl journal verify ./journal")
@click.argument("folder", type=FOLDER)
def verify(folder: Path) -> None:
    """Check every file of the journal in FOLDER, without changing it. Exits with 1 if one is damaged."""
    from serl.exchange.journal.inspect import verify as verify_journal
    from serl.exchange.journal.repair import findings_text

    findings = verify_journal(folder)
    for line in findings_text(findings):
        click.echo(line)
    damaged = sum(bool(finding.damage) for finding in findings)
    if damaged:
        click.echo(
            f"{damaged} of {len(findings)} files are damaged; to save what can be saved: serl journal repair {folder} NEW-FOLDER"
        )
        sys.exit(1)
    click.echo(f"all {len(findings)} files are undamaged")


@journal.command(epilog="Example: serl journal info ./journal")
@click.argument("folder", type=FOLDER)
def info(folder: Path) -> None:
    """Print what the journal in FOLDER contains, and its size."""
    from serl.exchange.journal.inspect import info as journal_info

    for name, value in journal_info(folder).items():
        click.echo(f"{name:22}{value}")


@journal.command(epilog="Example: serl journal compress ./journal")
@click.argument("folder", type=FOLDER)
@click.option("--background", is_flag=True, help="Compress with a low priority.")
def compress(folder: Path, background: bool) -> None:
    """Compress the finished files of the journal in FOLDER to about a twentieth. The exchange may run; it reads them as before."""
    from serl.exchange.journal.compress import compress_finished

    if background:
        os.nice(19)
        signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))  # leaves no file half-written
    before, after = compress_finished(folder)
    click.echo(f"compressed {before / 1e6:,.1f} MB to {after / 1e6:,.1f} MB")


@journal.command(epilog="Example: serl journal repair ./journal ./repaired")
@click.argument("folder", type=FOLDER)
@click.argument("target", type=click.Path(path_type=Path))
def repair(folder: Path, target: Path) -> None:
    """Write to the new folder TARGET what can be saved of the journal in FOLDER, and print what is lost. FOLDER stays as it is."""
    from serl.exchange.journal.repair import repair as repair_journal

    result = repair_journal(folder, target)
    if result.saved_last:
        click.echo(
            f"saved commands {result.saved_first:,} to {result.saved_last:,} in {target}; a restart begins after command {result.snapshot_sequence:,}"
        )
    else:
        click.echo(f"no command could be saved; {target} is an empty journal")
    for line in result.lost:
        click.echo(f"lost: {line}")
    if not result.lost:
        click.echo("nothing is lost")
