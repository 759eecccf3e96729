"""`serl binance`: an exchange for bots that speak Binance's spot API."""

from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING

import click

from serl.exchange.cli_login import curve_option, token_options
from serl.exchange.errors import ConfigError
from serl.exchange.user_folders import user_folder
from serl.gateways.addresses import read_address
from serl.gateways.connections import REQUESTS, ConnectionLimits, connection_options

if TYPE_CHECKING:
    from serl.gateways.accounts import Accounts

LISTEN = "127.0.0.1:9080"


@click.group(epilog="Example: serl binance start --account alice")
def binance() -> None:
    """Serve Binance's spot API for an exchange, so that bots for Binance trade on it."""


@binance.command(
    epilog="Example: serl binance start --connect tcp://127.0.0.1:5570 --listen 127.0.0.1:9080 --account alice"
)
@click.option("--connect", default="tcp://127.0.0.1:5570", show_default=True, help="Orders endpoint of the exchange.")
@click.option("--listen", default=LISTEN, show_default=True, help="HOST:PORT to serve on; port 0: any free one.")
@click.option(
    "--accounts", "file", type=click.Path(dir_okay=False, path_type=Path),
    help="YAML file of participants with their API keys and secrets: docs/gateways/binance.md.",
)  # fmt: skip
@click.option(
    "--account", "names", multiple=True, help="Participant to make an API key and a secret for; may be repeated."
)
@click.option("--quote", default="USDT", show_default=True, help="Quote asset: the exchange's DEMO becomes DEMOUSDT.")
@click.option(
    "--balance",
    help="Amount of the quote asset that each account starts with, like 100000; balances in --accounts take precedence.",
)
@click.option(
    "--orders",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the client order ids; by default one of this user for this exchange.",
)
@click.option(
    "--weight-per-minute",
    default=6000,
    show_default=True,
    type=click.IntRange(0),
    help="Request weight that an address may use in a minute; 0: no limit.",
)
@click.option(
    "--orders-per-10s",
    default=100,
    show_default=True,
    type=click.IntRange(0),
    help="New orders that an account may send in ten seconds; 0: no limit.",
)
@click.option(
    "--orders-per-day",
    default=200_000,
    show_default=True,
    type=click.IntRange(0),
    help="New orders that an account may send in a day; 0: no limit.",
)
@connection_options(REQUESTS)
@curve_option
@token_options("Token of a participant that may read data")
def start(
    connect: str, listen: str, file: Path | None, names: tuple[str, ...], quote: str, balance: str | None, folder: Path | None,
    weight_per_minute: int, orders_per_10s: int, orders_per_day: int, connections: ConnectionLimits,
    curve: Path | None, token: str,
) -> None:  # fmt: skip
    """Serve REST, streams and the WebSocket API of Binance for a running exchange, until Ctrl-C."""
    from serl.exchange.log import log_to_stderr
    from serl.gateways.binance.limits import LimitSettings
    from serl.gateways.binance.server import Settings, run

    log_to_stderr("text")
    if not (quote.isascii() and quote.isalnum() and quote.isupper()):
        raise ConfigError(f"--quote: expected capital letters and digits, got {quote!r}; for example USDT")
    accounts = _accounts(file, names, quote, balance)
    settings = Settings(
        connect, read_address("--listen", listen, LISTEN), accounts, folder or _folder(connect), quote, token, curve,
        LimitSettings(weight_per_minute, orders_per_10s, orders_per_day),
        connections,
    )  # fmt: skip

    def print_ready(address: str, symbols: list[str]) -> None:
        click.echo(f"binance gateway of {connect}: {', '.join(symbols)}")
        click.echo(f"  REST          http://{address}/api/v3")
        click.echo(f"  streams       ws://{address}/ws and ws://{address}/stream")
        click.echo(f"  WebSocket API ws://{address}/ws-api/v3")
        for key, account in accounts.items():
            shown = f", secret {account.secret}" if account.participant in names else ""
            click.echo(f"  account {account.participant}: API key {key}{shown}")

    run(settings, print_ready)


def _accounts(file: Path | None, names: tuple[str, ...], quote: str, balance: str | None) -> "Accounts":
    """The accounts in a file, and new ones."""
    from serl.gateways.accounts import by_login, new_accounts, read_accounts

    if file is None and not names:
        raise ConfigError(
            "expected --accounts FILE or --account NAME, got neither; name who may trade, for example with --account alice"
        )
    accounts = by_login([*(read_accounts(file).values() if file is not None else ()), *new_accounts(names).values()])
    if balance is None:
        return accounts
    try:
        amount = Decimal(balance)
    except InvalidOperation:
        amount = Decimal("NaN")
    if not amount.is_finite():
        raise ConfigError(f"--balance: expected an amount of {quote}, got {balance!r}; for example 100000")
    return {
        key: each.model_copy(update={"balances": {quote: amount, **each.balances}}) for key, each in accounts.items()
    }


def _folder(connect: str) -> Path:
    """The folder in which this user's gateways keep the client order ids for an exchange."""
    return (
        user_folder("XDG_STATE_HOME", ".local/state")
        / "serl"
        / "binance"
        / connect.rpartition("/")[2].replace(":", "-")
    )
