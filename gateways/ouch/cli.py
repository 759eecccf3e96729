"""`serl ouch`: OUCH 5.0 order entry over SoupBinTCP."""

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from serl.exchange.cli_login import curve_option, token_options
from serl.exchange.errors import ConfigError
from serl.garbage import collect_while_serving
from serl.gateways.accounts import Accounts, check_lengths, new_accounts, read_accounts, require_secrets
from serl.gateways.addresses import read_address
from serl.gateways.connections import SESSIONS, ConnectionLimits, connection_options
from serl.gateways.soup.packets import SECRET_BYTES, USER_BYTES
from serl.ranges import FloatRange

if TYPE_CHECKING:
    from serl.gateways.ouch.gateway import OuchGateway

PROTOCOL = "SoupBinTCP"
LISTEN = "127.0.0.1:9850"


@click.group(epilog="Example: serl ouch start --account alice --listen 127.0.0.1:9850")
def ouch() -> None:
    """Trade over OUCH 5.0, NASDAQ's order entry protocol."""


@ouch.command(epilog="Example: serl ouch start --account alice --account bob --listen 127.0.0.1:9850")
@click.option("--connect", default="tcp://127.0.0.1:5570", show_default=True, help="Orders endpoint of the exchange.")
@click.option("--listen", default=LISTEN, show_default=True, help="HOST:PORT to serve OUCH on.")
@click.option("--itch", help="HOST:PORT to serve market data on, as ITCH 5.0. [not served]")
@click.option(
    "--accounts",
    "accounts_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="YAML file of the users: `accounts: {PARTICIPANT: {login: ..., secret: ..., token: ...}}`.",
)
@click.option(
    "--account",
    "names",
    multiple=True,
    help="User to make a password for, which is printed; may be repeated. Instead of --accounts.",
)
@click.option(
    "--state",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("runs/ouch"),
    show_default=True,
    help="Folder of the users' streams, which a restarted gateway continues.",
)
@click.option(
    "--silence",
    "silence_s",
    default=15.0,
    show_default=True,
    type=FloatRange(min=1.0),
    help="Disconnect a client that sends nothing for this many seconds.",
)
@connection_options(SESSIONS)
@curve_option
@token_options("Token of a participant that may read data, for --itch")
def start(
    connect: str, listen: str, itch: str | None, accounts_file: Path | None, names: tuple[str, ...], state: Path, silence_s: float,
    connections: ConnectionLimits, curve: Path | None, token: str,
) -> None:  # fmt: skip
    """Serve OUCH 5.0 over SoupBinTCP for users of a running exchange, until Ctrl-C."""
    from serl.gateways.ouch.gateway import OuchGateway
    from serl.gateways.soup.server import SoupLimits

    accounts = _accounts(accounts_file, names)
    addresses = {"OUCH 5.0": read_address("--listen", listen, LISTEN)}
    if itch is not None:
        addresses["ITCH 5.0"] = read_address("--itch", itch, "127.0.0.1:9851")
    limits = SoupLimits(silence_s=silence_s, connections=connections)
    gateway = OuchGateway(
        connect,
        accounts,
        state,
        lambda text: click.echo(text, err=True),
        curve,
        limits,
        token if itch is not None else None,
    )
    asyncio.run(_serve(gateway, addresses, accounts if names else {}))


def _accounts(path: Path | None, names: tuple[str, ...]) -> Accounts:
    if (path is None) == (not names):
        raise ConfigError("expected --accounts or at least one --account; give one of them")
    accounts = read_accounts(path) if path is not None else new_accounts(names, SECRET_BYTES)
    require_secrets(accounts, PROTOCOL)
    check_lengths(accounts, PROTOCOL, USER_BYTES, SECRET_BYTES)
    return accounts


async def _serve(gateway: "OuchGateway", addresses: dict[str, tuple[str, int]], made: Accounts) -> None:
    """Runs until it is cancelled. made: accounts whose passwords the user does not know yet."""
    try:
        await gateway.open()
        for protocol, (host, port) in addresses.items():
            server = gateway.server if protocol.startswith("OUCH") else gateway.feed_server
            try:
                port = await server.listen(host, port)
            except OSError as error:
                raise ConfigError(
                    f"{protocol} on {host}:{port}: {os.strerror(error.errno or 0)}; choose another address or port"
                ) from None
            click.echo(f"{protocol} on {host}:{port}, session {server.session}")
        for account in made.values():
            click.echo(f"user {account.login}, password {account.secret}")
        click.echo("ready")
        collect_while_serving()
        await gateway.run()
    finally:
        await gateway.close()
