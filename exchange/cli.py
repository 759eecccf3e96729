"""`serl exchange`: start one, ask it, stop it."""

import functools
import sys
import threading
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import click

from serl.exchange.errors import ConfigError

DEFAULT = "tcp://127.0.0.1:5570"

SLOW_START_S = 3.0


@click.group(epilog="Example: serl exchange start --symbols AMZN,GOOG")
def exchange() -> None:
    """A limit order book exchange that runs as a server."""


def _clock_overrides(text: str) -> dict[str, Any]:
    kind, _, speed = text.partition(":")
    if kind in ("scaled", "lockstep") and speed:
        try:
            return {"kind": kind, "speed": float(speed)}
        except ValueError:
            raise ConfigError(f"--clock {kind}:K with a number K is due, like {kind}:60; got {text!r}") from None
    if speed or kind not in ("live", "scaled", "lockstep"):
        raise ConfigError(f"--clock live, scaled:K, lockstep or lockstep:K is due; got {text!r}")
    return {"kind": kind}


def _times(speed: float) -> str:
    """A clock's speed behind its kind; nothing where it is real time or has no pace."""
    return f" x {speed:g}" if speed not in (0, 1) else ""


def _overrides(**given: Any) -> dict[str, Any]:
    values: dict[str, Any] = {}
    if given["symbols"]:
        parts = [text.strip().partition("=") for text in given["symbols"].split(",")]
        values["symbols"] = [{"name": name, "tick_size": tick or "0.01"} for name, _, tick in parts]
    if given["endpoint"]:
        values["endpoint"] = given["endpoint"]
    if given["journal"]:
        values["journal"] = {"folder": str(given["journal"])}
    clock = _clock_overrides(given["clock"]) if given["clock"] else {}
    if given["clock_start"]:
        clock["start"] = given["clock_start"]
    if given["hold"]:
        clock["held"] = True
    if given["participants"]:
        clock["participants"] = given["participants"]
    if clock:
        values["clock"] = clock
    if given["curve"]:
        values["login"] = {"curve_keys": str(given["curve"])}
    return values


@exchange.command(epilog="Example: serl exchange start --symbols AMZN,GOOG --journal ./journal --clock lockstep")
@click.option(
    "--config", type=click.Path(path_type=Path), help="YAML settings over the defaults of configs/exchange.yaml."
)
@click.option("--symbols", help="Names, each with =TICK where it is not 0.01: AMZN,BTC=0.5")
@click.option("--endpoint", help=f"Of the orders socket; the others take the next three ports. [{DEFAULT}]")
@click.option(
    "--journal", type=click.Path(path_type=Path), help="Folder to keep; without it nothing outlives the process."
)
@click.option(
    "--clock", help="live (default), scaled:K (K times real time), lockstep, or lockstep:K (K times at most)."
)
@click.option("--clock-start", help="Time of day at which a scaled or lockstep clock begins, like 09:30.")
@click.option(
    "--hold", is_flag=True, help="The clock (scaled:K, lockstep:K) waits until it is set (serl replay does that)."
)
@click.option("--participants", type=int, help="A lockstep clock stands still until this many have promised.")
@click.option("--curve", type=click.Path(path_type=Path), help="Key folder of `serl keys new`: encrypted, any address.")
def start(config: Path | None, **given: Any) -> None:
    """Starts an exchange and serves until Ctrl-C."""
    began = time.perf_counter()
    from serl.exchange.config import load_config

    settings = load_config(config, _overrides(**given))
    from serl.exchange.server import Exchange

    slow = threading.Timer(SLOW_START_S, click.echo, ["compiling: the first start takes about a minute"], {"err": True})
    slow.daemon = True
    slow.start()
    server = Exchange(settings)

    def ready() -> None:
        slow.cancel()
        recovery = server.core.recovery
        names = ", ".join(symbol.name for symbol in settings.symbols[:8]) + (
            " ..." if len(settings.symbols) > 8 else ""
        )
        where = settings.journal.folder or "temporary (goes with the process; keep it with --journal DIR)"
        click.echo(f"exchange ready in {time.perf_counter() - began:.2f} s, epoch {server.core.journal.epoch}: {names}")
        for name, endpoint in settings.endpoints.items():
            click.echo(f"  {name:8} {endpoint}{' (CURVE)' if settings.login.curve_keys else ''}")
        click.echo(f"  clock    {settings.clock.kind}{_times(server.clock.speed)}")
        click.echo(f"  journal  {where}")
        if recovery.snapshot_sequence or recovery.commands or recovery.dropped_bytes:
            click.echo(
                f"  restored snapshot at command {recovery.snapshot_sequence:,} and {recovery.commands:,} commands behind it; "
                f"dropped {recovery.dropped_bytes} bytes of an unfinished row"
            )
        sys.stdout.flush()

    reason = server.run(ready)
    click.echo(f"exchange stopped ({reason}): {server.core.command_sequence:,} commands journaled")


@exchange.command("compile", epilog="Example: serl exchange compile")
def compile_ahead() -> None:
    """Compiles all that exchanges run, every order type too, and keeps it: once on a machine, so that nobody waits for it later."""
    began = time.perf_counter()
    from serl.exchange.config import load_config
    from serl.exchange.ports import free_port
    from serl.exchange.server import Exchange

    click.echo("compiling what this machine has not yet: the first time that takes some minutes", err=True)
    settings = {"endpoint": f"tcp://127.0.0.1:{free_port()}", "full_rule_book": True}
    server = Exchange(load_config(None, settings))
    server.run(lambda: server.stop("all is compiled"))
    click.echo(f"compiled in {time.perf_counter() - began:.1f} s")


def _ask(endpoint: str, curve: Path | None, socket: str, kind: str, *arguments: Any) -> list[Any]:
    """What the exchange answers to a `Kind`, by its name, on one of its sockets; `curve`: a key folder."""
    from serl.exchange.request import request_socket
    from serl.exchange.wire import Kind

    with request_socket(endpoint, socket, curve) as ask:
        return ask(Kind[kind], *arguments)


Asking = Callable[..., Any]
"""`ask(socket, kind, *arguments)` of the exchange that the options of a command name."""


def _asking(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the options that say which exchange it asks, and `ask` in their place."""

    @click.option("--connect", default=DEFAULT, show_default=True, help="Orders endpoint of the exchange.")
    @click.option("--curve", type=click.Path(path_type=Path), help="Key folder, where the exchange has keys.")
    @functools.wraps(command)
    def asking(connect: str, curve: Path | None, **given: Any) -> None:
        command(ask=functools.partial(_ask, connect, curve), **given)

    return asking


@exchange.command(epilog="Example: serl exchange status --connect tcp://127.0.0.1:5570")
@_asking
def status(ask: Asking) -> None:
    """Prints symbols, clock and counts of a running exchange."""
    info = ask("queries", "INFO")
    counts = ask("queries", "STATISTICS")[5]
    _, symbols, clock, _ = info[5]
    click.echo(f"epoch {info[2]}, clock {clock[0]}{_times(clock[1])} at {clock[2]} ns")
    click.echo("symbols " + ", ".join(f"{name} (tick {tick})" for _, name, tick, _ in symbols))
    for name, value in counts.items():
        click.echo(f"{name:12} {value:,}")


@exchange.command(epilog="Example: serl exchange stop")
@_asking
@click.option("--token", default="", help="An operator's token, where the exchange has tokens.")
def stop(ask: Asking, token: str) -> None:
    """Stops a running exchange cleanly."""
    ask("admin", "STOP", token)
    click.echo("stopping")


OPERATIONS = ["end-day", "halt", "resume", "uncross"]
"""Names of a CommandKind; as all names here in small letters, and looked up when a command runs: `--help` loads nothing."""
PHASES = ["continuous", "pre-open", "opening", "intraday", "volatility", "closing", "closed"]
"""Names of a Phase."""
HALT_REASONS = ["operator", "news", "volatility", "technical", "regulatory"]
"""Names of a HaltReason."""


def _number(names: Any, name: str) -> int:
    return int(names[name.upper().replace("-", "_")])


@exchange.command("operate", epilog="Example: serl exchange operate halt --symbol 0")
@click.argument("what", type=click.Choice([*OPERATIONS, *PHASES]))
@click.option("--symbol", default=0, show_default=True, help="Symbol number (all but end-day).")
@_asking
@click.option("--token", default="", help="An operator's token, where the exchange has tokens.")
@click.option("--reason", type=click.Choice(HALT_REASONS), help="Of a halt: everybody is told.")
def operate(what: str, symbol: int, ask: Asking, token: str, reason: str | None) -> None:
    """Ends the day (cancels DAY orders), halts or resumes a symbol, brings it into a phase of the day, or holds an auction now."""
    from serl.exchange.records import CommandKind, HaltReason, Phase

    if reason is not None and what != "halt":
        raise ConfigError(f"--reason is for halt; got {what}")
    flags = _number(Phase, what) if what in PHASES else _number(HaltReason, reason or "none")
    kind = CommandKind.PHASE if what in PHASES else _number(CommandKind, what)
    ask("admin", "OPERATE", token, int(kind), symbol, flags)
    click.echo(f"{what}: done")


@exchange.command("purge", epilog="Example: serl exchange purge alice --side sell")
@click.argument("participant")
@click.option("--symbol", type=int, help="Symbol number. [all]")
@click.option("--side", type=click.Choice(["buy", "sell"]), help="[both]")
@_asking
@click.option("--token", default="", help="An operator's token, where the exchange has tokens.")
def purge(participant: str, symbol: int | None, side: str | None, ask: Asking, token: str) -> None:
    """Cancels the open orders of a participant."""
    from serl.exchange.records import ALL_SYMBOLS

    where, flags = ALL_SYMBOLS if symbol is None else symbol, {None: 0, "buy": 1, "sell": 2}[side]
    click.echo(f"{ask('admin', 'PURGE', token, participant, where, flags)[5]} orders cancelled")


@exchange.command("kill", epilog="Example: serl exchange kill alice")
@click.argument("participant")
@click.option("--off", is_flag=True, help="Lets the participant send orders again.")
@_asking
@click.option("--token", default="", help="An operator's token, where the exchange has tokens.")
def kill(participant: str, off: bool, ask: Asking, token: str) -> None:
    """Presses the kill switch of a participant: cancels its open orders and takes no new ones, until --off. It outlives restarts."""
    cancelled = ask("admin", "KILL", token, participant, int(not off))[5]
    click.echo(
        f"{participant} may send orders again" if off else f"{participant} is killed: {cancelled} orders cancelled"
    )


@exchange.command("account", epilog="Example: serl exchange account alice")
@click.argument("participant")
@_asking
@click.option("--token", default="", help="The participant's token or an operator's, where the exchange has tokens.")
def account(participant: str, ask: Asking, token: str) -> None:
    """Prints what a participant holds and has made, by symbol, in ticks x lots; open positions are worth the last trade."""
    from serl.exchange.account import Account
    from serl.exchange.records import MICRO

    names = {number: name for number, name, *_ in ask("queries", "INFO")[5][1]}
    click.echo(f"{'symbol':12}{'position':>14}{'cash':>20}{'realised':>20}{'unrealised':>20}{'fees':>20}")
    for symbol, last_ticks, *balances in ask("queries", "ACCOUNT", token, participant)[5]:
        held = Account.of(balances)
        fees = Decimal(held.fees_microticks) / MICRO
        click.echo(
            f"{names[symbol]:12}{held.position_lots:14,}{held.cash_ticks:20,}{held.realised_ticks:20,}"
            f"{held.unrealised_ticks(last_ticks):20,}{fees:20,}"
        )
