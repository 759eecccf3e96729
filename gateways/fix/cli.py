"""`serl fix start`: a FIX 4.4 acceptor in front of an exchange."""

import asyncio
from pathlib import Path

import click

from serl.exchange.cli_login import curve_option
from serl.exchange.config import is_loopback, socket_endpoints
from serl.exchange.errors import ConfigError
from serl.exchange.log import log
from serl.gateways.addresses import read_address
from serl.gateways.connections import SESSIONS, ConnectionLimits, connection_options


@click.group(epilog="Example: serl fix start --account alice")
def fix() -> None:
    """Let clients that speak FIX 4.4 trade."""


@fix.command(epilog="Example: serl fix start --connect tcp://127.0.0.1:5570 --listen 127.0.0.1:9880 --account alice")
@click.option("--connect", default="tcp://127.0.0.1:5570", show_default=True, help="Orders endpoint of the exchange.")
@click.option(
    "--listen",
    default="127.0.0.1:9880",
    show_default=True,
    help="HOST:PORT to accept FIX clients on; port 0 takes a free one.",
)
@click.option(
    "--accounts", type=click.Path(path_type=Path, dir_okay=False), help="File with the accounts: docs/gateways/fix.md."
)
@click.option(
    "--account",
    "names",
    multiple=True,
    help="Participant to make a secret for, which is printed; may be repeated. Instead of --accounts.",
)
@click.option(
    "--store",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("runs/fix"),
    show_default=True,
    help="Folder of sequence numbers and sent messages.",
)
@click.option("--comp-id", default="SERL", show_default=True, help="CompID of the gateway: the clients' TargetCompID.")
@connection_options(SESSIONS)
@curve_option
def start(
    connect: str, listen: str, accounts: Path | None, names: tuple[str, ...], store: Path, comp_id: str, connections: ConnectionLimits,
    curve: Path | None,
) -> None:  # fmt: skip
    """Serve FIX clients until Ctrl-C. A client logs on with its SenderCompID and Password (554)."""
    from serl.exchange.keys import read_keys
    from serl.exchange.private_files import private_folder
    from serl.gateways.accounts import new_accounts, read_accounts, require_secrets
    from serl.gateways.fix.codec import is_comp_id
    from serl.gateways.fix.gateway import serve
    from serl.gateways.fix.settings import Settings

    host, port = read_address("--listen", listen, "127.0.0.1:9880")
    socket_endpoints(connect)  # refuses what is no endpoint; accounts connect only when their clients log on
    if (accounts is None) == (not names):
        raise ConfigError(
            f"expected --accounts or --account, got {'neither' if accounts is None else 'both'}; give one"
        )
    if not is_comp_id(comp_id):
        raise ConfigError(f"--comp-id: expected printable ASCII, got {comp_id!r}; choose another")
    if not is_loopback(f"tcp://{listen}"):
        log(
            "fix_clear_text",
            f"warning: --listen {listen}: passwords and orders cross the network in clear text; use a TLS proxy",
        )
    found = read_accounts(accounts) if accounts is not None else new_accounts(names)
    require_secrets(found, "FIX")
    for login in found:
        if not is_comp_id(login):
            raise ConfigError(f"expected printable ASCII as the login of an account, got {login!r}; change it")
    if curve is not None:
        read_keys(curve)
    private_folder(store, "store")
    lines = [
        f"FIX 4.4 in front of {connect}",
        f"  listen   {host}:{{port}}",
        f"  comp id  {comp_id}",
        f"  store    {store}",
    ]
    if accounts is None:
        lines += [f"  account  SenderCompID {login}, Password {account.secret}" for login, account in found.items()]
    asyncio.run(serve(Settings(connect, store, curve, comp_id, connections), found, host, port, "\n".join(lines)))
