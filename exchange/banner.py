"""What `serl exchange start` prints when the exchange is ready."""

import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from serl.exchange.config import ExchangeConfig
    from serl.exchange.server import Exchange
    from serl.exchange.trader_processes import TraderProcesses


def speed_text(speed: float) -> str:
    """A clock's speed, to print after its kind; empty for real time and for lockstep without a pace."""
    return f" x {speed:g}" if speed not in (0, 1) else ""


def print_banner(
    settings: "ExchangeConfig", server: "Exchange", seconds: float, traders: "TraderProcesses | None"
) -> None:
    """Prints the endpoints and settings of an exchange that is ready, and lets its traders join."""
    recovery = server.core.recovery
    names = ", ".join(symbol.name for symbol in settings.symbols[:8]) + (" ..." if len(settings.symbols) > 8 else "")
    folder = settings.journal.folder or "temporary (deleted at the end; keep it with --journal DIR)"
    click.echo(f"exchange ready in {seconds:.2f} s, epoch {server.core.journal.epoch}: {names}")
    for name, endpoint in settings.endpoints.items():
        click.echo(f"  {name:8} {endpoint}{' (CURVE)' if settings.login.curve_keys else ''}")
    click.echo(f"  clock    {settings.clock.kind}{speed_text(server.clock.speed)}")
    click.echo(f"  operator {_operator_text(settings)}")
    if traders is not None:
        click.echo(f"  traders  {traders.join()}")
    click.echo(f"  journal  {folder}")
    if recovery.snapshot_sequence or recovery.commands or recovery.dropped_bytes:
        click.echo(
            f"  restored snapshot at command {recovery.snapshot_sequence:,} and {recovery.commands:,} commands after it; "
            f"dropped {recovery.dropped_bytes} bytes of an incomplete row"
        )
    sys.stdout.flush()


def _operator_text(settings: "ExchangeConfig") -> str:
    """Who may operate."""
    from serl.exchange.config import endpoint_port
    from serl.exchange.private_files import operator_file

    configured = [name for name, own in settings.login.participants.items() if "operate" in own.permissions]
    return ", ".join(configured) or f"this user, with {operator_file(endpoint_port(settings.endpoint))}"
