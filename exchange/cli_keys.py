"""`serl keys`: CURVE keys."""

from pathlib import Path

import click


@click.group(epilog="Example: serl keys new ./keys")
def keys() -> None:
    """Keys for exchanges that other machines may reach."""


@keys.command(
    epilog="Example: serl keys new ./keys && serl exchange start --endpoint tcp://0.0.0.0:5570 --curve ./keys"
)
@click.argument("folder", type=click.Path(path_type=Path), default=Path("keys"))
def new(folder: Path) -> None:
    """Makes a server and a client key pair in FOLDER; give clients all files but server.key."""
    from serl.exchange.keys import new_keys

    new_keys(folder)
    click.echo(f"wrote 4 files to {folder}; keep server.key on the server, copy the other three to clients")
