"""`serl exchange deposit` and `withdraw`, and what an account has of each asset."""

from decimal import Decimal, InvalidOperation

import click

from serl.exchange.cli_request import Request, exchange_options
from serl.exchange.errors import ConfigError


@click.command("deposit", epilog="Example: serl exchange deposit alice USD 100000")
@click.argument("participant")
@click.argument("asset")
@click.argument("amount")
@exchange_options
def deposit(participant: str, asset: str, amount: str, request: Request) -> None:
    """Add an AMOUNT to what a participant has of an ASSET: what a symbol trades, or a currency."""
    _deposit(request, participant, asset, amount)


@click.command("withdraw", epilog="Example: serl exchange withdraw alice USD 100000")
@click.argument("participant")
@click.argument("asset")
@click.argument("amount")
@exchange_options
def withdraw(participant: str, asset: str, amount: str, request: Request) -> None:
    """Take an AMOUNT off what a participant has of an ASSET. It is refused if the account has balance checks and less than AMOUNT is free."""
    if not _is_positive(amount):
        raise ConfigError(
            f"AMOUNT: expected a number above 0, got {amount[:80]!r}; give what is to be taken off, like 100"
        )
    _deposit(request, participant, asset, f"-{amount}")


def _is_positive(amount: str) -> bool:
    """Whether the text is a number above 0."""
    try:
        return amount[:1] != "+" and Decimal(amount) > 0
    except InvalidOperation:
        return False


def _deposit(request: Request, participant: str, asset: str, amount: str) -> None:
    request("admin", "DEPOSIT", participant, asset, amount)
    print_balances(request, participant)


def print_balances(request: Request, participant: str) -> None:
    """Prints a table of an account's balance of each asset; nothing for an account without deposits and balance checks."""
    checked, rows = request("queries", "BALANCES", participant)[5]
    if not checked and not rows:
        return
    click.echo(f"{'asset':12}{'balance':>24}{'reserved':>24}{'free':>24}")
    for asset, *amounts in rows:
        balance, reserved = map(Decimal, amounts)
        click.echo(f"{asset:12}" + "".join(f"{amount:24,f}" for amount in (balance, reserved, balance - reserved)))
